//! What the tests of comparisons share.

use std::path::{Path, PathBuf};

use nsyscope::Run;
use nsyscope::capture::OpenOptions;
use nsyscope::compare::{CompareOptions, Comparison, PhaseChange, Verdict, compare};
use nsyscope::kernel::Classifier;
use nsyscope::report::{Report, ReportOptions, SavedReport};
use nsyscope_testkit::TempCapture;
use nsyscope_testkit::layout::decode::{DecodeRun, decode_run};

use crate::common::{captures_below, fixtures, shared};

/// The report of the captures of a run, with samples.
pub(crate) fn saved<P: AsRef<Path>>(paths: &[P]) -> SavedReport {
    let run = Run::open(paths, &OpenOptions::new()).unwrap();
    let report =
        Report::new(&run, &Classifier::builtin(), &ReportOptions::new().samples()).unwrap();
    SavedReport::try_from(&report).unwrap()
}

/// A fixture of the repository.
pub(crate) fn fixture(name: &str) -> SavedReport {
    saved(&[fixtures().join(format!("captures/{name}.sqlite.zst"))])
}

/// The large captures that are not in the repository, by path; none where they are absent.
pub(crate) fn large() -> Vec<PathBuf> {
    ["captures", "synthetic"]
        .into_iter()
        .filter_map(shared)
        .flat_map(|folder| captures_below(&folder))
        .filter(|path| !path.to_string_lossy().contains("X_nsys2023"))
        .collect()
}

/// The path of a large capture; `None` where it is absent.
pub(crate) fn path_of(name: &str) -> Option<PathBuf> {
    large().into_iter().find(|path| path.to_string_lossy().contains(name))
}

/// A large capture; `None` where it is absent.
pub(crate) fn capture(name: &str) -> Option<SavedReport> {
    path_of(name).map(|path| saved(&[path]))
}

/// A copy of a large capture that can be edited.
pub(crate) fn copy(name: &str) -> Option<TempCapture> {
    path_of(name).map(|path| TempCapture::from_zst(path).unwrap())
}

pub(crate) fn compared(base: &SavedReport, new: &SavedReport) -> Comparison {
    compare(std::slice::from_ref(base), std::slice::from_ref(new), &CompareOptions::new()).unwrap()
}

#[track_caller]
pub(crate) fn phase<'a>(of: &'a Comparison, phase: &str, batch: u32) -> &'a PhaseChange {
    of.phases.iter().find(|p| p.phase == phase && p.batch == Some(batch)).unwrap()
}

/// What is called in a comparison, in words, for the message of a failed test.
pub(crate) fn called(comparison: &Comparison, verdict: Verdict) -> Vec<String> {
    let mut out = Vec::new();
    for phase in &comparison.phases {
        let place = format!("{} {:?}", phase.phase, phase.batch);
        if phase.verdict == verdict {
            out.push(format!("{place}: {:+.4} {:?} {:?}", phase.change, phase.ci, phase.reason));
        }
        for row in phase.rows.iter().chain(&phase.kernel_rows) {
            if row.verdict == verdict {
                out.push(format!(
                    "{place}: {} {:?} {:?}: {} -> {} {:?}",
                    row.category,
                    row.part,
                    row.kernel,
                    row.base_ns_per_step,
                    row.new_ns_per_step,
                    row.ci
                ));
            }
        }
    }
    out
}

/// The parts of every phase sum to its step on both sides, in whole ns.
#[track_caller]
pub(crate) fn assert_adds_up(comparison: &Comparison) {
    for phase in &comparison.phases {
        for rows in [&phase.rows, &phase.kernel_rows] {
            if rows.is_empty() {
                continue;
            }
            let sum =
                |of: fn(&nsyscope::compare::ChangeRow) -> i64| rows.iter().map(of).sum::<i64>();
            assert_eq!(sum(|row| row.base_ns_per_step), phase.base_wall_ns);
            assert_eq!(sum(|row| row.new_ns_per_step), phase.new_wall_ns);
            assert_eq!(sum(|row| row.delta_ns), phase.delta_ns);
        }
    }
}

/// A small run that was written out, changed by `edit`.
pub(crate) fn written(run: &DecodeRun, edit: impl Fn(&Path)) -> SavedReport {
    let file = decode_run(run).write().unwrap();
    edit(file.path());
    saved(&[file.path()])
}
