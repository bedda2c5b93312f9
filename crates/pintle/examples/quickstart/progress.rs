//! The progress output, which is a progress bar on a terminal and plain log lines elsewhere.

use std::io::{IsTerminal, Write, stdout};
use std::sync::Mutex;
use std::time::Instant;

/// Prints the progress of the demo. Tasks can share a `Progress` by reference. The output lines of different tasks are
/// never mixed.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    terminal: bool,
    /// The text of the current progress bar, or an empty string without a progress bar. The lock also serializes the
    /// output.
    live: Mutex<String>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), terminal: stdout().is_terminal(), live: Mutex::default() }
    }

    pub(crate) fn say(&self, text: &str) {
        let live = self.live.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seconds = self.started.elapsed().as_secs_f32();
        if self.terminal {
            print(&format!("\r\x1b[K{seconds:6.1}s  {text}\n{live}"));
        } else {
            print(&format!("{seconds:6.1}s  {text}\n"));
        }
    }

    /// Updates the progress bar. Does nothing if the output is not a terminal.
    pub(crate) fn count(&self, done: usize, of: usize) {
        if !self.terminal {
            return;
        }
        const WIDTH: usize = 40;
        let filled = (done * WIDTH).checked_div(of).unwrap_or(WIDTH);
        let mut live = self.live.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *live = format!("        [{}{}] {done}/{of}", "=".repeat(filled), " ".repeat(WIDTH - filled));
        print(&format!("\r\x1b[K{live}"));
    }

    pub(crate) fn clear(&self) {
        let mut live = self.live.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !std::mem::take(&mut *live).is_empty() {
            print("\r\x1b[K");
        }
    }
}

/// Prints `text`. Ignores errors, because a reader such as `head` may have closed the pipe.
fn print(text: &str) {
    let mut out = stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
