//! Handles the signals that stop the program.
//!
//! The operating system sends signals to the process, so all managers share one thread for signal handling. A tokio
//! task could not handle signals while all threads of the program's runtime are blocked.

use std::io;
use std::process::exit;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use pintle_controller::__private::report;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::dispatcher::{get_default, with_default};

static STATE: LazyLock<watch::Sender<State>> = LazyLock::new(watch::Sender::default);

#[derive(Debug, Default)]
struct State {
    is_listening: bool,
    signal: Option<&'static str>,
    next: u64,
    runs: Vec<Run>,
    exit: Option<Exit>,
}

#[derive(Clone, Debug)]
struct Run {
    number: u64,
    stop: CancellationToken,
    shutdown_timeout: Duration,
}

/// The time at which the process exits if it is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exit {
    at: Instant,
    shutdown_timeout: Duration,
}

impl State {
    fn add(&mut self, shutdown_timeout: Duration) -> Run {
        let run = Run { number: self.next, stop: CancellationToken::new(), shutdown_timeout };
        self.next += 1;
        match self.signal {
            Some(_) => run.stop.cancel(),
            // Cancel the planned exit, because the program continues after an earlier run has failed.
            None => self.exit = None,
        }
        self.runs.push(run.clone());
        run
    }

    fn remove(&mut self, number: u64) {
        self.runs.retain(|run| run.number != number);
    }

    /// Records that a run has returned. If no signal has arrived and no other run is active, the process exits after a
    /// timeout.
    fn ended(&mut self, run: &Run, now: Instant) {
        self.remove(run.number);
        if self.signal.is_none() && self.runs.is_empty() {
            self.exit = Exit::after(run.shutdown_timeout, now);
        }
    }

    /// Returns the tokens that stop the active runs. If all runs are already stopping or have ended, returns `None`,
    /// because the process must exit immediately.
    fn signalled(&mut self, name: &'static str, now: Instant) -> Option<Vec<CancellationToken>> {
        if self.signal.is_some() || self.runs.is_empty() {
            return None;
        }
        self.signal = Some(name);
        let shutdown_timeout = self.runs.iter().map(|run| run.shutdown_timeout).max()?;
        self.exit = Exit::after(shutdown_timeout, now);
        Some(self.runs.iter().map(|run| run.stop.clone()).collect())
    }
}

impl Exit {
    /// Returns `None` if the addition overflows.
    fn after(shutdown_timeout: Duration, now: Instant) -> Option<Self> {
        // Exit later than the controllers' watchdog, because it logs the reconciliations that block their threads.
        let watchdog = (shutdown_timeout / 10).min(Duration::from_secs(2));
        let after = shutdown_timeout.checked_add(watchdog)?.checked_add(Duration::from_millis(1_500))?;
        Some(Self { at: now.checked_add(after)?, shutdown_timeout })
    }
}

#[derive(Debug)]
pub(crate) struct StopOnSignal(Run);

impl StopOnSignal {
    /// Starts to listen for signals. A second signal, or a signal after the end of all runs, exits the process with
    /// code 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal handlers cannot be installed.
    pub(crate) fn new(shutdown_timeout: Duration) -> io::Result<Self> {
        let (mut run, mut started) = (None, Ok(()));
        STATE.send_modify(|state| {
            if !state.is_listening {
                started = start_thread();
                state.is_listening = started.is_ok();
            }
            run = started.is_ok().then(|| state.add(shutdown_timeout));
        });
        started?;
        run.map(Self).ok_or_else(|| io::Error::other("the signals have no reader"))
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Records the end of the run, and limits the time for which the process may continue.
    pub(crate) fn ended(self) {
        STATE.send_modify(|state| state.ended(&self.0, Instant::now()));
    }
}

impl Drop for StopOnSignal {
    fn drop(&mut self) {
        STATE.send_modify(|state| state.remove(self.0.number));
    }
}

/// Starts the thread for signal handling, which never ends.
fn start_thread() -> io::Result<()> {
    let (sender, installed) = mpsc::channel();
    let logs = get_default(Clone::clone);
    let run = move || {
        let (runtime, signals) = match install() {
            Ok(installed) => installed,
            Err(error) => return drop(sender.send(Err(error))),
        };
        // Sending cannot fail, because the receiver waits for this message.
        _ = sender.send(Ok(()));
        with_default(&logs, || runtime.block_on(read(signals)));
    };
    thread::Builder::new().name("pintle-signals".into()).spawn(run)?;
    installed.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that reads signals has ended")))
}

fn install() -> io::Result<(Runtime, Signals)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async { Signals::new() })?;
    Ok((runtime, signals))
}

async fn read(mut signals: Signals) {
    let mut state = STATE.subscribe();
    loop {
        let exit = state.borrow_and_update().exit;
        tokio::select! {
            biased;
            name = signals.next() => stop_or_exit(name),
            _ = state.changed() => {}
            () = sleep_until(exit.map_or_else(Instant::now, |exit| exit.at)), if exit.is_some() => end_process(exit),
        }
    }
}

fn stop_or_exit(name: &'static str) {
    let (mut tokens, mut first) = (None, None);
    STATE.send_modify(|state| {
        first = state.signal;
        tokens = state.signalled(name, Instant::now());
    });
    match tokens {
        Some(tokens) => {
            // Log the signal first, because the stopping parts also write logs.
            report(move || tracing::info!(signal = name, "stopping"));
            tokens.iter().for_each(CancellationToken::cancel);
        }
        None => {
            let reason = if first.is_some() { "second signal" } else { "signal after the end of the manager" };
            report(move || tracing::error!(signal = name, "{reason}: exiting at once"));
            exit(1);
        }
    }
}

#[expect(clippy::print_stderr, reason = "the process exits, and its logs may go nowhere")]
fn end_process(exit_at: Option<Exit>) {
    let Some(Exit { shutdown_timeout, .. }) = exit_at else { return };
    let problem = format!(
        "the process did not end within the stop timeout of {shutdown_timeout:?}; blocking work keeps it alive, for example \
         in spawn_blocking or in a service; exiting the process"
    );
    report(move || {
        eprintln!("pintle: {problem}");
        tracing::error!("{problem}");
    });
    exit(1);
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "cannot wait for Ctrl-C");
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn first_signal_stops_all_runs_and_second_exits() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(state.signalled("SIGTERM", now).is_none(), "no manager runs");
        let (short, long) = (state.add(TIMEOUT / 2), state.add(TIMEOUT));
        assert_eq!(state.signalled("SIGTERM", now).map(|tokens| tokens.len()), Some(2));
        let exit = Exit { at: now + Duration::from_millis(23_500), shutdown_timeout: TIMEOUT };
        assert_eq!(state.exit, Some(exit));
        assert!(state.signalled("SIGTERM", now).is_none());
        state.ended(&short, now + TIMEOUT);
        state.ended(&long, now + TIMEOUT);
        assert_eq!(state.exit, Some(exit), "the end of the runs does not prolong the time");
        assert!(state.add(TIMEOUT).stop.is_cancelled());
    }

    #[test]
    fn time_after_a_failure_ends_with_the_next_run() {
        let (mut state, now) = (State::default(), Instant::now());
        let (failed, other) = (state.add(TIMEOUT), state.add(TIMEOUT));
        state.ended(&failed, now);
        assert_eq!(state.exit, None, "another manager runs");
        state.ended(&other, now);
        assert!(state.exit.is_some_and(|exit| exit.at > now + TIMEOUT));
        let next = state.add(TIMEOUT);
        assert_eq!((state.exit, next.stop.is_cancelled()), (None, false));
        state.remove(next.number);
        assert_eq!(state.exit, None, "the run was dropped");
        assert!(state.signalled("SIGTERM", now).is_none(), "all runs have ended");
    }

    #[test]
    fn endless_timeout_has_no_exit() {
        let mut state = State::default();
        state.add(Duration::MAX);
        assert!(state.signalled("SIGTERM", Instant::now()).is_some());
        assert_eq!(state.exit, None);
    }
}
