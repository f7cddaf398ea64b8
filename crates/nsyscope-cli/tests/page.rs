//! `nsyscope report --format html`: one page, whole, that needs nothing and lets nothing in.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{fixture, run};
use nsyscope::format;
use nsyscope_testkit::{fixtures, hazards};

fn page(path: &Path) -> String {
    let words = ["report".as_ref(), path.as_os_str(), "--format".as_ref(), "html".as_ref()];
    run(words).answer()
}

/// Whether every element is closed in order, by HTML's rules for those that are never closed.
fn assert_well_formed(html: &str, what: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap_or_else(|| panic!("{what}: an element has no end"));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{what}: near {rest:.80}");
            continue;
        }
        let name = tag.split([' ', '/', '\n']).next().unwrap();
        if let Some(id) = tag.split(" id=\"").nth(1).and_then(|rest| rest.split('"').next()) {
            assert!(ids.insert(id.to_owned()), "{what}: two elements are #{id}");
        }
        if ["meta", "input", "br"].contains(&name) || tag.ends_with('/') {
            continue;
        }
        open.push(name);
        if ["script", "style"].contains(&name) {
            let close = format!("</{name}>");
            let skip = rest.find(&close).unwrap_or_else(|| panic!("{what}: {name} has no end"));
            rest = &rest[skip..];
        }
    }
    assert!(open.is_empty(), "{what}: {open:?} are not closed");
    for link in html.split(" href=\"").skip(1) {
        let target = link.split('"').next().unwrap();
        let id = target.strip_prefix('#').unwrap_or_else(|| panic!("{what} refers to {target}"));
        assert!(ids.contains(id), "{what}: nothing is #{id}");
    }
}

#[test]
fn pages_are_whole_and_need_nothing() {
    for name in fixtures::names().unwrap() {
        let html = page(&fixture(&name));
        assert_well_formed(&html, &name);
        assert!(html.len() < 3_000_000, "{name}: {} bytes", html.len());
        let outside = html.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", " src=", "<link", "@import", "url(", "<img", "<iframe"] {
            assert!(!outside.contains(word), "{name} asks for {word}");
        }
        let place = |what: &str| html.find(what).unwrap_or_else(|| panic!("{name}: no {what}"));
        assert!(place("id=\"answer\"") < place("id=\"breakdown\""), "the answer comes first");
        assert!(place("id=\"breakdown\"") < place("id=\"method\""));
    }
}

#[test]
fn hostile_captures_make_harmless_pages() {
    for hazard in hazards::all().unwrap() {
        let html = page(hazard.capture.path());
        assert_well_formed(&html, hazard.name);
        assert!(!html.contains("<script>alert") && !html.contains("onerror=\""), "{}", hazard.name);
        assert_eq!(html.matches("<script").count(), html.matches("</script>").count());
    }
}

#[test]
fn its_numbers_are_those_of_the_json() {
    let path = fixture("d7_kimi_tp2");
    let html = page(&path);
    let words = ["report".as_ref(), path.as_os_str(), "--format".as_ref(), "json".as_ref()];
    let json = run(words).json();
    let mut checked = 0;
    for row in json["breakdown"].as_array().unwrap() {
        let share = row["exposed_share"].as_f64().unwrap();
        if share < 0.006 {
            continue;
        }
        checked += 1;
        let cells = [
            format::percent(share),
            format::ns(row["exposed_ns"].as_i64().unwrap()),
            format::ns(row["busy_ns"].as_i64().unwrap()),
            format::count(row["calls"].as_u64().unwrap()),
        ];
        let head = format!("<th scope=\"row\">{}</th>", row["category"].as_str().unwrap());
        let found = html.lines().any(|line| {
            line.contains(&head) && cells.iter().all(|cell| line.contains(&format!(">{cell}</td>")))
        });
        assert!(found, "{head} with {cells:?}");
    }
    assert!(checked > 5);
    for row in json["top_kernels"].as_array().unwrap() {
        let total = format::ns(row["total_ns"].as_i64().unwrap());
        assert!(html.contains(&format!(">{total}</td>")), "{total}");
    }
    for finding in json["findings"].as_array().unwrap() {
        assert!(html.contains(&format!("<code>{}</code>", finding["id"].as_str().unwrap())));
    }
}

#[test]
fn the_same_capture_gives_the_same_page() {
    let path = fixture("c1_tp2");
    let of = |threads: &str| {
        let words = [
            "report".as_ref(),
            path.as_os_str(),
            "--format".as_ref(),
            "html".as_ref(),
            "--threads".as_ref(),
            threads.as_ref(),
        ];
        run(words).answer()
    };
    assert!(of("1") == of("2"));
}

#[test]
fn only_a_report_is_a_page() {
    for words in [&["info"][..], &["kernels"], &["steps"], &["plot", "timeline"]] {
        let path = fixture("c1_tp2");
        let mut all: Vec<&std::ffi::OsStr> = words.iter().map(AsRef::as_ref).collect();
        all.extend([path.as_os_str(), "--format".as_ref(), "html".as_ref()]);
        let (error, _) = run(all).refusal();
        assert_eq!(error, "only a report or a comparison can be HTML");
    }
}

/// A browser, where there is one: the page's script runs without an error and does its work.
#[test]
fn a_browser_shows_it() {
    let Some(browser) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
            Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success())
        })
    else {
        eprintln!("skipped: no browser");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page(&fixture("c1_tp2"))).unwrap();
    let said = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&said.stdout);
    let log = String::from_utf8_lossy(&said.stderr);
    assert!(!log.contains(":CONSOLE"), "the page complains: {log}");
    assert!(dom.contains("title=\"Sort by share\""), "tables cannot be sorted: {log}");
    assert!(dom.contains("<div id=\"zoom\">"), "the step cannot be zoomed into: {log}");
}
