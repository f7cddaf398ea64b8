//! Captures that look like nsys' until something in them does not.

mod describe;
mod hostile;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use arbitrary::{Result as Drawn, Unstructured};
use nsyscope::analysis::{Classes, GroupBy, collectives};
use nsyscope::capture::{Capture, OpenOptions};
use nsyscope::compare::{CompareOptions, Verdict, compare};
use nsyscope::kernel::Classifier;
use nsyscope::report::{
    Figures, InfoReport, KernelsReport, ModelContext, Report, ReportOptions, SavedReport,
    StepsReport, TypicalStep, ViewOptions,
};
use nsyscope::scene::{StepStrip, Timeline, TimelineOptions, Window};
use nsyscope::segment::{Phase, StepOptions, Steps};
use nsyscope::tables::{Annotated, TableKind};
use nsyscope::{Run, model, perfetto};
use nsyscope_plot::Style;

use crate::output::{check_error, check_json, check_page, check_report, check_text};

/// Builds one to three captures from the bytes, spoils them, and asks everything of them.
pub fn capture(bytes: &[u8]) {
    let mut drawn = Unstructured::new(bytes);
    // Bytes that run out end the making of a capture, not the trying of it.
    let Ok(plan) = Plan::draw(&mut drawn) else { return };
    ask(&plan);
}

/// Which questions are asked, of which files. Not all are asked of each: pictures take most time.
struct Plan {
    files: Vec<PathBuf>,
    steps: StepOptions,
    compared: bool,
    pictures: bool,
    tables: bool,
    with_model: bool,
    threads: usize,
}

impl Plan {
    fn draw(u: &mut Unstructured<'_>) -> Drawn<Self> {
        let (compared, pictures, tables) = (u.arbitrary()?, u.ratio(1, 3)?, u.arbitrary()?);
        let (with_model, twice, threads) = (u.ratio(1, 3)?, u.ratio(1, 8)?, u.int_in_range(1..=2)?);
        let mut steps = StepOptions::new();
        steps.ignore_nvtx = u.ratio(1, 4)?;
        if u.ratio(1, 8)? {
            steps.tokens = Some(u.arbitrary()?);
        }
        if u.ratio(1, 8)? {
            steps.batch = Some(u.arbitrary()?);
        }
        if u.ratio(1, 8)? {
            let start = u.arbitrary()?;
            steps.explicit = Some(vec![(start, u.arbitrary()?), (0, i64::MAX)]);
        }
        let mut files = Vec::new();
        for (index, builder) in describe::captures(u)?.into_iter().enumerate() {
            let path = crate::files::path(&format!("{index}.sqlite"));
            builder.write_to(&path).expect("the capture can be written");
            hostile::spoil(&path, u);
            files.push(path);
        }
        if twice {
            files.push(files[0].clone());
        }
        Ok(Self { files, steps, compared, pictures, tables, with_model, threads })
    }
}

static CLASSIFIER: LazyLock<Classifier> = LazyLock::new(|| {
    let classifier = Classifier::builtin();
    classifier.prepare();
    classifier
});

static MODEL: LazyLock<ModelContext> = LazyLock::new(|| {
    let config = include_bytes!("../../../../fixtures/models/llama-like-8b.json");
    ModelContext::new(model::parse(config).expect("the fixture can be read"))
});

fn ask(plan: &Plan) {
    let options = OpenOptions::new().threads(plan.threads);
    for file in &plan.files {
        info(file, &options);
    }
    let run = match Run::open(&plan.files, &options) {
        Ok(run) => run,
        Err(error) => return check_error(&error),
    };
    let plain = ReportOptions::new().samples().steps(plan.steps.clone());
    let report = Report::new(&run, &CLASSIFIER, &plain);
    match &report {
        Ok(report) => {
            check_report(report);
            if plan.compared {
                same_as_itself(report);
            }
            if plan.pictures {
                pictures(&run, plan, report);
            }
        }
        Err(error) => check_error(error),
    }
    if plan.tables {
        details(&run, plan);
    }
    if plan.with_model {
        match Report::new(&run, &CLASSIFIER, &plain.model(MODEL.clone())) {
            Ok(report) => check_report(&report),
            Err(error) => check_error(&error),
        }
    }
}

fn info(file: &Path, options: &OpenOptions) {
    match Capture::open_with(file, options).and_then(|capture| capture.info()) {
        Ok(info) => {
            let info = InfoReport::new(vec![info]);
            check_json(&info);
            check_text(&info.to_text(&ViewOptions::new()));
            check_text(&info.to_markdown());
        }
        Err(error) => check_error(&error),
    }
}

/// Nothing changed between a run and itself.
fn same_as_itself(report: &Report) {
    let saved = match SavedReport::try_from(report) {
        Ok(saved) => saved,
        Err(error) => panic!("what was written cannot be read: {error}"),
    };
    let runs = [saved];
    match compare(&runs, &runs, &CompareOptions::new()) {
        Ok(comparison) => {
            assert!(
                !matches!(comparison.verdict, Verdict::Regression | Verdict::Improvement),
                "{:?} than itself",
                comparison.verdict
            );
            check_json(&comparison);
            check_text(&comparison.to_text(&ViewOptions::new()));
            check_page(&nsyscope_plot::compare(&comparison, &Style::new()).to_svg());
        }
        Err(error) => check_error(&error),
    }
}

fn pictures(run: &Run, plan: &Plan, report: &Report) {
    let classes = Classes::new(run, &CLASSIFIER);
    let steps = Steps::find(run, &classes, &plan.steps);
    let matched = collectives(run, &classes);
    let style = Style::new();
    let windows =
        [Window::Steps, Window::Whole, Window::Step(1), Window::Layer { step: 0, layer: 1 }];
    for window in windows.into_iter().chain([Window::Time(0, 1_000_000), Window::Time(1, i64::MAX)])
    {
        let options = TimelineOptions::new().window(window).bins(300).exact(500);
        match Timeline::new(run, &classes, &steps, &matched, &options) {
            Ok(scene) => check_page(&nsyscope_plot::timeline(&scene, &style).to_svg()),
            Err(error) => check_error(&error),
        }
    }
    let strip = StepStrip::new(run, &classes, &steps, &matched);
    check_page(&nsyscope_plot::steps(&strip, &style).to_svg());
    check_page(&nsyscope_plot::breakdown(report, &style).to_svg());
    check_page(&nsyscope_plot::layers(report, &style).to_svg());
    check_page(&nsyscope_plot::collectives(report, &style).to_svg());
    check_page(&report.to_html(&Figures::default()));
}

fn details(run: &Run, plan: &Plan) {
    for by in [GroupBy::Name, GroupBy::Category, GroupBy::Rank] {
        let kernels = KernelsReport::new(run, &CLASSIFIER, by, None);
        check_json(&kernels);
        check_text(&kernels.to_text(&ViewOptions::new()));
    }
    let classes = Classes::new(run, &CLASSIFIER);
    let steps = Steps::find(run, &classes, &plan.steps);
    let report = StepsReport::new(run, &classes, &steps, true)
        .with_kernels(run, &classes, &steps, None)
        .with_graphs(run, &steps);
    check_json(&report);
    check_text(&report.to_text(&ViewOptions::new()));
    for phase in [Phase::Decode, Phase::Prefill, Phase::Mixed] {
        if let Ok(typical) = TypicalStep::find(run, &classes, &steps, phase, None, None, None) {
            let typical = typical.with_kernels(run, &classes, &steps, None);
            check_json(&typical);
            check_text(&typical.to_text(&ViewOptions::new()));
        }
    }
    let options = ReportOptions::new().steps(plan.steps.clone());
    match Annotated::new(run, &CLASSIFIER, &options) {
        Ok(all) => {
            for table in TableKind::ALL {
                let rows: usize = all.parts(table).map(|part| part.len()).sum();
                assert!(rows < 1 << 20);
            }
            let mut trace = Vec::new();
            perfetto::write(&all, &mut trace).expect("a vector takes everything");
        }
        Err(error) => check_error(&error),
    }
}
