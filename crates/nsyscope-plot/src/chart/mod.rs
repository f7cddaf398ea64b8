//! The charts, one file each.

mod bandwidth;
mod breakdown;
mod collectives;
mod compare;
mod layers;
mod roofline;
mod shares;
mod steps;
mod timeline;

pub use breakdown::breakdown;
pub use collectives::collectives;
pub use compare::{compare, compare_part};
pub use layers::layers;
pub use roofline::roofline;
pub use steps::steps;
pub use timeline::timeline;

/// The space left of the lanes of a timeline.
pub(crate) const LEFT: f64 = 112.0;

/// The space left and right of them.
pub(crate) const GUTTERS: f64 = LEFT + crate::frame::MARGIN;

/// A phase and batch as people name it.
fn label(phase: &str, batch: Option<u32>) -> String {
    match batch {
        Some(batch) => format!("{phase}, batch {batch}"),
        None => phase.to_owned(),
    }
}

/// What a picture of a report is of, in a line.
fn source(report: &nsyscope::report::Report) -> String {
    let files: Vec<&str> = report.capture.files.iter().map(|f| f.file.as_str()).collect();
    let mut gpus: Vec<&str> =
        report.capture.ranks.iter().filter_map(|rank| rank.gpu_name.as_deref()).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let files = match files.as_slice() {
        [first, _, .., last] if files.len() > 2 => {
            format!("{first} … {last} ({} files)", files.len())
        }
        _ => files.join(", "),
    };
    let ranks = match report.capture.ranks.len() {
        1 => "1 rank".to_owned(),
        n => format!("{n} ranks"),
    };
    let gpus = if gpus.is_empty() { "GPU unknown".to_owned() } else { gpus.join(", ") };
    format!("{files} · {ranks} · {gpus}")
}
