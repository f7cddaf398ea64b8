//! What a signal that ends the program leaves behind: no temporary file.
//!
//! Output is written beside its target and moved over it, and compressed captures are unpacked, which
//! may take gigabytes. Neither may stay because of a Ctrl-C.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is there now and has to go. A signal concerns the process, so this is the process's.
static STATE: Mutex<State> = Mutex::new(State { files: BTreeSet::new(), children: 0 });

struct State {
    files: BTreeSet<PathBuf>,
    /// Programs in the foreground, which a Ctrl-C is meant for.
    children: u32,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that has to go with the program.
pub(crate) fn remember(path: &Path) {
    state().files.insert(path.to_owned());
}

/// It is gone, or in its place.
pub(crate) fn forget(path: &Path) {
    state().files.remove(path);
}

/// While it lives, Ctrl-C is for the program that runs in the foreground: what it has to say, and to
/// write, is waited for.
pub(crate) struct Foreground(());

impl Foreground {
    pub(crate) fn new() -> Self {
        state().children += 1;
        Self(())
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        state().children -= 1;
    }
}

/// Waits for signals from now on. Where that cannot be done, files stay behind: no reason to stop.
#[cfg(unix)]
pub(crate) fn watch() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::low_level::emulate_default_handler;

    // A file beyond the allowed size is an error of the write then, as a full disk is.
    let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
    // Under nohup, or in the background of a script, signals are ignored, and stay so.
    let ignored = ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| {
        ignored.is_some_and(|mask| mask & (1 << (signal - 1)) == 0)
            || ignored.is_none() && *signal != SIGHUP
    });
    let Ok(mut signals) = signal_hook::iterator::Signals::new(signals) else { return };
    let wait = move || {
        for signal in signals.forever() {
            let state = state();
            if signal == SIGINT && state.children > 0 {
                continue;
            }
            for file in &state.files {
                let _ = std::fs::remove_file(file);
            }
            // Ends here as it would have without us: whoever started us sees which signal it was.
            let _ = emulate_default_handler(signal);
        }
    };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

#[cfg(not(unix))]
pub(crate) fn watch() {}

/// The signals that whoever started us has set to be ignored, a bit each; `None` where that is not told.
#[cfg(unix)]
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
