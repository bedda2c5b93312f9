//! The elector: it runs the work of the leader, while a task of its own drives the machine.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::thread::panicking;

use pintle_metrics::CatchPanic;
use pintle_ratelimit::Backoff;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::EventHook;
use crate::driver::{Driver, Notice};
use crate::leadership::TermState;
use crate::metrics::Instruments;
use crate::status::Observed;
use crate::{
    ElectionStatus, InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderEvent, LeaderEventKind, Leadership,
    Lock, LossReason,
};

/// Contends for a lock and runs the work of the leader: the `LeaderElector` of client-go.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeadershipLost};
/// use pintle_leaderelect::{Lease, LeaseLock};
/// use pintle_meta::ObjectApi;
/// use tokio_util::sync::CancellationToken;
///
/// async fn lead(leases: impl ObjectApi<Lease>, stop: CancellationToken) -> Result<(), InvalidConfig> {
///     let lock = LeaseLock::new(leases, "kube-system", "website-controller");
///     let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default())?;
///     let status = elector.status(); // for health checks and others that ask
///     let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
///     let last_term = elector.run(&stop, work).await;
///     println!("the last term ended so: {last_term:?}; {:?} leads now", status.leader());
///     Ok(())
/// }
/// ```
///
/// The example of [`Lock`] runs a whole election.
pub struct LeaderElector<L> {
    lock: Arc<L>,
    config: LeaderElectionConfig,
    observed: watch::Sender<Observed>,
    metrics: Option<Arc<Instruments>>,
}

impl<L: Lock> LeaderElector<L> {
    /// An elector for `lock`. Nothing happens before it [runs](LeaderElector::run).
    ///
    /// # Errors
    ///
    /// The first rule that `config` breaks.
    pub fn new(lock: L, config: LeaderElectionConfig) -> Result<Self, InvalidConfig> {
        config.validate()?;
        for warning in config.warnings() {
            tracing::warn!(lock = %lock.key(), "{warning}");
        }
        let mut elector =
            Self { lock: Arc::new(lock), config, observed: watch::Sender::new(Observed::default()), metrics: None };
        elector.metrics = elector.config.metrics.clone().map(|provider| {
            let provider = CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics of an elector panicked, and are told nothing more");
            });
            Arc::new(Instruments::new(&provider, elector.lock.key().name(), elector.status()))
        });
        Ok(elector)
    }

    /// What this elector knows, for others to ask.
    pub fn status(&self) -> ElectionStatus {
        ElectionStatus::new(
            self.lock.key().clone(),
            self.config.lease_duration,
            self.config.clocks.clone(),
            self.observed.subscribe(),
        )
    }

    /// Contends, works for as long as it leads, and contends again, until `stop` is cancelled or the work ends by itself.
    /// Returns how the last term ended; none when there was none.
    ///
    /// When `stop` is cancelled, the work is asked to end, and the term is renewed until it has; then the elector tries for at
    /// most `renew_deadline` to release the lock. If the term is lost before the work has ended, the work is dropped.
    ///
    /// # Panics
    ///
    /// If the work or a callback panics. The lock is not released then, and expires.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and ends the election at once, without a release: a successor has to wait for the
    /// lock to expire.
    pub async fn run<W, Fut>(&mut self, stop: &CancellationToken, callbacks: LeaderCallbacks<W>) -> Option<LossReason>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        self.contend(stop, callbacks, false).await
    }

    /// Like [`LeaderElector::run`], but for one term at most: client-go's `Run`.
    ///
    /// # Panics
    ///
    /// As for [`LeaderElector::run`].
    ///
    /// # Cancel safety
    ///
    /// As for [`LeaderElector::run`].
    pub async fn run_once<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W>,
    ) -> Option<LossReason>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        self.contend(stop, callbacks, true).await
    }

    async fn contend<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W>,
        once: bool,
    ) -> Option<LossReason>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        let LeaderCallbacks { mut on_started_leading, mut on_stopped_leading, mut on_new_leader } = callbacks;
        let stop = stop.child_token();
        // Unbounded, since a notice is at most an answer of the server, and they are read at all times.
        let (to_us, mut notices) = mpsc::unbounded_channel();
        let (work_ended, ends) = mpsc::channel(1);
        // The driver has a task of its own, so that work that hogs its thread does not keep the term from being renewed.
        let driver = Driver::new(
            self.lock.clone(),
            self.config.clone(),
            self.observed.clone(),
            to_us,
            self.metrics.as_ref().map(Arc::downgrade),
        );
        let hints = self.lock.watch().map(|watch| {
            let (to_driver, hinted) = mpsc::channel(8);
            let pauses = Backoff::new(self.config.watch_retries(), self.config.seed());
            (watch.start(self.lock.key().clone(), pauses, to_driver), hinted)
        });
        let driver = AbortOnDropHandle::new(tokio::spawn(driver.run(stop.clone(), ends, hints)));
        let mut last = None;
        while let Some(notice) = notices.recv().await {
            let (leadership, state) = match notice {
                Notice::NewLeader(identity) => {
                    on_new_leader(&identity);
                    continue;
                }
                Notice::Started(leadership, state) => (leadership, state),
            };
            let reason = {
                let mut term = OpenTerm {
                    state,
                    observed: self.observed.clone(),
                    event: self.event(&leadership),
                    events: self.config.events.clone(),
                    on_stopped: &mut *on_stopped_leading,
                    reason: LossReason::Abandoned,
                };
                term.record(LeaderEventKind::BecameLeader);
                let mut work = pin!(leadership.run(on_started_leading(leadership.clone())));
                let ended = loop {
                    tokio::select! {
                        ended = &mut work => break ended.map_err(|lost| lost.reason),
                        notice = notices.recv() => match notice {
                            Some(Notice::NewLeader(identity)) => on_new_leader(&identity),
                            // A term begins only after this one's end was told.
                            Some(Notice::Started(..)) | None => break Err(LossReason::Abandoned),
                        },
                    }
                };
                term.reason = match ended {
                    Err(reason) => reason,
                    Ok(_) if stop.is_cancelled() => LossReason::Cancelled,
                    Ok(_) => LossReason::Completed,
                };
                term.reason.clone()
            };
            if once || reason == LossReason::Completed {
                stop.cancel();
            }
            last = Some(reason);
            // The driver is gone only after a panic, which is passed on below.
            let _ = work_ended.send(()).await;
        }
        if let Err(error) = driver.await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
        last
    }

    /// The event of a term's beginning.
    fn event(&self, leadership: &Leadership) -> LeaderEvent {
        LeaderEvent {
            kind: LeaderEventKind::BecameLeader,
            identity: self.config.identity.clone(),
            resource: self.lock.resource(),
            key: self.lock.key().clone(),
            version: leadership.token().clone(),
        }
    }
}

impl<L: Lock> fmt::Debug for LeaderElector<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElector")
            .field("lock", self.lock.key())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Closes a term, however its work ends: by returning, by a panic, or by being dropped.
struct OpenTerm<'a> {
    state: watch::Sender<TermState>,
    observed: watch::Sender<Observed>,
    event: LeaderEvent,
    events: Option<EventHook>,
    on_stopped: &'a mut (dyn FnMut(&LossReason) + Send),
    reason: LossReason,
}

impl OpenTerm<'_> {
    fn record(&mut self, kind: LeaderEventKind) {
        self.event.kind = kind;
        if let Some(record) = &self.events {
            record(&self.event);
        }
    }
}

impl Drop for OpenTerm<'_> {
    fn drop(&mut self) {
        self.state.send_modify(|state| {
            state.lost.get_or_insert_with(|| self.reason.clone());
        });
        self.observed.send_modify(|observed| observed.term = None);
        // Each is told, even if the other panics.
        let recorded = catch_unwind(AssertUnwindSafe(|| self.record(LeaderEventKind::StoppedLeading)));
        let told = catch_unwind(AssertUnwindSafe(|| (self.on_stopped)(&self.reason)));
        if let Err(panic) = recorded.and(told) {
            match panicking() {
                false => resume_unwind(panic),
                // A second panic on the way of the first would end the process.
                true => {
                    tracing::error!(lock = %self.event.key, "the end of a term could not be told: a callback panicked")
                }
            }
        }
    }
}
