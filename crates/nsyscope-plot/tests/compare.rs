//! Pictures of comparisons: their numbers are those of the answer, whatever was compared.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{assert_as_it_was, assert_well_formed};
use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::compare::{By, CompareOptions, Comparison, compare};
use nsyscope::format;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, SavedReport};
use nsyscope_plot::{Drawing, Style, Theme};
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};
use nsyscope_testkit::{edit, fixtures, hazards};

fn saved(path: &Path) -> SavedReport {
    let run = Run::open([path], &OpenOptions::new()).unwrap();
    let report =
        Report::new(&run, &Classifier::builtin(), &ReportOptions::new().samples()).unwrap();
    SavedReport::try_from(&report).unwrap()
}

fn fixture(name: &str) -> SavedReport {
    saved(&fixtures::path(name))
}

fn compared(base: &SavedReport, new: &SavedReport, options: &CompareOptions) -> Comparison {
    compare(std::slice::from_ref(base), std::slice::from_ref(new), options).unwrap()
}

/// A small run against another one with slower products, by the names of their files.
fn small(names: [&str; 2], by: By, edited: impl Fn(&Path)) -> Comparison {
    let folder = tempfile::tempdir().unwrap();
    let [base, new] = [1, 2].map(|seed| {
        let path = folder.path().join(names[seed as usize - 1]);
        decode_run(&DecodeRun { seed, ..DecodeRun::default() }).write_to(&path).unwrap();
        if seed == 2 {
            edited(&path);
        }
        saved(&path)
    });
    compared(&base, &new, &CompareOptions::new().by(by))
}

fn slower(path: &Path) {
    edit::slow(path, "nvjet", 0.3).unwrap();
}

/// Draws it in every size and both themes; all of them can be read.
fn assert_drawn(comparison: &Comparison, what: &str) -> Drawing {
    for (theme, width) in [(Theme::Dark, 340), (Theme::Light, 720), (Theme::Dark, 1600)] {
        let style = Style::new().theme(theme).width(width);
        let parts = comparison.shares.as_ref().map_or(comparison.phases.len(), Vec::len);
        let part = |at| nsyscope_plot::compare_part(comparison, at, &style);
        assert!(part(parts).is_none(), "{what}");
        let whole = nsyscope_plot::compare(comparison, &style);
        for drawing in std::iter::once(whole).chain((0..parts).filter_map(part)) {
            assert_eq!(drawing.clashes(), Vec::<String>::new(), "{what} {width}");
            assert_well_formed(&drawing.to_svg(), what);
        }
    }
    nsyscope_plot::compare(comparison, &Style::new().width(1600))
}

/// Whether the picture has the numbers of every phase that the answer has.
fn assert_numbers(comparison: &Comparison, what: &str) {
    let style = Style::new().width(1600);
    let mut checked = 0;
    for (at, phase) in comparison.phases.iter().enumerate() {
        let drawing = nsyscope_plot::compare_part(comparison, at, &style).unwrap();
        let texts: BTreeSet<&str> = drawing.texts().collect();
        let svg = drawing.to_svg();
        let has = |text: &str| assert!(texts.contains(text), "{what}: no `{text}` in {texts:?}");
        let all: Vec<&str> = drawing.texts().collect();
        let sentence = phase.sentence().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(all.join(" ").contains(&sentence), "{what}: {sentence}");
        if phase.rows.is_empty() {
            continue;
        }
        has(&format::ns(phase.base_wall_ns));
        has(&format::ns(phase.new_wall_ns));
        let fall = phase.waterfall();
        let mut sum = phase.base_wall_ns;
        for row in fall.rows {
            checked += 1;
            sum += row.delta_ns;
            has(&format::signed_duration(row.delta_ns as f64));
            has(&row.change_words());
            let words = match row.interval_words() {
                words if words.is_empty() => row.verdict.describe().to_owned(),
                words => format!("{words}, {}", row.verdict.describe()),
            };
            has(&words);
            let tip = format!(
                "{} → {} a step",
                format::ns(row.base_ns_per_step),
                format::ns(row.new_ns_per_step)
            );
            assert!(svg.contains(&tip), "{what}: no {tip}");
        }
        if let Some(others) = fall.others {
            sum += others.delta_ns;
            has(&others.label());
            has(&format::signed_duration(others.delta_ns as f64));
        }
        assert_eq!(sum, phase.new_wall_ns, "{what}: the parts lead from base to new");
    }
    assert!(checked > 0, "{what}");
}

#[test]
fn numbers_on_a_waterfall_are_the_answers() {
    for (base, new) in [("b3_eager", "b1_graph_node"), ("c1_tp2", "c2_spin")] {
        let (a, b) = (fixture(base), fixture(new));
        for by in [By::Category, By::Kernel] {
            let what = format!("{base} {new} {by:?}");
            let comparison = compared(&a, &b, &CompareOptions::new().by(by));
            assert_drawn(&comparison, &what);
            assert_numbers(&comparison, &what);
        }
    }
}

#[test]
fn every_capture_against_itself_shows_no_change() {
    let paths = fixtures::names().unwrap().into_iter().map(|name| fixtures::path(&name));
    let mut drawn = 0;
    for path in paths {
        let run = saved(&path);
        let runs = std::slice::from_ref(&run);
        let Ok(comparison) = compare(runs, runs, &CompareOptions::new()) else { continue };
        let drawing = assert_drawn(&comparison, &path.display().to_string());
        assert!(drawing.texts().any(|text| text == "Verdict: no change."), "{}", path.display());
        let signed = drawing.texts().filter(|text| text.contains(" ns") && text.starts_with('+'));
        assert_eq!(signed.count(), 0);
        drawn += 1;
    }
    assert!(drawn > 8, "{drawn}");
}

#[test]
fn campaigns_are_drawn_by_shares() {
    let (base, new) = (fixture("d2_ds_fp8_tp1"), fixture("kimi_tp8_decode"));
    let comparison = compared(&base, &new, &CompareOptions::new().campaigns());
    let drawing = assert_drawn(&comparison, "shares");
    let texts: BTreeSet<&str> = drawing.texts().collect();
    let shares = comparison.shares.as_ref().unwrap();
    let mut shown = 0;
    for row in shares.iter().flat_map(|phase| phase.shown()) {
        shown += 1;
        let words = [format::percent(row.base_share), format::percent(row.new_share)];
        for text in words.iter().chain([&row.delta_words(), &row.category]) {
            assert!(texts.contains(text.as_str()), "no {text} in {texts:?}");
        }
    }
    assert!(shown > 4);
    assert!(texts.contains("Verdict: not comparable by time; shares and efficiency follow."));
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</text><script>alert('1')</script> \"&\u{202e}";
    for by in [By::Category, By::Kernel] {
        let comparison = small(["<img src=x>&\".sqlite", "new.sqlite"], by, |path| {
            slower(path);
            edit::rename(path, "nvjet", evil).unwrap();
        });
        let svg = assert_drawn(&comparison, "hostile").to_svg();
        assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains('\u{202e}'));
        assert!(svg.contains("&lt;img"));
        assert!(by == By::Category || svg.contains("&lt;/text&gt;&lt;script&gt;"), "{svg}");
    }
    for hazard in hazards::all().unwrap() {
        let run = saved(hazard.capture.path());
        let runs = std::slice::from_ref(&run);
        // Most hold too little to be compared.
        if let Ok(comparison) = compare(runs, runs, &CompareOptions::new().by(By::Kernel)) {
            assert_drawn(&comparison, hazard.name);
        }
    }
}

#[test]
fn small_pictures_are_as_they_were() {
    let comparison = small(["base.sqlite", "new.sqlite"], By::Category, slower);
    let style = Style::new().width(960);
    let narrow = Style::new().width(340).theme(Theme::Dark);
    assert_as_it_was("compare", &nsyscope_plot::compare(&comparison, &style));
    assert_as_it_was("compare-narrow-dark", &nsyscope_plot::compare(&comparison, &narrow));
    let png = nsyscope_plot::compare(&comparison, &style).to_png(1).unwrap();
    assert!(png == nsyscope_plot::compare(&comparison, &style).to_png(1).unwrap());
}
