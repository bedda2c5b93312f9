//! The auditor, which reads and watches a lock and reports the lock's history.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::__private::{WatchMessage, follow};
use pintle_leaderelect::{Clocks, Deadline, Lock, LockEvent, LockSnapshot, SystemClocks};
use pintle_meta::{ApiError, ErrorKind};
use pintle_ratelimit::{Backoff, BackoffConfig};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, AuditSummary};
use crate::finding::Finding;

/// Observes a lock of any kind, and reports leaders, periods without a leader, and unsafe events as [`Finding`]s. An
/// auditor needs only permission to read and watch the lock, and has no effect on the contenders.
///
/// # Examples
///
/// The [crate documentation](crate) contains an example.
pub struct LockAuditor<L> {
    /// The lock that the auditor observes.
    pub lock: L,
    /// The interval between two reads of the lock, by default one second. With a shorter interval, the auditor can
    /// determine the time of each write more precisely. For most findings, half of the electors' retry period is short
    /// enough. If the interval is zero, the auditor does not pause between two reads.
    pub period: Duration,
    /// The clocks for the interval between reads and for the times in findings.
    pub clocks: Arc<dyn Clocks>,
}

const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why a read of the lock failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Malformed,
    Unreadable,
}

impl Trouble {
    fn of(error: &ApiError) -> Self {
        if matches!(error.kind, ErrorKind::Decode(_)) { Self::Malformed } else { Self::Unreadable }
    }
}

impl<L: Lock> LockAuditor<L> {
    /// Creates an auditor for `lock`. The auditor does nothing until [`run`](Self::run) is called.
    pub fn new(lock: L) -> Self {
        Self { lock, period: Duration::from_secs(1), clocks: Arc::new(SystemClocks::new()) }
    }

    /// Observes the lock until the `stop` token is cancelled, and reports each finding immediately. The auditor logs
    /// and retries failed reads and watches, and misses changes between a failure and the next successful read or
    /// watch.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the audit without a summary.
    pub async fn run(&self, stop: &CancellationToken, mut report: impl FnMut(&Finding)) -> AuditSummary {
        let mut audit = Audit::new();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.observe(&mut audit, &mut report) => {}
        }
        audit.summary()
    }

    async fn observe(&self, audit: &mut Audit, report: &mut impl FnMut(&Finding)) {
        let (to_us, mut messages) = mpsc::channel(8);
        let pauses =
            BackoffConfig { base: self.period, cap: self.period.saturating_mul(16), ..BackoffConfig::default() };
        let pauses = Backoff::new(pauses, fastrand::u64(..));
        let mut following = pin!(async {
            follow(self.lock.key(), || self.lock.watch(), self.clocks.clone(), pauses, to_us).await;
            pending().await
        });
        let mut look_at = self.clocks.now().monotonic;
        let (mut trouble, mut is_malformed) = (None, false);
        loop {
            let now = self.clocks.now();
            if now.monotonic >= look_at {
                look_at = now.monotonic.saturating_add(self.period);
                let answer = self.read().await;
                let before = std::mem::replace(&mut trouble, answer.as_ref().err().map(Trouble::of));
                let findings = match answer {
                    Ok(found) => {
                        is_malformed = false;
                        audit.read(found.map(|locked| locked.state).as_ref(), now.monotonic, self.clocks.now())
                    }
                    // Report a malformed record only once until a read succeeds, even if other reads fail in between.
                    Err(error) if trouble == Some(Trouble::Malformed) => {
                        let is_reported = std::mem::replace(&mut is_malformed, true);
                        if is_reported { Vec::new() } else { vec![Finding::Malformed { why: error.to_string() }] }
                    }
                    Err(_) if trouble == before => Vec::new(),
                    Err(error) => {
                        tracing::warn!(lock = %self.lock.key(), %error, "cannot read the lock");
                        Vec::new()
                    }
                };
                findings.iter().for_each(&mut *report);
            }
            let findings = tokio::select! {
                biased;
                Some(message) = messages.recv() => {
                    let now = self.clocks.now();
                    match message {
                        WatchMessage::Up => Vec::new(),
                        WatchMessage::Down => {
                            audit.watch_is_down();
                            Vec::new()
                        }
                        WatchMessage::Event(LockEvent::Changed(locked)) => audit.record_event(Some(&locked.state), now),
                        WatchMessage::Event(LockEvent::Deleted { .. }) => audit.record_event(None, now),
                        WatchMessage::Event(LockEvent::MaybeChanged) => {
                            audit.watch_is_down();
                            look_at = now.monotonic;
                            Vec::new()
                        }
                    }
                }
                () = &mut following => Vec::new(),
                () = self.clocks.sleep_until(Deadline::monotonic(look_at)) => Vec::new(),
            };
            findings.iter().for_each(&mut *report);
        }
    }

    async fn read(&self) -> Result<Option<LockSnapshot<L::Object>>, ApiError> {
        let late = Deadline::monotonic(self.clocks.now().monotonic + PATIENCE);
        tokio::select! {
            biased;
            answer = self.lock.get() => answer,
            () = self.clocks.sleep_until(late) => Err(ApiError::timeout("no response before the timeout")),
        }
    }
}

pintle_meta::debug_struct!(LockAuditor<L: Lock> |self| { lock = self.lock.key(), period, .. });
