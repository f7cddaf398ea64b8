//! Rules that users add: what they win over, and how errors in them are told.

use std::path::Path;

use nsyscope::kernel::{Classifier, Origin, Outcome, Severity, check};
use nsyscope::{Error, ErrorKind};
use proptest::prelude::*;

const NVJET: &str = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT";

fn with(text: &str) -> Result<Classifier, Error> {
    Classifier::builtin().with_user_rules(text, Path::new("mine.toml"))
}

fn refused(text: &str) -> (String, String) {
    let error = with(text).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Rules);
    assert_eq!(error.path(), Some(Path::new("mine.toml")));
    (error.to_string(), error.hint().expect("a hint").to_owned())
}

#[test]
fn users_rules_win_in_file_order() {
    let classifier = with(
        r#"
        [[rule]]
        id = "mine.first"
        category = "gemm/my_gemm"
        function = ["nvjet_*"]
        examples = ["nvjet_a"]

        [[rule]]
        id = "mine.second"
        category = "gemm/other"
        function = ["nvjet_*", "my_own_#"]
        examples = ["my_own_17"]
        "#,
    )
    .expect("valid");
    let found = classifier.classify(NVJET, None);
    assert_eq!(found.category, "gemm/my_gemm");
    assert_eq!(classifier.classify("my_own_3", None).category, "gemm/other");
    let why = classifier.explain(NVJET, None);
    let shadowed: Vec<&str> = why.shadowed.iter().map(|hit| hit.rule.as_str()).collect();
    assert_eq!(shadowed, ["mine.second", "nvjet"]);
    assert!(classifier.filter("my_gemm").is_ok());
}

#[test]
fn a_rule_of_the_same_id_replaces_the_builtin_one() {
    let classifier = with(
        r#"
        [[rule]]
        id = "nvjet"
        category = "gemm/jet"
        function = ["nvjet_sm90_*"]
        examples = ["nvjet_sm90_x"]
        "#,
    )
    .expect("valid");
    assert_eq!(classifier.classify(NVJET, None).category, "gemm/jet");
    assert!(classifier.classify("nvjet_tst_x", None).category.is_unclassified());
    assert_eq!(classifier.rules().filter(|rule| rule.id() == "nvjet").count(), 1);
    let rule = classifier.rule("nvjet").expect("there");
    assert_eq!(rule.origin(), &Origin::File("mine.toml".into()));
}

#[test]
fn a_later_file_comes_first() {
    let file = |category: &str| {
        format!(
            "[[rule]]\nid = \"{category}\"\ncategory = \"a/{category}\"\nfunction = [\"k\"]\nexamples = [\"k\"]\n"
        )
    };
    let classifier = with(&file("one"))
        .and_then(|c| c.with_user_rules(&file("two"), Path::new("second.toml")))
        .expect("valid");
    assert_eq!(classifier.classify("k", None).category, "a/two");
}

#[test]
fn order_sorts_within_a_file() {
    let classifier = with(
        r#"
        [[rule]]
        id = "late"
        order = 5
        category = "a/late"
        function = ["k*"]
        examples = ["kx"]
        [[rule]]
        id = "early"
        category = "a/early"
        function = ["k"]
        examples = ["k"]
        "#,
    )
    .expect("valid");
    assert_eq!(classifier.classify("k", None).category, "a/early");
}

#[test]
fn regexes_need_one_of_their_literals() {
    let text = r#"
        [[rule]]
        id = "mine"
        category = "a/b"
        literals = ["left", "right"]
        regex = '(?:left|right)_turn'
        examples = ["left_turn", "void x<right_turn>()"]
        counterexamples = ["right"]
        [[rule]]
        id = "mangled"
        category = "a/c"
        on = "mangled"
        literals = ["_Z3"]
        regex = '^_Z3abc'
        examples = ["_Z3abcv"]
        "#;
    let classifier = with(text).expect("valid");
    assert_eq!(classifier.classify("left_turn", None).category, "a/b");
    assert_eq!(classifier.classify("abc()", Some("_Z3abcv")).category, "a/c");
    assert!(classifier.classify("abc()", None).category.is_unclassified());
}

#[test]
fn errors_name_file_line_rule_and_the_way_out() {
    let rule = |body: &str| format!("\n[[rule]]\nid = \"x.y\"\n{body}\n");
    for (text, place, message, hint) in [
        (
            rule("category = \"Gemm\"\nfunction = [\"k\"]"),
            "line 4, column 12, rule `x.y`",
            "`Gemm` is no category",
            "family/kind",
        ),
        (
            rule("category = \"a/b\"\nregex = '(['"),
            "line 5, column 9, rule `x.y`",
            "the pattern of `regex` is invalid",
            "look-around",
        ),
        (rule("category = \"a/b\"\nregex = '(?=x)'"), "line 5", "look-around", "look-around"),
        (
            rule("category = \"a/b\"\nfunction = [\"k\"]\nwhere = '['"),
            "line 6",
            "the pattern of `where`",
            "quote them",
        ),
        (
            rule("category = \"a/b\"\nregx = 'k'"),
            "line 5, column 1",
            "unknown field `regx`",
            "docs/kernel-rules.md",
        ),
        (rule("category = \"a/b\""), "line 3", "match nothing", "`function` or `regex`"),
        (
            rule("category = \"a/b\"\nfunction = [\"ns::k\"]"),
            "line 5, column 13",
            "`ns::k` is no function name",
            "without namespace",
        ),
        (
            rule("category = \"a/b\"\nwhere = 'k'"),
            "line 3",
            "match nothing",
            "`function` or `regex`",
        ),
        (
            rule("category = \"a/b\"\nregex = 'k'\nwhere = 'k'"),
            "line 6",
            "`where` without `function`",
            "regex",
        ),
        (
            rule("category = \"a/b\"\non = \"mangled\"\nfunction = [\"k\"]"),
            "line 3",
            "on = \"mangled\"",
            "regex",
        ),
        (
            rule("category = \"a/b\"\nfunction = [\"k\"]\nexamples = [\"m\"]"),
            "line 6, column 13",
            "does not match its own example `m`",
            "normalised",
        ),
        (
            rule("category = \"a/b\"\nfunction = [\"k\"]\ncounterexamples = [\"k\"]"),
            "line 6",
            "decides its counterexample `k`",
            "narrow",
        ),
        (
            rule("category = \"a/b\"\nliterals = [\"q\"]\nregex = 'k'\nexamples = [\"k\"]"),
            "line 7",
            "does not match its own example",
            "literals",
        ),
        (rule("order = \"1\""), "line 4, column 9", "invalid type", "[[rule]]"),
        ("[[rule]\n".to_owned(), "line 1", "", "[[rule]]"),
        ("[[rule]]\ncategory = \"a/b\"\n".to_owned(), "line 1", "missing field `id`", "[[rule]]"),
    ] {
        let (told, advice) = refused(&text);
        assert!(told.starts_with("`mine.toml`: line "), "{told}");
        for part in [place, message] {
            assert!(told.contains(part), "{part:?} not in {told:?}");
        }
        assert!(advice.contains(hint), "{hint:?} not in {advice:?}");
    }
}

#[test]
fn duplicates_are_refused() {
    let rule = "[[rule]]\nid = \"x\"\ncategory = \"a/b\"\nfunction = [\"k\"]\n";
    let (told, _) = refused(&format!("{rule}{rule}"));
    assert!(told.contains("line 6") && told.contains("already on line 2"), "{told}");
}

#[test]
fn more_rules_than_can_be_told_apart_are_refused() {
    let rules = |ids: std::ops::Range<u32>| {
        let rule = |i| format!("[[rule]]\nid='r{i}'\ncategory='a/c{i}'\nfunction=['k{i}']\n");
        ids.map(rule).collect::<Vec<String>>().concat()
    };
    let half = with(&rules(0..26_000)).expect("enough");
    let error = half
        .with_user_rules(&rules(30_000..54_001), Path::new("mine.toml"))
        .expect_err("one more than there may be, with those of another file");
    assert_eq!(error.kind(), ErrorKind::Rules);
    assert_eq!(error.path(), Some(Path::new("mine.toml")));
    assert!(error.to_string().contains("50001 rules"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn an_example_that_an_earlier_rule_takes_is_an_error() {
    let (told, hint) = refused(
        r#"
        [[rule]]
        id = "wide"
        category = "a/b"
        function = ["k*"]
        examples = ["k1"]
        [[rule]]
        id = "narrow"
        category = "a/c"
        function = ["k2"]
        examples = ["k2"]
        "#,
    );
    assert!(told.contains("the example `k2` is taken by the earlier rule `wide` (a/b)"), "{told}");
    assert!(hint.contains("before `wide`"), "{hint}");
}

#[test]
fn a_check_reports_everything_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("rules.toml");
    let text = r#"
[[rule]]
id = "good"
category = "a/b"
function = ["good_kernel"]
examples = ["good_kernel", "bad_kernel"]
counterexamples = ["nvjet_x"]

[[rule]]
id = "slow"
category = "a/c"
regex = 'slow'
examples = ["slow"]

[[rule]]
id = "unproven"
category = "a/c"
literals = ["left"]
regex = 'left|right'
examples = ["left"]

[[rule]]
id = "broken"
category = "a/c"
regex = '('
"#;
    std::fs::write(&path, text).expect("written");
    let report = check(&path).expect("well-formed");
    assert!(!report.is_ok());
    let ids: Vec<&str> = report.rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, ["good", "slow", "unproven"]);
    assert_eq!(report.rules[0].examples[1].outcome, Outcome::Unclassified);
    assert!(report.rules[0].counterexamples[0].holds);
    let problems: Vec<(Severity, &str, usize)> =
        report.problems.iter().map(|p| (p.severity, p.rule.as_str(), p.line)).collect();
    assert_eq!(
        problems,
        [
            (Severity::Error, "good", 6),
            (Severity::Warning, "slow", 12),
            (Severity::Warning, "unproven", 19),
            (Severity::Error, "broken", 25),
        ]
    );
    let text = report.to_string();
    assert!(text.contains("FAILS example `bad_kernel` -> no rule"), "{text}");
    assert!(text.ends_with("3 rules, 2 errors, 2 warnings\n"), "{text}");
    let json = serde_json::to_value(&report).expect("serialises");
    assert_eq!(json["rules"][0]["counterexamples"][0]["rule"], "nvjet");
}

#[test]
fn warnings_do_not_refuse_a_file() {
    let text = "[[rule]]\nid = \"slow\"\ncategory = \"a/c\"\nregex = 'slow'\n";
    let report = Classifier::builtin().check(text, Path::new("mine.toml")).expect("well-formed");
    assert!(report.is_ok() && report.problems.len() == 2);
    assert_eq!(with(text).expect("usable").classify("so_slow", None).category, "a/c");
}

#[test]
fn a_missing_file_is_named() {
    let error =
        Classifier::builtin().with_rules_file(Path::new("no/such.toml")).expect_err("absent");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.path(), Some(Path::new("no/such.toml")));
}

#[test]
fn explanations_are_truthful() {
    let classifier = Classifier::builtin();
    let name = "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(T3)";
    let why = classifier.explain(name, None);
    let hit = why.decided_by.as_ref().expect("a rule");
    assert_eq!(hit.rule.as_str(), "aten.reduce.sum");
    assert_eq!(
        (hit.key, hit.pattern.as_str(), hit.matched.as_str()),
        ("function", "reduce_kernel", "reduce_kernel")
    );
    assert_eq!(hit.condition.as_deref(), Some("MeanOps"));
    assert!(hit.needs_context);
    assert_eq!(
        why.shadowed.iter().map(|hit| hit.rule.as_str()).collect::<Vec<_>>(),
        ["aten.reduce"]
    );
    let near: Vec<&str> = why.near_misses.iter().map(|miss| miss.rule.as_str()).collect();
    assert_eq!(near, ["aten.argmax"]);
    let text = why.to_string();
    assert!(
        text.starts_with("reduce/sum\n") && text.contains("shadowed  aten.reduce (reduce/reduce"),
        "{text}"
    );
    assert!(
        text.contains(
            "near      aten.argmax (sampling/argmax): has function `reduce_kernel`, lacks where"
        ),
        "{text}"
    );

    let why = classifier.explain("saxpy(float)", None);
    assert_eq!((why.decided_by, why.shadowed.len()), (None, 0));
    assert!(why.category.is_unclassified());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = with(&text);
    }

    #[test]
    fn any_values_are_read_or_refused(
        id in "[a-z. ]{0,6}", category in "[a-z/]{0,6}", function in "[a-z*#:]{0,6}",
        regex in "[a-z()|*?\\[\\]]{0,8}", example in "[a-z:<>() *]{0,12}",
    ) {
        let text = format!(
            "[[rule]]\nid = '{id}'\ncategory = '{category}'\nfunction = ['{function}']\nregex = '{regex}'\nexamples = ['{example}']\n"
        );
        // A file that is taken keeps its promise.
        if let Ok(classifier) = with(&text) {
            let found = classifier.classify(&example, None);
            prop_assert_eq!(found.rule.map(|rule| rule.to_string()), Some(id));
        }
    }
}
