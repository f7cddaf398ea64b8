//! What the README shows is what the program prints.

mod common;

use std::path::Path;

use common::{command, finish, fixture};

const BEGIN: &str = "<!-- excerpt -->";
const END: &str = "<!-- end excerpt -->";

/// The lines of the report that the README shows: from the first to the end of the breakdown of
/// the first phase.
fn excerpt() -> String {
    let mut command = command(["report", "--quiet"]);
    command.arg(fixture("kimi_tp8_decode")).env("COLUMNS", "100");
    let text = finish(&mut command).answer();
    let end = text.find("\nWall time of the whole capture").expect("the capture has phases");
    let shown: Vec<&str> = text[..end].trim_end().lines().collect();
    format!("{BEGIN}\n```text\n{}\n```\n{END}", shown.join("\n"))
}

/// `NSYSCOPE_BLESS=1 cargo test -p nsyscope-cli --test readme` writes it anew.
#[test]
fn the_excerpt_is_real() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (from, to) = (readme.find(BEGIN).unwrap(), readme.find(END).unwrap() + END.len());
    let expected = excerpt();
    if std::env::var_os("NSYSCOPE_BLESS").is_some() {
        std::fs::write(&path, format!("{}{expected}{}", &readme[..from], &readme[to..])).unwrap();
        return;
    }
    assert_eq!(&readme[from..to], expected, "the README's excerpt is stale");
}
