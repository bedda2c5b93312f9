//! The elector. The elector runs the leader's work, while a separate task drives the state machine.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::thread;

use pintle_metrics::CatchPanic;
use pintle_ratelimit::Backoff;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::caught::caught;
use crate::config::EventHook;
use crate::leadership::TermHandle;
use crate::machine::Preference;
use crate::metrics::Instruments;
use crate::shell::{Contest, Notice, Shell};
use crate::status::Observed;
use crate::watching::{follow, map};
use crate::{
    ElectionStatus, EndReason, InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderEvent, LeaderEventKind,
    Leadership, LeadershipLost, Lock, Observers, TermEnd,
};

/// An elector: contends for a lock and runs the leader's work, like client-go's `LeaderElector`.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{InvalidConfig, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeadershipLost};
/// use pintle_leaderelect::{Lease, LeaseLock};
/// use pintle_meta::{ListWatch, ObjectApi};
/// use tokio_util::sync::CancellationToken;
///
/// async fn lead<A>(leases: A, stop: CancellationToken) -> Result<(), InvalidConfig>
/// where
///     A: ObjectApi<Lease> + ListWatch<Object = Lease>,
/// {
///     let lock = LeaseLock::new(leases, "kube-system", "website-controller");
///     let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default())?;
///     let status = elector.status(); // for health checks
///     let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
///     let last_term = elector.run(&stop, work).await;
///     println!("the last term: {last_term:?}; {:?} leads now", status.leader());
///     Ok(())
/// }
/// ```
///
/// The example of [`Lock`] shows a complete election.
pub struct LeaderElector<L: Lock> {
    lock: Arc<L>,
    config: LeaderElectionConfig,
    observed: watch::Sender<Observed>,
    metrics: Option<Arc<Instruments>>,
    /// The [`Shell`] that this elector shares with other electors. `None` if this elector starts its own shell.
    shell: Option<Arc<Shell<L>>>,
    /// The channel that receives changes of the preferred holder. `None` if the lock has no preferred holder.
    preference: Option<watch::Receiver<Preference>>,
    /// The last leadership term, if `run` was dropped or panicked before the work and the permits of the term ended.
    unfinished: Option<TermHandle>,
}

impl<L: Lock> LeaderElector<L> {
    /// Creates an elector for `lock`. The elector does nothing until [`run`](LeaderElector::run) is called.
    ///
    /// # Errors
    ///
    /// Returns the first rule in [`InvalidConfig`] that `config` breaks. Some of the rules depend on the lock.
    pub fn new(lock: L, config: LeaderElectionConfig) -> Result<Self, InvalidConfig> {
        config.validate()?;
        if config.coordinated && !lock.can_be_coordinated() {
            return Err(InvalidConfig::CoordinatedWithoutLease { kind: lock.resource().kind, key: lock.key().clone() });
        }
        for warning in config.warnings() {
            tracing::warn!(lock = %lock.key(), "{warning}");
        }
        Ok(Self::of(lock, config, None))
    }

    /// Creates an elector from a configuration that was already validated.
    pub(crate) fn of(lock: L, mut config: LeaderElectionConfig, shell: Option<Arc<Shell<L>>>) -> Self {
        let Observers { metrics, events } = lock.observers();
        config.metrics = config.metrics.or(metrics);
        config.events = config.events.or(events);
        let observed = watch::Sender::new(Observed::default());
        let (metrics, preference, unfinished) = (None, None, None);
        let mut elector = Self { lock: Arc::new(lock), config, observed, metrics, shell, preference, unfinished };
        elector.metrics = elector.config.metrics.clone().map(|provider| {
            let provider = CatchPanic::new(provider, |panic| {
                tracing::error!(panic, "the metrics provider of an elector panicked; its metrics are disabled");
            });
            Arc::new(Instruments::new(&provider, elector.lock.key().name(), elector.status()))
        });
        elector
    }

    /// Returns a handle for reading the state of the election, for example from a health check.
    pub fn status(&self) -> ElectionStatus {
        ElectionStatus::new(self.lock.key().clone(), &self.config, self.observed.subscribe())
    }

    /// Contends for the lock, and runs the work while this elector leads. When the elector loses a term, it contends again. The
    /// method returns when `stop` is cancelled, or when the work ends although it was not asked to end. The work can end by
    /// returning a value or an error, or with a panic. The return value is the end of the last leadership term, or `None` if there
    /// was no term. To contend again, call `run` again.
    ///
    /// When `stop` is cancelled, the elector asks the work to end, and renews the term until the work has ended. The
    /// elector then waits until all [permits](Leadership::permit) and all other work that [runs](Leadership::run) under
    /// the term have ended, or until their deadline has passed. After this wait, the elector tries for at most
    /// `renew_deadline` to release the lock. If the leadership term is lost before the work has ended, the work is
    /// dropped.
    ///
    /// # Panics
    ///
    /// Panics if the lock panics, or if any callback except the work panics. After such a panic, the elector does not
    /// release the lock, so the next leader has to wait until the lock expires. The next call of this method waits for
    /// the permits and the concurrent work of the leadership term, as after a dropped run.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and ends the election immediately. The lock is not released. The next leader has
    /// to wait until the lock expires. Permits and concurrent work may continue until the deadline of the leadership term.
    /// Only the next run of this elector waits for them.
    pub async fn run<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        self.contend(stop, callbacks, false).await
    }

    /// Runs one election like [`LeaderElector::run`], but returns after at most one term, like client-go's `Run`.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`LeaderElector::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as for [`LeaderElector::run`].
    pub async fn run_once<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        self.contend(stop, callbacks, true).await
    }

    async fn contend<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
        once: bool,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        let LeaderCallbacks { mut on_started_leading, mut on_stopped_leading, mut on_new_leader } = callbacks;
        let stop = stop.child_token();
        if let Some(last) = self.unfinished.clone() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = last.close(EndReason::Dropped) => self.unfinished = None,
            }
        }
        let (to_us, mut notices) = mpsc::unbounded_channel();
        let metrics = self.metrics.as_ref().map(Arc::downgrade);
        let contest = Contest::new(self.lock.clone(), self.config.clone(), self.observed.clone(), to_us, metrics);
        // A separate task renews the term while the work runs. Therefore, renewals continue even if the work blocks the
        // thread.
        let shell = self.shell.clone().unwrap_or_else(|| self.own_shell());
        let (place, ended) = shell.join(contest, stop.clone(), self.preference.clone());
        let mut last = None;
        while let Some(notice) = notices.recv().await {
            let handle = match notice {
                Notice::NewLeader(identity) => {
                    on_new_leader(&identity);
                    continue;
                }
                Notice::Started(handle) => handle,
            };
            let leadership = handle.leadership();
            self.unfinished = Some(handle.clone());
            let mut term = OpenTerm {
                observed: self.observed.clone(),
                metrics: self.metrics.clone(),
                event: self.event(&leadership),
                events: self.config.events.clone(),
                on_stopped: &mut *on_stopped_leading,
                handle,
                open: false,
            };
            term.begin();
            let mut new_leader = |identity: String| on_new_leader(&identity);
            // If the leadership term ends before this future is polled for the first time, the work never starts.
            let work = leadership.run(Box::pin(async { on_started_leading(leadership.clone()).await }));
            let ended = meanwhile(caught(work), &mut notices, &mut new_leader).await;
            let ended = ended.unwrap_or_else(|panic| resume_unwind(panic));
            let requested = stop.is_cancelled().then_some(EndReason::Cancelled).or_else(|| term.handle.drains_for());
            let end = end_of_term(ended, &leadership, requested);
            if once || matches!(end.reason, EndReason::Completed | EndReason::Panicked) {
                stop.cancel();
            }
            // The leadership term lasts until the concurrent work under the term has ended.
            let closed = meanwhile(term.handle.close(end.reason.clone()), &mut notices, &mut new_leader).await;
            // If a callback or the contest panicked, keep the leadership term, so that the next run waits for it.
            if let Ok(Some(())) = closed {
                self.unfinished = None;
            }
            closed.unwrap_or_else(|panic| resume_unwind(panic));
            let (recorded, called) = term.report_end(&end);
            if let Err(panic) = recorded.and(called) {
                resume_unwind(panic);
            }
            last = Some(end);
            place.work_ended();
        }
        match ended.await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => resume_unwind(panic),
            // The contest ended without a result and without a panic. Such an end happens only when the runtime shuts
            // down.
            Err(_) => {
                if let Some(panic) = place.panic_message().await {
                    resume_unwind(Box::new(panic));
                }
            }
        }
        last
    }

    /// Sets the channel that receives the preferred holder.
    pub(crate) fn prefer(self, preference: watch::Receiver<Preference>) -> Self {
        Self { preference: Some(preference), ..self }
    }

    /// Starts a [`Shell`] that serves only this elector. The shell watches the lock that this elector contends for.
    fn own_shell(&self) -> Arc<Shell<L>> {
        let (lock, clocks) = (self.lock.clone(), self.config.clocks.clone());
        let pauses = Backoff::new(self.config.watch_retries(), self.config.seed());
        Arc::new(Shell::start(self.config.clocks.clone(), None, move |to_us| async move {
            let seen = async || Ok(lock.watch().await?.map(|events| map(events, |event| Some((None, event)))));
            follow(lock.key(), seen, clocks, pauses, to_us).await;
        }))
    }

    /// Returns the event that reports the beginning of a leadership term.
    fn event(&self, leadership: &Leadership) -> LeaderEvent {
        LeaderEvent {
            kind: LeaderEventKind::BecameLeader,
            identity: self.config.identity.clone(),
            resource: self.lock.resource(),
            key: self.lock.key().clone(),
            version: leadership.term().version.clone(),
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

/// Waits for `work`, and reports new leaders while it waits. Returns `None` if the contest has ended. The contest ends
/// early only after a panic. If `new_leader` panics, the panic is resumed after `work` was dropped. Otherwise, a panic
/// during that drop would be a second panic and would abort the process.
async fn meanwhile<F: Future>(
    work: F,
    notices: &mut mpsc::UnboundedReceiver<Notice>,
    new_leader: &mut impl FnMut(String),
) -> thread::Result<Option<F::Output>> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            output = &mut work => return Ok(Some(output)),
            notice = notices.recv() => match notice {
                Some(Notice::NewLeader(identity)) => catch_unwind(AssertUnwindSafe(|| new_leader(identity)))?,
                // A `Started` notice cannot arrive here, because the machine starts the next leadership term only after the
                // end of this term was reported.
                Some(Notice::Started(_)) | None => return Ok(None),
            },
        }
    }
}

/// Determines the reason for the end of a leadership term from the outcome of its work.
fn end_of_term<T>(
    ended: Option<thread::Result<Result<T, LeadershipLost>>>,
    leadership: &Leadership,
    requested: Option<EndReason>,
) -> TermEnd<T> {
    let (reason, work) = match ended {
        None => (EndReason::Dropped, None),
        Some(Ok(Err(lost))) => (lost.reason, None),
        Some(Ok(Ok(output))) => (requested.unwrap_or(EndReason::Completed), Some(Ok(output))),
        Some(Err(panic)) => (EndReason::Panicked, Some(Err(panic))),
    };
    // The work may notice the end of its term earlier than the elector does, and return for this reason.
    let reason = match leadership.check() {
        Err(lost) if !matches!(reason, EndReason::Panicked | EndReason::Dropped) => lost.reason,
        _ => reason,
    };
    TermEnd { reason, work }
}

/// A leadership term whose beginning was reported. The end of the term is also always reported, even if the elector is
/// dropped.
struct OpenTerm<'a, T> {
    handle: TermHandle,
    observed: watch::Sender<Observed>,
    metrics: Option<Arc<Instruments>>,
    event: LeaderEvent,
    events: Option<EventHook>,
    on_stopped: &'a mut (dyn FnMut(&TermEnd<T>) + Send),
    open: bool,
}

impl<T> OpenTerm<'_, T> {
    fn begin(&mut self) {
        // If this call panics, the leadership term does not begin, and the end of the term is not reported.
        self.record(LeaderEventKind::BecameLeader);
        self.open = true;
        self.observed.send_modify(|observed| observed.term = Some(self.handle.leadership()));
    }

    /// Reports the end of the leadership term to the event hook and to the callback. The event hook and the callback
    /// are both called, even if one of them panics.
    fn report_end(&mut self, end: &TermEnd<T>) -> (thread::Result<()>, thread::Result<()>) {
        self.open = false;
        self.handle.lose(end.reason.clone());
        self.observed.send_modify(|observed| observed.term = None);
        if let Some(metrics) = &self.metrics {
            metrics.term_ended(&end.reason);
        }
        let recorded = catch_unwind(AssertUnwindSafe(|| self.record(LeaderEventKind::StoppedLeading)));
        (recorded, catch_unwind(AssertUnwindSafe(|| (self.on_stopped)(end))))
    }

    fn record(&mut self, kind: LeaderEventKind) {
        self.event.kind = kind;
        if let Some(record) = &self.events {
            record(&self.event);
        }
    }
}

impl<T> Drop for OpenTerm<'_, T> {
    fn drop(&mut self) {
        self.handle.lose(EndReason::Dropped);
        if !self.open {
            return;
        }
        let (recorded, called) = self.report_end(&TermEnd { reason: EndReason::Dropped, work: None });
        // Catch panics here, because a second panic during unwinding would abort the process.
        if recorded.is_err() || called.is_err() {
            tracing::error!(lock = %self.event.key, "a callback panicked while handling the end of a dropped term");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    struct Falls;

    impl Drop for Falls {
        fn drop(&mut self) {
            panic!("the work panicked")
        }
    }

    /// A second panic during unwinding would abort the process.
    #[tokio::test]
    async fn work_panic_after_callback_panic_does_not_abort() {
        let (sender, mut notices) = mpsc::unbounded_channel();
        assert!(sender.send(Notice::NewLeader("other".into())).is_ok());
        let work = async move {
            let _falls = Falls;
            pending::<()>().await
        };
        let mut new_leader = |_: String| panic!("the callback panicked");
        let ended = caught(meanwhile(work, &mut notices, &mut new_leader)).await;
        assert_eq!(ended.unwrap_err().downcast_ref::<&str>(), Some(&"the work panicked"));
    }
}
