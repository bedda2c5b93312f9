//! The signals that stop a program.

use std::io;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Cancels `stop` on SIGTERM and on SIGINT (Ctrl-C). A second signal ends the process immediately, with code 1.
///
/// # Errors
///
/// Returns an error if the handlers cannot be installed.
pub(crate) fn cancel_on_signal(stop: CancellationToken) -> io::Result<AbortOnDropHandle<()>> {
    let mut signals = Signals::new()?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let name = signals.next().await;
        tracing::info!(signal = name, "stopping");
        stop.cancel();
        let name = signals.next().await;
        tracing::error!(signal = name, "second signal: exiting at once");
        std::process::exit(1);
    })))
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
