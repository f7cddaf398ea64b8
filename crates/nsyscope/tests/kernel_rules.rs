//! The builtin rules against their own examples and against labelled names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use nsyscope::kernel::{Category, Classifier, Rule, RuleId, normalise};
use proptest::prelude::*;
use serde_json::Value;

fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NSYSCOPE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join(path);
    if !path.exists() {
        eprintln!("skipped: {} absent", path.display());
        return None;
    }
    Some(path)
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// What a name is classified as, against category, op and rule of a label.
fn mismatch(classifier: &Classifier, label: &Value) -> Option<String> {
    let name = text(label, "name").expect("a name");
    let wanted = format!("{}/{}", text(label, "category")?, text(label, "op")?);
    let found = classifier.classify(name, None);
    let rule = found.rule.as_ref().map(RuleId::as_str);
    let rule_fits = text(label, "rule").is_none_or(|wanted| rule == Some(wanted));
    if found.category == wanted.as_str() && rule_fits {
        return None;
    }
    let short: String = name.chars().take(160).collect();
    Some(format!("{} {rule:?}, label {wanted} {:?}: {short}", found.category, text(label, "rule")))
}

#[test]
fn examples_and_counterexamples_hold() {
    let classifier = Classifier::builtin();
    let mut wrong = Vec::new();
    for rule in classifier.rules() {
        assert!((1..=4).contains(&rule.examples().len()), "{}: examples", rule.id());
        let examples = rule.examples().iter().map(|name| (name, true));
        for (name, own) in examples.chain(rule.counterexamples().iter().map(|name| (name, false))) {
            let found = classifier.classify(name, None).rule;
            if found.as_ref().is_some_and(|id| id.as_str() == rule.id()) != own {
                wrong.push(format!("{}: {name} went to {found:?}", rule.id()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn labelled_names_get_their_labels() {
    let Some(path) = shared("domain/labelled_names.jsonl") else { return };
    let lines = std::fs::read_to_string(path).expect("readable");
    let classifier = Classifier::builtin();
    let labels: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let complete: Vec<&Value> = labels.iter().filter(|label| label["complete"] == true).collect();
    assert!(complete.len() > 2000);
    let wrong: Vec<String> =
        complete.iter().filter_map(|label| mismatch(&classifier, label)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), complete.len(), wrong.join("\n"));
}

#[test]
fn traps_are_not_fallen_into() {
    let Some(path) = shared("domain/traps.json") else { return };
    let traps = std::fs::read_to_string(path).expect("readable");
    let traps: Vec<Value> = serde_json::from_str(&traps).expect("JSON");
    assert!(traps.len() >= 40);
    let classifier = Classifier::builtin();
    let wrong: Vec<String> = traps.iter().filter_map(|trap| mismatch(&classifier, trap)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The index offers every rule that fits: the classifier agrees with trying
/// all rules one by one, which is what an explanation does.
#[test]
fn the_index_loses_no_rule() {
    let classifier = Classifier::builtin();
    let names: Vec<String> = classifier
        .rules()
        .flat_map(|rule| rule.examples().iter().chain(rule.counterexamples()))
        .cloned()
        .collect();
    for name in &names {
        let explanation = classifier.explain(name, None);
        let found = classifier.classify(name, None);
        assert_eq!(found.category, explanation.category, "{name}");
        assert_eq!(found.rule, explanation.decided_by.map(|hit| hit.rule), "{name}");
    }
}

#[test]
fn order_of_classification_does_not_matter() {
    let forward = Classifier::builtin();
    let backward = Classifier::builtin();
    let names: Vec<&String> = forward.rules().flat_map(Rule::examples).collect();
    let first: BTreeMap<&String, _> =
        names.iter().map(|name| (*name, forward.classify(name, None))).collect();
    let second: BTreeMap<&String, _> =
        names.iter().rev().map(|name| (*name, backward.classify(name, None))).collect();
    assert_eq!(first, second);
}

#[test]
fn nsys_and_cxxfilt_spellings_agree() {
    let classifier = Classifier::builtin();
    for (nsys, elsewhere) in [
        (
            "void vllm::rms_norm_kernel<c10::BFloat16, (int)8, (int)2, (bool)1>(T1 *, const T1 *, long)",
            "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2, true>(c10::BFloat16*, c10::BFloat16 const*, long)",
        ),
        (
            "void <unnamed>::softmax_warp_forward<float, float, float, (int)6, (bool)0, (bool)0>(T2 *, const T1 *)",
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 6, false, false>(float*, float const*)",
        ),
        (
            "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<(int)8>>, (int)5>>(T1::Params)",
            "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8> >, 5> >(flash::Params)",
        ),
    ] {
        let (a, b) = (classifier.classify(nsys, None), classifier.classify(elsewhere, None));
        assert_eq!(a, b);
        assert!(!a.category.is_unclassified());
    }
}

#[test]
fn mangled_names_help_where_the_export_kept_nothing_else() {
    let classifier = Classifier::builtin();
    let mangled =
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEEE";
    assert_eq!(classifier.classify("device_kernel", Some(mangled)).category, "gemm/dense_gemm");
    assert_eq!(classifier.classify(mangled, None).category, "gemm/dense_gemm");
    assert_eq!(classifier.classify("device_kernel", None).category, Category::UNCLASSIFIED);
}

#[test]
fn very_long_names_are_handled() {
    let classifier = Classifier::builtin();
    let inner = "cute::tuple<cute::C<(int)1>, T1 *, [lambda(int) (instance 1)]>, ".repeat(5000);
    let name =
        format!("void cutlass::device_kernel<flash::FlashAttnFwdSm90<{inner}int>>(T1::Params)");
    assert!(name.len() > 300_000);
    let found = classifier.classify(&name, None);
    assert_eq!(found.category, "attention/flash_attention");
    assert!(classifier.classify(&"<".repeat(300_000), None).rule.is_none());
    assert!(classifier.classify(&"(<)".repeat(100_000), None).rule.is_none());
}

#[test]
fn can_be_shared_between_threads() {
    let classifier = Classifier::builtin();
    let found: Vec<Category> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| classifier.classify("nvjet_tst_x", None).category))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(found.iter().all(|category| *category == "gemm/dense_gemm"));
}

/// Names that look like kernel names: pieces of real ones in any order.
fn name_like() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "void ",
        "(int)4",
        "(bool)1",
        "<unnamed>",
        "::",
        "<",
        ">",
        ">>",
        "> >",
        "(",
        ")",
        "T1 *",
        "4096ul",
        "[lambda(long) (instance 2)]",
        "operator ()",
        "device_kernel",
        "flash::",
        "triton_red_fused_",
        "_0d1de",
        "gemm",
        "reduce_kernel",
        "ncclDevKernel_",
        "{",
        "}",
        "[",
        "]",
        " ",
        "é",
        "_Z",
        "nvjet_",
        ".kd",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_classified_alike_by_index_and_by_trial(
        name in prop_oneof![any::<String>(), name_like()],
        mangled in prop::option::of(any::<String>()),
    ) {
        let classifier = Classifier::builtin();
        let found = classifier.classify(&name, mangled.as_deref());
        let explanation = classifier.explain(&name, mangled.as_deref());
        prop_assert_eq!(&found.category, &explanation.category);
        prop_assert_eq!(&found.rule, &explanation.decided_by.as_ref().map(|hit| hit.rule.clone()));
        prop_assert_eq!(classifier.classify(&name, mangled.as_deref()), found);
        prop_assert!(!explanation.to_string().is_empty());
    }

    #[test]
    fn normalising_only_touches_what_it_knows(name in "[a-zA-Z_:<>, ]{0,40}") {
        let normal = normalise(&name);
        let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        if !name.contains("<unnamed>") {
            prop_assert_eq!(letters(&normal), letters(&name));
        }
    }
}

/// The table of families in the docs is that of the rules.
#[test]
fn documented_families_are_those_of_the_rules() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernel-rules.md");
    let text = std::fs::read_to_string(docs).expect("the docs");
    let mut families: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in Classifier::builtin().rules() {
        let category = rule.category();
        let kinds = families.entry(category.family().to_owned()).or_default();
        kinds.insert(format!("`{}`", category.kind()));
    }
    let mut table = String::from("| family | kinds |\n| --- | --- |\n");
    for (family, kinds) in families {
        let kinds: Vec<String> = kinds.into_iter().collect();
        writeln!(table, "| `{family}` | {} |", kinds.join(", ")).expect("a string takes all");
    }
    let (_, rest) = text.split_once("<!-- kinds -->\n").expect("the start of the table");
    let (documented, _) = rest.split_once("<!-- /kinds -->").expect("the end of the table");
    assert_eq!(documented, table, "replace the table in {docs} by:\n{table}");
}
