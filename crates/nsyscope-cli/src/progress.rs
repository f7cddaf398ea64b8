//! Progress of long reads, on stderr.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nsyscope::capture::Progress;

use crate::args::{Global, When};

/// A line on stderr that says what is being read.
pub(crate) struct Bar {
    bar: ProgressBar,
    rows: AtomicU64,
}

impl Bar {
    /// Shown on a terminal, or where it is asked for.
    pub(crate) fn new(global: &Global) -> Option<Arc<Self>> {
        let show = match global.progress {
            When::Always => true,
            When::Never => false,
            When::Auto => !global.quiet && std::io::stderr().is_terminal(),
        };
        if !show {
            return None;
        }
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        if std::io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Some(Arc::new(Self { bar, rows: AtomicU64::new(0) }))
    }

    /// Names the files that are read now.
    pub(crate) fn files(&self, paths: &[PathBuf]) {
        if let [first, others @ ..] = paths {
            let more = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            self.say(&format!("opening {}{more}", first.display()));
        }
    }

    fn say(&self, message: &str) {
        let message = nsyscope::text::printable(message).into_owned();
        if std::io::stderr().is_terminal() {
            self.bar.set_message(message);
        } else {
            crate::output::tell(&message);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn rows(&self, table: &str, rows: u64) {
        let all = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let table = table.trim_start_matches("CUPTI_ACTIVITY_KIND_");
        self.say(&format!("reading {table}: {:.1} M rows", all as f64 / 1e6));
    }

    fn step(&self, what: &str) {
        self.say(what);
    }
}
