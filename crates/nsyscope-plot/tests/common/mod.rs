//! What the tests of pictures share.
#![allow(dead_code, unreachable_pub)]

use nsyscope_plot::Drawing;

/// Whether every element of an SVG is closed in order and no text holds what could open another.
#[track_caller]
pub fn assert_well_formed(svg: &str, what: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "{what}: a bare > in text");
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap_or_else(|| panic!("{what}: an element has no end"));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if tag.starts_with('?') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{what}");
            continue;
        }
        assert!(!tag.contains('<'), "{what}: {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{what}: {tag}");
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(
            ["svg", "title", "desc", "rect", "path", "polyline", "circle", "text"].contains(&name),
            "{what}: {name}"
        );
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{what}: {open:?} are not closed");
    assert!(!svg.contains("href") && !svg.contains("url("), "{what} refers to something");
}

/// Whether a picture is the one that was looked at; `NSYSCOPE_BLESS=1` takes the new one.
#[track_caller]
pub fn assert_as_it_was(name: &str, drawing: &Drawing) {
    let svg = drawing.to_svg();
    assert_well_formed(&svg, name);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let path = folder.join(format!("{name}.svg"));
    if std::env::var_os("NSYSCOPE_BLESS").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(svg == known, "{name}.svg changed: look at it, then NSYSCOPE_BLESS=1");
}
