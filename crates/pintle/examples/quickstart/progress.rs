//! What a person sees while it runs: a live line on a terminal, a plain log where there is none.

use std::io::{IsTerminal, Write, stdout};
use std::sync::Mutex;
use std::time::Instant;

/// Where progress goes. Cheap to share by reference; lines of several tasks do not mix.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    terminal: bool,
    /// The live line on show, empty where there is none. The lock also keeps writers apart.
    live: Mutex<String>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), terminal: stdout().is_terminal(), live: Mutex::default() }
    }

    /// Says something that stays.
    pub(crate) fn say(&self, text: &str) {
        let live = self.live.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seconds = self.started.elapsed().as_secs_f32();
        match self.terminal {
            true => print(&format!("\r\x1b[K{seconds:6.1}s  {text}\n{live}")),
            false => print(&format!("{seconds:6.1}s  {text}\n")),
        }
    }

    /// Shows how far the work is. On a terminal the line replaces the last one; a log has no use for it.
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

    /// Takes the live line away.
    pub(crate) fn clear(&self) {
        let mut live = self.live.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !std::mem::take(&mut *live).is_empty() {
            print("\r\x1b[K");
        }
    }
}

/// A reader that went away, such as `head`, is no reason to stop.
fn print(text: &str) {
    let mut out = stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
