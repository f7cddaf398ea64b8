//! Pictures of real and hostile captures: they draw, can be read, and are the same every time.

mod common;

use common::{assert_as_it_was, assert_well_formed};
use nsyscope::analysis::{Classes, Collectives, collectives};
use nsyscope::capture::OpenOptions;
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions};
use nsyscope::scene::{StepStrip, Timeline, TimelineOptions, Window};
use nsyscope::segment::{StepOptions, Steps};
use nsyscope::{Run, format};
use nsyscope_plot::{Drawing, Style, Theme};
use nsyscope_testkit::{CaptureBuilder, Gpu, Schema, fixtures, hazards};

struct Seen {
    run: Run,
    classes: Classes,
    steps: Steps,
    matched: Collectives,
    report: Report,
}

impl Seen {
    fn of(run: Run) -> Self {
        let classifier = Classifier::builtin();
        let classes = Classes::new(&run, &classifier);
        let steps = Steps::find(&run, &classes, &StepOptions::new());
        let matched = collectives(&run, &classes);
        let report = Report::new(&run, &classifier, &ReportOptions::new()).unwrap();
        Self { run, classes, steps, matched, report }
    }

    fn timeline(&self, window: Window, style: &Style) -> Drawing {
        let options = TimelineOptions::new().window(window).bins(style.bins());
        let scene = Timeline::new(&self.run, &self.classes, &self.steps, &self.matched, &options);
        nsyscope_plot::timeline(&scene.unwrap(), style)
    }

    /// Every chart of a capture, by name.
    fn all(&self, style: &Style) -> Vec<(&'static str, Drawing)> {
        let strip = StepStrip::new(&self.run, &self.classes, &self.steps, &self.matched);
        let mut out = vec![
            ("timeline", self.timeline(Window::Steps, style)),
            ("whole", self.timeline(Window::Whole, style)),
            ("breakdown", nsyscope_plot::breakdown(&self.report, style)),
            ("steps", nsyscope_plot::steps(&strip, style)),
            ("layers", nsyscope_plot::layers(&self.report, style)),
            ("roofline", nsyscope_plot::roofline(&self.report, style)),
            ("collectives", nsyscope_plot::collectives(&self.report, style)),
        ];
        if self.steps.ranks.iter().any(|rank| rank.steps.iter().any(|step| step.index == 1)) {
            out.push(("step", self.timeline(Window::Step(1), style)));
        }
        out
    }
}

#[test]
fn every_capture_draws_and_can_be_read() {
    for name in fixtures::names().unwrap() {
        let seen = Seen::of(Run::open([fixtures::path(&name)], &OpenOptions::new()).unwrap());
        for (theme, width) in [(Theme::Light, 1100), (Theme::Dark, 640)] {
            let style = Style::new().theme(theme).width(width);
            for (chart, drawing) in seen.all(&style) {
                let what = format!("{name} {chart} {width}");
                assert_eq!(drawing.clashes(), Vec::<String>::new(), "{what}");
                let svg = drawing.to_svg();
                assert_well_formed(&svg, &what);
                assert!(svg.len() < 3_000_000, "{what}: {} bytes", svg.len());
            }
        }
    }
}

#[test]
fn hazardous_captures_draw_too() {
    for hazard in hazards::all().unwrap() {
        let seen = Seen::of(Run::open([hazard.capture.path()], &OpenOptions::new()).unwrap());
        for (chart, drawing) in seen.all(&Style::new().width(700)) {
            let what = format!("{} {chart}", hazard.name);
            assert_eq!(drawing.clashes(), Vec::<String>::new(), "{what}");
            assert_well_formed(&drawing.to_svg(), &what);
        }
    }
}

#[test]
fn nothing_is_said_to_be_nothing() {
    let seen = Seen::of(Run::new(Vec::new()));
    for (chart, drawing) in seen.all(&Style::new()) {
        let text: Vec<&str> = drawing.texts().collect();
        assert!(
            text.iter().any(|text| text.starts_with("No ")),
            "{chart} does not say that it is empty: {text:?}"
        );
        assert_well_formed(&drawing.to_svg(), chart);
        assert!(drawing.to_png(1).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    }
}

#[test]
fn shares_on_the_breakdown_are_the_reports() {
    let run = Run::open([fixtures::path("d7_kimi_tp2")], &OpenOptions::new()).unwrap();
    let seen = Seen::of(run);
    let drawing = nsyscope_plot::breakdown(&seen.report, &Style::new().width(1600));
    let svg = drawing.to_svg();
    for row in &seen.report.breakdown {
        let wide = row.exposed_share * 1400.0;
        let share = format::percent(row.exposed_share).replace('<', "&lt;");
        let tip = format!("{}: {share}<", row.category);
        assert!(wide < 0.01 || svg.contains(&tip), "{tip} is not on the picture");
    }
    let communication: f64 = seen
        .report
        .breakdown
        .iter()
        .filter(|row| row.phase == "all" && row.category.starts_with("comm/"))
        .map(|row| row.exposed_share)
        .sum();
    let label = format!("comm {}", format::percent(communication));
    assert!(drawing.texts().any(|text| text == label), "{label}");
}

/// Two ranks, one stream each, an all-reduce that one of them waits in.
fn small() -> Run {
    let mut db = CaptureBuilder::new(Schema::V2025_3);
    for device in 0..2 {
        db.gpu(Gpu::h200(device));
        let process = db.process(100 + device, "python");
        let stream = db.stream(process, device, 1, 7);
        let late = i64::from(device) * 20_000;
        for (name, from, until) in [
            ("void rms_norm_kernel<__nv_bfloat16>(int)", 0, 8_000),
            ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 9_000, 30_000 + late),
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)",
                31_000 + late,
                80_000,
            ),
            ("<script>alert('1')</script> & \"names\"", 90_000, 100_000),
        ] {
            db.kernel(stream, name).at(from, until);
        }
    }
    // Pictures of a report name their file.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.sqlite");
    db.write_to(&path).unwrap();
    Run::open([path], &OpenOptions::new()).unwrap()
}

#[test]
fn small_pictures_are_as_they_were() {
    let seen = Seen::of(small());
    let style = Style::new().width(640);
    let dark = style.theme(Theme::Dark);
    for (name, drawing) in [
        ("timeline", seen.timeline(Window::Whole, &style)),
        ("timeline-dark", seen.timeline(Window::Whole, &dark)),
        ("collectives", nsyscope_plot::collectives(&seen.report, &style)),
    ] {
        assert_as_it_was(name, &drawing);
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let path = fixtures::path("c2_spin");
    let style = Style::new().width(800);
    let mut pictures = Vec::new();
    for threads in [1, 2] {
        let run = Run::open([&path], &OpenOptions::new().threads(threads)).unwrap();
        let seen = Seen::of(run);
        let bytes: Vec<(String, Vec<u8>)> = seen
            .all(&style)
            .into_iter()
            .map(|(_, drawing)| (drawing.to_svg(), drawing.to_png(1).unwrap()))
            .collect();
        pictures.push(bytes);
    }
    assert!(pictures[0] == pictures[1]);
}

#[test]
fn a_png_shows_what_the_svg_does() {
    let seen = Seen::of(small());
    let drawing = seen.timeline(Window::Whole, &Style::new().width(640));
    let png = drawing.to_png(2).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, height) = drawing.size();
    assert_eq!((info.width, info.height), (width * 2, height * 2));
    let count = |rgb: [u8; 3]| pixels.chunks_exact(3).filter(|pixel| *pixel == rgb).count();
    // The GEMMs take 21 and 41 of 100 µs, in lanes of the same height: their colour covers as much
    // of the picture more than the norms' 8 and 8.
    let (gemm, norm) = (count([0x56, 0xb4, 0xe9]), count([0xf0, 0xe4, 0x42]));
    assert!(gemm > 0 && norm > 0);
    let ratio = gemm as f64 / norm as f64;
    assert!((3.0..4.6).contains(&ratio), "{gemm} and {norm} pixels");
    assert!(count([0x1b, 0x1f, 0x24]) > 100, "there is text");
}
