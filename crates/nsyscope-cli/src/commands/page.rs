//! The pictures of `--format html`.

use anyhow::Result;
use nsyscope::Run;
use nsyscope::analysis::{Classes, collectives};
use nsyscope::compare::{Comparison, ComparisonFigures};
use nsyscope::kernel::Classifier;
use nsyscope::report::{Figure, Figures, Report, ReportOptions, TypicalStep};
use nsyscope::scene::{StepStrip, Timeline, TimelineOptions, Window};
use nsyscope::segment::{Phase, PhaseKey, Steps};
use nsyscope_plot::{Drawing, Style};

/// Pixels of a picture on a page of the width of a screen, of a tablet, and of a telephone.
const WIDE: u32 = 1100;
const MEDIUM: u32 = 720;
const NARROW: u32 = 340;

/// A step of more activities is not handed over kernel by kernel: the page would be too large.
const EXACT: usize = 40_000;

/// Every picture of the page of a report.
pub(super) fn figures(
    run: &Run,
    classifier: &Classifier,
    options: &ReportOptions,
    report: &Report,
) -> Result<Figures> {
    let classes = Classes::new(run, classifier);
    let steps = Steps::find(run, &classes, &options.steps).select(&options.selection)?;
    let matched = collectives(run, &classes);
    let scene = |options: &TimelineOptions| Timeline::new(run, &classes, &steps, &matched, options);
    let strip = StepStrip::new(run, &classes, &steps, &matched);
    let mut out = Figures::default();
    out.breakdown =
        Some(all_widths("breakdown-all", |style| nsyscope_plot::breakdown(report, style)));
    let timeline = |width| {
        let style = Style::new().width(width);
        scene(&TimelineOptions::new().bins(style.bins()))
            .map(|scene| nsyscope_plot::timeline(&scene, &style))
    };
    // Of many ranks one picture is as large as the rest of the page.
    let medium = if run.ranks().len() > 4 {
        String::new()
    } else {
        timeline(MEDIUM)?.to_svg_element("timeline-all-medium")
    };
    let large = timeline(WIDE)?.to_svg_element("timeline-all");
    out.timeline = Some(Figure::new(large, medium, String::new()));
    if !strip.steps.is_empty() {
        out.steps = Some(all_widths("steps-all", |style| nsyscope_plot::steps(&strip, style)));
    }
    if !report.layers.is_empty() {
        out.layers = Some(wide("layers-all", |style| nsyscope_plot::layers(report, style)));
    }
    if report.ops.is_some() {
        out.roofline = Some(wide("roofline", |style| nsyscope_plot::roofline(report, style)));
    }
    out.collectives =
        Some(all_widths("collectives-all", |style| nsyscope_plot::collectives(report, style)));
    if let Some(step) = typical(run, &classes, &steps) {
        let window = TimelineOptions::new().window(Window::Step(step)).bins(400).exact(EXACT);
        out.step = Some(scene(&window)?);
    }
    Ok(out)
}

/// Every picture of the page of a comparison.
pub(super) fn of_comparison(comparison: &Comparison) -> ComparisonFigures {
    let parts = comparison.shares.as_ref().map_or(comparison.phases.len(), Vec::len);
    let of = |at: usize| {
        let draw = |width, id: String| {
            let style = Style::new().width(width);
            nsyscope_plot::compare_part(comparison, at, &style).map(|d| d.to_svg_element(&id))
        };
        Some(Figure::new(
            draw(WIDE, format!("compare-{at}"))?,
            draw(MEDIUM, format!("compare-{at}-medium"))?,
            draw(NARROW, format!("compare-{at}-narrow"))?,
        ))
    };
    ComparisonFigures::new((0..parts).map(of).collect())
}

/// The number of the median step: of decode where there is any, else of the phase that takes most
/// time; of the batch size that takes most.
fn typical(run: &Run, classes: &Classes, steps: &Steps) -> Option<u32> {
    let mut keys: Vec<(bool, i64, PhaseKey)> = Vec::new();
    for step in steps.ranks.iter().flat_map(|rank| &rank.steps) {
        match keys.iter_mut().find(|(.., key)| *key == step.key()) {
            Some(known) => known.1 += step.wall_ns(),
            None => keys.push((step.phase == Phase::Decode, step.wall_ns(), step.key())),
        }
    }
    let (.., key) = keys.into_iter().max()?;
    TypicalStep::find(run, classes, steps, key.phase, key.batch, None, None)
        .ok()
        .map(|step| step.index)
}

/// For every width of a page.
fn all_widths(id: &str, draw: impl Fn(&Style) -> Drawing) -> Figure {
    let of = |width, id: &str| draw(&Style::new().width(width)).to_svg_element(id);
    let (medium, narrow) = (format!("{id}-medium"), format!("{id}-narrow"));
    Figure::new(of(WIDE, id), of(MEDIUM, &medium), of(NARROW, &narrow))
}

/// For pages of screens and tablets; on a telephone it scrolls.
fn wide(id: &str, draw: impl Fn(&Style) -> Drawing) -> Figure {
    let of = |width, id: &str| draw(&Style::new().width(width)).to_svg_element(id);
    Figure::new(of(WIDE, id), of(MEDIUM, &format!("{id}-medium")), String::new())
}
