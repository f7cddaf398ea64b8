//! `report --what-if` and `report --baseline`: answers, refusals and exit codes.

mod common;

use std::ffi::OsString;

use common::{Said, fixture, run};

fn report(words: &[&str], capture: &str) -> Said {
    let words = words.iter().map(OsString::from);
    run([OsString::from("report"), fixture(capture).into_os_string()].into_iter().chain(words))
}

fn config() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../../fixtures/models/kimi-k2.5-like.json").display().to_string()
}

#[test]
fn hypotheses_are_answered_in_text_and_json_alike() {
    let asked =
        ["--what-if", "all_reduce=0.5x", "--what-if", "wait=0,all_reduce=floor", "--config"];
    let words: Vec<&str> = asked.into_iter().collect();
    let config = config();
    let words = [words.as_slice(), &[config.as_str()]].concat();
    let json = report(&[&words[..], &["--format", "json"]].concat(), "kimi_tp8_decode").json();
    let found = json["what_if"].as_array().unwrap();
    assert_eq!(found.len(), 2);
    let text = report(&words, "kimi_tp8_decode").answer();
    assert!(text.contains("\nWhat if\n") && text.contains("\nCeilings"), "{text}");
    for one in found {
        assert_eq!(one["phase"], "decode");
        let line = text.lines().find(|line| line.ends_with(one["text"].as_str().unwrap()));
        let gain = format!("{:.1} %", one["gain_share"].as_f64().unwrap() * 100.0);
        assert!(line.is_some_and(|line| line.contains(&gain)), "{line:?} without {gain}");
    }
    let first = &json["ceilings"][0];
    assert_eq!((&first["what"], &first["at"]), (&"comm/all_reduce".into(), &"floor".into()));
    // Without being asked there are ceilings, and no hypotheses.
    let json = report(&["--format", "json"], "kimi_tp8_decode").json();
    assert!(json["what_if"].is_null() && json["baseline"].is_null());
    assert!(json["ceilings"].as_array().unwrap().iter().all(|c| c["at"] == "zero"));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    for (asked, error, hint) in [
        ("allreduce=0.5x", "no category `allreduce`", "`all_reduce`"),
        ("all_reduce=fast", "is neither a factor", "TARGET=CHANGE"),
        ("moe_gemm=floor", "none was given", "--config"),
        ("idle/tea=0", "no cause `tea`", "launch, sync"),
        ("prefill:comm=0", "no prefill steps", "decode"),
    ] {
        let (said, way_out) = report(&["--what-if", asked], "kimi_tp8_decode").refusal();
        assert!(said.contains(error) && said.contains(asked), "{asked}: {said}");
        assert!(way_out.contains(hint), "{asked}: {way_out}");
    }
    let config = config();
    let words = ["--what-if", "tp.all_reduce.atn=0", "--config", config.as_str()];
    let (said, way_out) = report(&words, "kimi_tp8_decode").refusal();
    assert!(said.contains("no operation `tp.all_reduce.atn`"), "{said}");
    assert!(way_out.contains("`tp.all_reduce.attn`"), "{way_out}");
}

#[test]
fn an_earlier_report_is_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("earlier.json");
    let name = path.display().to_string();
    report(&["--format", "json", "-o", &name], "b3_eager").answer();
    let json = report(&["--baseline", &name, "--format", "json"], "b1_graph_node").json();
    assert_eq!(json["baseline"]["file"], "earlier.json");
    let conclusions = json["baseline"]["conclusions"].as_array().unwrap();
    assert!(conclusions.iter().any(|c| c["subject"] == "idle/launch" && c["holds"] == false));
    let text = report(&["--baseline", &name], "b1_graph_node").answer();
    assert!(text.contains("Against the earlier report") && text.contains("No longer holds"));

    // What is no such report is refused by name.
    let whole = std::fs::read_to_string(&path).unwrap();
    for (content, error) in [
        (&whole[..whole.len() / 2], "cut short"),
        ("{\"schema\": \"nsyscope.kernels/1\"}", "another command"),
        ("SQLite format 3", "not JSON"),
    ] {
        std::fs::write(&path, content).unwrap();
        let (said, _) = report(&["--baseline", &name], "b1_graph_node").refusal();
        assert!(said.contains("earlier.json") && said.contains(error), "{said}");
    }
    let said = report(&["--baseline", "/nonexistent.json"], "b1_graph_node");
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("`/nonexistent.json`: cannot be read"), "{}", said.err);
}
