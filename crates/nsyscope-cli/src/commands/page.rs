//! The pictures of `nsyscope report --format html`.

use anyhow::Result;
use nsyscope::Run;
use nsyscope::analysis::{Classes, collectives};
use nsyscope::kernel::Classifier;
use nsyscope::report::{
    DeploymentSection, Figure, Figures, Report, ReportOptions, ResolvedModel, TypicalStep,
};
use nsyscope::scene::{LayerGrid, StepStrip, Timeline, TimelineOptions, Window};
use nsyscope::segment::{Phase, Steps};
use nsyscope_plot::{Drawing, Style};

/// Pixels of a picture on a page of the width of a screen, and of a telephone.
const WIDE: u32 = 1100;
const NARROW: u32 = 340;

/// A step of more activities is not handed over kernel by kernel: the page would be too large.
const EXACT: usize = 40_000;

/// Every picture of the page.
pub(super) fn figures(
    run: &Run,
    classifier: &Classifier,
    options: &ReportOptions,
    report: &Report,
) -> Result<Figures> {
    let classes = Classes::new(run, classifier);
    let steps = Steps::find(run, &classes, &options.steps);
    let matched = collectives(run, &classes);
    let wide = Style::new().width(WIDE);
    let scene = |options: &TimelineOptions| Timeline::new(run, &classes, &steps, &matched, options);
    let strip = StepStrip::new(run, &classes, &steps, &matched);
    let attribution = options
        .model
        .as_ref()
        .map(|context| {
            let deployment = DeploymentSection::new(run, options.deployment.as_ref())?;
            ResolvedModel::new(context, run, deployment.as_ref())?
                .attribute(context, run, &classes, &steps)
        })
        .transpose()?;
    let grids = LayerGrid::all(run, &classes, &steps, attribution.as_ref());
    let mut out = Figures::default();
    out.breakdown = both("breakdown", |style| nsyscope_plot::breakdown(report, style));
    let all = scene(&TimelineOptions::new().bins(wide.bins()))?;
    out.timeline = one("timeline", &nsyscope_plot::timeline(&all, &wide));
    if !strip.steps.is_empty() {
        out.steps = both("steps", |style| nsyscope_plot::steps(&strip, style));
    }
    if !grids.is_empty() {
        out.layers = one("layers", &nsyscope_plot::layers(&grids, &wide));
    }
    if report.ops.is_some() {
        out.roofline = one("roofline", &nsyscope_plot::roofline(report, &wide));
    }
    out.collectives = both("collectives", |style| nsyscope_plot::collectives(report, style));
    if let Some(step) = typical(run, &classes, &steps) {
        let window = TimelineOptions::new().window(Window::Step(step)).bins(400).exact(EXACT);
        out.step = Some(scene(&window)?);
    }
    Ok(out)
}

/// The number of the median step of the phase that takes most time.
fn typical(run: &Run, classes: &Classes, steps: &Steps) -> Option<u32> {
    let time = |phase: Phase| -> i64 {
        let of = steps.ranks.iter().flat_map(|rank| &rank.steps);
        of.filter(|step| step.phase == phase).map(nsyscope::segment::Step::wall_ns).sum()
    };
    let phase = Phase::ALL.into_iter().rev().max_by_key(|phase| time(*phase))?;
    TypicalStep::find(run, classes, steps, phase, None, None, None).ok().map(|step| step.index)
}

fn both(id: &str, draw: impl Fn(&Style) -> Drawing) -> Option<Figure> {
    let wide = draw(&Style::new().width(WIDE)).to_svg_element(id);
    let narrow = draw(&Style::new().width(NARROW)).to_svg_element(&format!("{id}-narrow"));
    Some(Figure::new(wide, narrow))
}

fn one(id: &str, drawing: &Drawing) -> Option<Figure> {
    Some(Figure::new(drawing.to_svg_element(id), String::new()))
}
