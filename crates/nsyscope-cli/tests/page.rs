//! `--format html` of reports and comparisons: one page, whole, that needs nothing and lets
//! nothing in.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{fixture, run};
use nsyscope::format;
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};
use nsyscope_testkit::{edit, fixtures, hazards};

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

fn assert_needs_nothing(html: &str, what: &str) {
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", " src=", "<link", "@import", "url(", "<img", "<iframe"] {
        assert!(!outside.contains(word), "{what} asks for {word}");
    }
}

#[test]
fn pages_are_whole_and_need_nothing() {
    for name in fixtures::names().unwrap() {
        let html = page(&fixture(&name));
        assert_well_formed(&html, &name);
        assert!(html.len() < 3_000_000, "{name}: {} bytes", html.len());
        assert_needs_nothing(&html, &name);
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
fn only_reports_and_comparisons_are_pages() {
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
    let shown = |html: String| {
        let file = folder.path().join("page.html");
        std::fs::write(&file, html).unwrap();
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
        let log = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!log.contains(":CONSOLE"), "the page complains: {log}");
        (String::from_utf8_lossy(&said.stdout).into_owned(), log)
    };
    let (dom, log) = shown(page(&fixture("c1_tp2")));
    assert!(dom.contains("title=\"Sort by share\""), "tables cannot be sorted: {log}");
    assert!(dom.contains("<div id=\"zoom\">"), "the step cannot be zoomed into: {log}");
    let (dom, log) = shown(comparison(&fixture("b3_eager"), &fixture("b1_graph_node"), &[]));
    assert!(dom.contains("title=\"Sort by difference\""), "tables cannot be sorted: {log}");
}

/// The page of a comparison of two captures.
fn comparison(base: &Path, new: &Path, more: &[&str]) -> String {
    let words = ["compare".as_ref(), base.as_os_str(), new.as_os_str(), "--format".as_ref()];
    let more = std::iter::once("html").chain(more.iter().copied()).map(AsRef::as_ref);
    run(words.into_iter().chain(more)).answer()
}

#[test]
fn pages_of_comparisons_are_whole_and_need_nothing() {
    let pairs: [(&str, &str, &[&str]); 5] = [
        ("b3_eager", "b1_graph_node", &[]),
        ("c1_tp2", "c2_spin", &["--by", "kernel"]),
        ("c1_tp2", "c1_tp2", &[]),
        ("d2_ds_fp8_tp1", "kimi_tp8_decode", &["--campaigns"]),
        ("b2_graph_level", "b2_graph_level", &[]),
    ];
    for (base, new, more) in pairs {
        let what = format!("{base} {new}");
        let html = comparison(&fixture(base), &fixture(new), more);
        assert_well_formed(&html, &what);
        assert_needs_nothing(&html, &what);
        let place = |id: &str| {
            html.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("{what}: no {id}"))
        };
        let order = ["answer", "phase-1", "changes", "limits"].map(place);
        assert!(order.is_sorted(), "{what}: the answer comes first");
        let picture = html.find("<svg").unwrap_or_else(|| panic!("{what}: no picture"));
        assert!(order[1] < picture && picture < order[2], "{what}");
        assert!(html.len() < 1_000_000, "{what}: {} bytes", html.len());
        assert!(comparison(&fixture(base), &fixture(new), more) == html, "{what}");
    }
}

#[test]
fn numbers_of_a_comparisons_page_are_those_of_the_json() {
    let (base, new) = (fixture("b3_eager"), fixture("b1_graph_node"));
    let html = comparison(&base, &new, &[]);
    let words = ["compare".as_ref(), base.as_os_str(), new.as_os_str(), "--format".as_ref()];
    let json = run(words.into_iter().chain(["json".as_ref()])).json();
    let ns = |value: &serde_json::Value| format::ns(value.as_i64().unwrap());
    let mut checked = 0;
    for phase in json["phases"].as_array().unwrap() {
        for key in ["base_wall_ns", "new_wall_ns"] {
            assert!(html.contains(&format!(">{}</td>", ns(&phase[key]))), "{key}");
        }
        for row in phase["rows"].as_array().unwrap().iter().take(12) {
            checked += 1;
            let delta = format::signed_duration(row["delta_ns"].as_f64().unwrap());
            let cells = [ns(&row["base_ns_per_step"]), ns(&row["new_ns_per_step"]), delta.clone()];
            let found = html.lines().any(|line| {
                line.contains("<th scope=\"row\">")
                    && cells.iter().all(|cell| line.contains(&format!(">{cell}</td>")))
            });
            assert!(found, "{row}");
            assert!(html.contains(&format!(">{delta}</text>")), "{delta} is on no picture");
        }
    }
    assert!(checked > 8);
}

#[test]
fn hostile_captures_make_harmless_pages_of_comparisons() {
    let mut seen = 0;
    for hazard in hazards::all().unwrap() {
        let path = hazard.capture.path().as_os_str();
        let words = ["compare".as_ref(), path, path, "--format".as_ref(), "html".as_ref()];
        let said = run(words);
        // Most hold too little to be compared.
        if said.code == Some(0) {
            seen += 1;
            assert_well_formed(&said.out, hazard.name);
            assert!(!said.out.contains("<script>alert") && !said.out.contains("onerror=\""));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let evil = "</svg></code><script>alert(1)</script>\"'&\u{202e}";
    let [base, new] = ["<img src=x onerror='alert(2)'>.sqlite", "new.sqlite"].map(|name| {
        let path = folder.path().join(name);
        decode_run(&DecodeRun::default()).write_to(&path).unwrap();
        path
    });
    edit::add_after(&new, "nvjet", evil, 3_000).unwrap();
    for more in [&[][..], &["--by", "kernel"]] {
        let html = comparison(&base, &new, more);
        assert_well_formed(&html, "hostile");
        assert!(html.contains("&lt;img src") && html.contains("&lt;script&gt;alert(1)"));
        assert!(!html.contains("<img") && !html.contains("<script>alert"));
        assert!(!html.contains('\u{202e}'));
        assert_eq!(html.matches("<script").count(), 1);
        seen += 1;
    }
    assert!(seen > 2);
}

#[test]
fn a_trend_is_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=4u64 {
        let capture = decode_run(&DecodeRun { seed, ..DecodeRun::default() }).write().unwrap();
        let path = folder.path().join(format!("run{seed}.json"));
        run([
            "report".as_ref(),
            capture.path().as_os_str(),
            "--save-baseline".as_ref(),
            path.as_os_str(),
        ])
        .answer();
    }
    let new = decode_run(&DecodeRun { seed: 9, ..DecodeRun::default() }).write().unwrap();
    let words = ["compare".as_ref(), "--baseline-dir".as_ref(), folder.path().as_os_str()];
    let more = [new.path().as_os_str(), "--format".as_ref(), "html".as_ref()];
    let html = run(words.into_iter().chain(more)).answer();
    assert_well_formed(&html, "trend");
    assert!(html.contains("<section id=\"trend\"") && html.contains("run3.json"));
}
