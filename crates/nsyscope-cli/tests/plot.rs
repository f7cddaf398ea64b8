//! `nsyscope plot`: pictures as files, whole or not at all.

mod common;

use common::{fixture, listing, run};

#[test]
fn pictures_are_what_their_names_say() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture("c1_tp2");
    for chart in ["timeline", "breakdown", "steps", "layers", "roofline", "collectives"] {
        for ending in ["svg", "png"] {
            let path = folder.path().join(format!("{chart}.{ending}"));
            let words = [
                "plot".as_ref(),
                chart.as_ref(),
                capture.as_os_str(),
                "-o".as_ref(),
                path.as_os_str(),
            ];
            let more = ["--width".as_ref(), "500".as_ref(), "--scale".as_ref(), "1".as_ref()];
            assert_eq!(run(words.into_iter().chain(more)).answer(), "");
            let bytes = std::fs::read(&path).unwrap();
            match ending {
                "svg" => assert!(bytes.ends_with(b"</svg>\n"), "{chart}"),
                _ => assert_eq!(&bytes[16..20], &500u32.to_be_bytes(), "{chart}: the width"),
            }
        }
    }
    assert_eq!(listing(folder.path()).len(), 12, "nothing else is left there");
}

#[test]
fn parts_of_a_timeline_can_be_drawn() {
    let capture = fixture("kimi_tp8_decode");
    let words = |more: &[&str]| {
        let mut words = vec!["plot".into(), "timeline".into(), capture.clone().into_os_string()];
        words.extend(more.iter().map(std::ffi::OsString::from));
        words
    };
    for (more, title) in [
        (&[][..], "all 2 steps"),
        (&["--step", "1"], "step 1 (decode"),
        (&["--step", "1", "--layer", "7", "--rank", "3"], "layer 7 (moe) of step 1"),
        (&["--time", "10ms..12.5ms", "--theme", "dark"], "2.500 ms long, 10.00 ms after"),
        (&["--time", "all"], "the whole capture"),
    ] {
        let svg = run(words(more)).answer();
        assert!(svg.starts_with("<?xml") && svg.contains(title), "{more:?}");
    }
    for (more, says) in [
        (&["--step", "77"][..], "there is no step 77"),
        (&["--step", "1", "--layer", "99"], "step 1 has no layer 99"),
        (&["--time", "5..6"], "`--time 5..6` is no window of time"),
        (&["--time", "2h..3h"], "`--time 2h..3h` is no window of time"),
        (&["--time", "900s..901s"], "the window of time lies outside the capture"),
        (&["--rank", "8"], "there is no rank 8"),
        (&["-o", "picture.gif"], "`picture.gif`: a picture is SVG or PNG"),
    ] {
        let (error, hint) = run(words(more)).refusal();
        assert_eq!(error, says);
        assert!(!hint.is_empty());
    }
}

#[test]
fn comparisons_are_drawn_from_captures_and_saved_reports() {
    let folder = tempfile::tempdir().unwrap();
    let (base, new) = (fixture("b3_eager"), fixture("b1_graph_node"));
    let saved = folder.path().join("base.json");
    run(["report".as_ref(), base.as_os_str(), "--save-baseline".as_ref(), saved.as_os_str()])
        .answer();
    let plot = |base: &std::path::Path, more: &[&str]| {
        let words = ["plot".as_ref(), "compare".as_ref(), base.as_os_str(), new.as_os_str()];
        run(words.into_iter().chain(more.iter().map(AsRef::as_ref)))
    };
    let svg = plot(&base, &[]).answer();
    assert!(svg.contains("From base to new") && svg.contains("b3_eager"), "{svg}");
    assert!(plot(&saved, &[]).answer() == svg, "saved or live, the picture is the same");
    let kernels = plot(&base, &["--by", "kernel", "--theme", "dark", "--width", "500"]).answer();
    assert!(kernels.contains("width=\"500\"") && kernels != svg);
    assert!(plot(&base, &["--campaigns"]).answer().contains("Shares of a step"));
    let png = folder.path().join("picture.png");
    assert_eq!(plot(&saved, &["--scale", "1", "-o", png.to_str().unwrap()]).answer(), "");
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    for (more, says) in [
        (&["--batch", "77"][..], "have no phase and batch in common that was asked for"),
        (&["--by", "op"], "no operations are known on either side"),
        (&["-o", "picture.gif"], "a picture is SVG or PNG"),
    ] {
        let (error, hint) = plot(&base, more).refusal();
        assert!(error.contains(says) && !hint.is_empty(), "{error} {hint}");
    }
    let said = plot(&base, &["--threshold", "3"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(said.err.contains("write 3%"), "{}", said.err);
    let whole = fixture("b2_graph_level");
    let (error, _) = plot(&whole, &[]).refusal();
    assert!(error.contains("holds no kernels inside CUDA graphs"), "{error}");
    let one = run(["plot".as_ref(), "compare".as_ref(), base.as_os_str()]).refusal();
    assert_eq!(one.0, "a comparison is of two runs, and 1 are named");
    let words = ["plot".as_ref(), "steps".as_ref(), base.as_os_str(), "--batch".as_ref()];
    let (error, _) = run(words.into_iter().chain(["1".as_ref()])).refusal();
    assert!(error.contains("are about a comparison"), "{error}");
}
