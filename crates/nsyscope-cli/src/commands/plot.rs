//! `nsyscope plot`

use anyhow::Result;
use nsyscope::analysis::{Classes, collectives};
use nsyscope::capture::ReadOptions;
use nsyscope::report::{Report, ReportOptions};
use nsyscope::scene::{StepStrip, Timeline, TimelineOptions, Window};
use nsyscope::segment::Steps;
use nsyscope::{Error, ErrorKind};
use nsyscope_plot::{Drawing, Style, Theme};

use crate::args::{self, Chart, Global, ThemeName};
use crate::output;

pub(crate) fn run(global: &Global, command: &args::Plot) -> Result<()> {
    // What is typed is checked before a long read.
    let png = is_png(global)?;
    let window = window(command)?;
    let style =
        Style::new().width(command.width).height(command.height).theme(match command.theme {
            ThemeName::Light => Theme::Light,
            ThemeName::Dark => Theme::Dark,
        });
    if command.chart == Chart::Compare {
        let (how, model) = (&command.how, &command.model);
        let comparison =
            super::compare::compared(global, &command.captures, how, model, &command.source)?;
        let drawing = nsyscope_plot::compare(&comparison, &style);
        return write(global, &drawing, png.then_some(command.scale));
    }
    let step_options = super::steps::options(&command.source)?;
    let deployment = super::deployment::read(&command.model.deployment)?;
    let context = super::model::context(&command.model)?;
    let classifier = super::classifier(global)?;
    let run = super::read(global, &command.captures, ReadOptions::new(), &classifier)?;
    let drawing = match command.chart {
        Chart::Breakdown | Chart::Layers | Chart::Roofline | Chart::Collectives => {
            let mut options = ReportOptions::new().steps(step_options);
            if let Some(deployment) = deployment {
                options = options.deployment(deployment);
            }
            if let Some(context) = context {
                options = options.model(context);
            }
            let report = Report::new(&run, &classifier, &options)?;
            match command.chart {
                Chart::Breakdown => nsyscope_plot::breakdown(&report, &style),
                Chart::Layers => nsyscope_plot::layers(&report, &style),
                Chart::Roofline => nsyscope_plot::roofline(&report, &style),
                _ => nsyscope_plot::collectives(&report, &style),
            }
        }
        Chart::Timeline | Chart::Steps | Chart::Compare => {
            let classes = Classes::new(&run, &classifier);
            let steps = Steps::find(&run, &classes, &step_options);
            let matched = collectives(&run, &classes);
            if command.chart == Chart::Steps {
                let strip = StepStrip::new(&run, &classes, &steps, &matched);
                nsyscope_plot::steps(&strip, &style)
            } else {
                let options =
                    TimelineOptions::new().window(window).bins(style.bins()).rank(command.rank);
                let scene = Timeline::new(&run, &classes, &steps, &matched, &options)?;
                nsyscope_plot::timeline(&scene, &style)
            }
        }
    };
    write(global, &drawing, png.then_some(command.scale))?;
    run.release();
    Ok(())
}

fn write(global: &Global, drawing: &Drawing, png: Option<u32>) -> Result<()> {
    match png {
        Some(scale) => output::write_bytes(global, &drawing.to_png(scale)?),
        None => output::write(global, &drawing.to_svg()),
    }
}

/// What the name of the output asks for; SVG goes to stdout.
fn is_png(global: &Global) -> Result<bool> {
    let Some(path) = &global.output else { return Ok(false) };
    match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("png") => Ok(true),
        Some("svg") => Ok(false),
        _ => Err(Error::new(ErrorKind::Argument, "a picture is SVG or PNG")
            .in_file(path)
            .with_hint("let the name end in .svg or .png")
            .into()),
    }
}

fn window(command: &args::Plot) -> Result<Window> {
    if command.chart != Chart::Timeline
        && (command.step.is_some() || command.time.is_some() || command.rank.is_some())
    {
        return Err(Error::new(
            ErrorKind::Argument,
            "--step, --layer, --time and --rank choose a part of a timeline, not of another chart",
        )
        .into());
    }
    if command.chart != Chart::Compare && command.how.is_given() {
        return Err(Error::new(
            ErrorKind::Argument,
            "--also-base, --also-new, --threshold, --thresholds, --by, --phase, --batch and --campaigns are \
             about a comparison, not about another chart",
        )
        .with_hint("nsyscope plot compare BASE NEW")
        .into());
    }
    Ok(match (command.step, command.layer, command.time.as_deref()) {
        (Some(step), Some(layer), _) => Window::Layer { step, layer },
        (Some(step), None, _) => Window::Step(step),
        (None, _, Some("all")) => Window::Whole,
        (None, _, Some(text)) => time_window(text)?,
        (None, _, None) => Window::Steps,
    })
}

/// `A..B`, of which either may be left out.
fn time_window(text: &str) -> Result<Window> {
    let wrong = || {
        Error::new(ErrorKind::Argument, format!("`--time {text}` is no window of time")).with_hint(
            "write it as FROM..UNTIL with units: 1.2s..1.25s, 300ms.., ..50us, 0s..900000ns; or all",
        )
    };
    let (from, until) = text.split_once("..").ok_or_else(wrong)?;
    let from = if from.trim().is_empty() { 0 } else { time(from).ok_or_else(wrong)? };
    let until = if until.trim().is_empty() { i64::MAX } else { time(until).ok_or_else(wrong)? };
    if until <= from {
        return Err(wrong().into());
    }
    Ok(Window::Time(from, until))
}

/// A time with its unit, in ns.
fn time(text: &str) -> Option<i64> {
    let text = text.trim();
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?.trim(), *scale)))?;
    let value: f64 = number.parse().ok()?;
    let ns = value * scale;
    (ns.is_finite() && (0.0..9e18).contains(&ns)).then_some(ns.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_time_are_read() {
        for (text, window) in [
            ("1.2s..1.25s", Window::Time(1_200_000_000, 1_250_000_000)),
            ("300ms..", Window::Time(300_000_000, i64::MAX)),
            ("..50us", Window::Time(0, 50_000)),
            ("7ns .. 9 µs", Window::Time(7, 9_000)),
        ] {
            assert_eq!(time_window(text).unwrap(), window, "{text}");
        }
        for text in ["", "5", "1s", "1..2", "xs..2s", "-1s..2s", "nans..2s", "1s...2s", "2s..1s"] {
            assert!(time_window(text).is_err(), "{text}");
        }
    }
}
