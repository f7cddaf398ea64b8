//! `docs/findings.md` describes every finding, and no other; so does the schema.

use std::collections::BTreeSet;
use std::path::Path;

use nsyscope::findings::IDS;

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_finding_has_a_section_and_every_section_a_finding() {
    let text = docs("findings.md");
    let sections: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### `"))
        .map(|rest| rest.trim_end_matches('`'))
        .collect();
    let unique: BTreeSet<&str> = sections.iter().copied().collect();
    assert_eq!(unique.len(), sections.len(), "a section is there twice");
    assert_eq!(unique, IDS.iter().copied().collect());
}

#[test]
fn every_section_says_all_that_a_reader_asks() {
    let text = docs("findings.md");
    for section in text.split("\n### `").skip(1) {
        let id = section.split('`').next().unwrap();
        for part in ["**Says**: ", "**Appears**: ", "**Gain**: ", "**Try**: ", "**Cannot know**: "]
        {
            assert_eq!(section.matches(part).count(), 1, "{id} {part}");
        }
    }
}

#[test]
fn the_schema_knows_every_finding() {
    let schema: serde_json::Value = serde_json::from_str(&docs("report.schema.json")).unwrap();
    let known: BTreeSet<&str> = schema["$defs"]["finding"]["properties"]["id"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert_eq!(known, IDS.iter().copied().collect());
    assert!(IDS.is_sorted());
}
