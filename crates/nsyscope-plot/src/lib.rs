//! Pictures of what nsyscope finds: SVG that needs nothing, PNG with a font of its own.
//!
//! Each chart is a function from values of [`nsyscope`] to a [`Drawing`], which writes itself as SVG
//! or PNG. Numbers on a chart are those of the value that it is given; the same value gives the same
//! bytes.
//!
//! ```no_run
//! use nsyscope::analysis::{Classes, collectives};
//! use nsyscope::capture::OpenOptions;
//! use nsyscope::kernel::Classifier;
//! use nsyscope::scene::{Timeline, TimelineOptions, Window};
//! use nsyscope::segment::{StepOptions, Steps};
//! use nsyscope::Run;
//! use nsyscope_plot::{Style, timeline};
//!
//! let run = Run::open(["run.sqlite"], &OpenOptions::new())?;
//! let classes = Classes::new(&run, &Classifier::builtin());
//! let steps = Steps::find(&run, &classes, &StepOptions::new());
//! let matched = collectives(&run, &classes);
//! let style = Style::new().width(1200);
//! let options = TimelineOptions::new().window(Window::Step(3)).bins(style.bins());
//! let scene = Timeline::new(&run, &classes, &steps, &matched, &options)?;
//! std::fs::write("step.svg", timeline(&scene, &style).to_svg())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]

mod axis;
mod chart;
mod drawing;
mod font;
mod frame;
mod png;
mod style;
mod svg;

pub use chart::{breakdown, collectives, compare, compare_part, layers, roofline, steps, timeline};
pub use drawing::Drawing;
pub use style::{Style, Theme};
