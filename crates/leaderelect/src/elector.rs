//! Electors, which run the leader's work while a background task drives the election.

use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::thread;

use pintle_metrics::__private::caught_payload;
use pintle_metrics::CatchPanic;
use pintle_ratelimit::Backoff;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::callbacks::{LeaderCallbacks, LeaderEvent, LeaderEventKind};
use crate::config::{EventHook, InvalidConfig, LeaderElectionConfig, Observers};
use crate::leadership::{Leadership, LeadershipLost, TermHandle};
use crate::lock::Lock;
use crate::machine::Preference;
use crate::metrics::Instruments;
use crate::shell::{Contest, Notice, Shell};
use crate::status::{ElectionStatus, ListOutage, Observed};
use crate::term::{EndReason, TermEnd};
use crate::watching::{follow, map};

/// Contends for a lock and runs the leader's work, like client-go's `LeaderElector`.
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
/// See [`Lock`] for an example of a complete election.
pub struct LeaderElector<L: Lock> {
    lock: Arc<L>,
    config: LeaderElectionConfig,
    observed: watch::Sender<Observed>,
    metrics: Option<Arc<Instruments>>,
    /// The [`Shell`] that drives the election, if several electors share it. If `None`, each run of this elector starts a new
    /// `Shell`.
    shell: Option<Arc<Shell<L>>>,
    /// Receives the preferred holder each time it changes. `None` unless the caller of [`prefer`](Self::prefer) chooses the
    /// preferred holder.
    preference: Option<watch::Receiver<Preference>>,
    /// The last term, if `run` was dropped or panicked before the leader's work and permits ended.
    unfinished: Option<TermHandle>,
}

impl<L: Lock> LeaderElector<L> {
    /// Creates an elector for `lock`. Call [`run`](LeaderElector::run) to contend for the lock.
    ///
    /// # Errors
    ///
    /// Returns an error with the first rule in [`InvalidConfig`] that `config` violates for this lock.
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

    /// Returns a handle to the status of the election, for example for a health check.
    pub fn status(&self) -> ElectionStatus {
        ElectionStatus::new(self.lock.key().clone(), &self.config, self.observed.subscribe())
    }

    /// Contends for the lock, and runs the leader's work while this elector is the leader. The elector contends again
    /// after it has lost a term. Returns when the `stop` token is cancelled, or when the leader's work returns or
    /// panics on its own. Returns how the last term ended, or `None` if this elector never led. To contend again after
    /// `run` has returned, call it again.
    ///
    /// When the `stop` token is cancelled, the elector asks the leader's work to finish, and keeps renewing the lock
    /// until it has finished. The elector then waits until all [permits](Leadership::permit) are dropped and all
    /// concurrent work in [`Leadership::run`] has ended, but no longer than the term's deadline. Finally, the elector
    /// tries for up to `renew_deadline` to release the lock. If the term is lost before the leader's work has finished,
    /// the elector drops the work.
    ///
    /// # Panics
    ///
    /// Panics if a callback or the lock panics, or if the runtime of the task that renews the lock has shut down. A
    /// panic in the leader's work does not propagate, but ends the term. A panic leaves the lock unreleased, so the
    /// next leader has to wait until the lock expires. The next call to `run` first waits for the permits and
    /// concurrent work of the last term.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future immediately drops the leader's work and ends the election. A dropped election leaves the
    /// lock unreleased, so the next leader has to wait until the lock expires. Permits and concurrent work may continue
    /// until the term's deadline. Only the next call to `run` on this elector waits for permits and concurrent work.
    pub async fn run<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        self.contend(stop, callbacks, || ready(()), false).await
    }

    /// Works like [`LeaderElector::run`], but returns after at most one term, like client-go's `Run`.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`LeaderElector::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as dropping the future of [`LeaderElector::run`].
    pub async fn run_once<W, Fut>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        self.contend(stop, callbacks, || ready(()), true).await
    }

    /// Works like [`LeaderElector::run`], but the work of a term ends only when the future that `settle` returns has
    /// completed. The elector calls `settle` after it has dropped the work. Until the future of `settle` has completed,
    /// the elector renews the term if the term is not lost, and does not contend if the term is lost.
    #[doc(hidden)]
    pub async fn run_until_settled<W, Fut, S, Settled>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
        settle: S,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
        S: FnMut() -> Settled,
        Settled: Future<Output = ()>,
    {
        self.contend(stop, callbacks, settle, false).await
    }

    async fn contend<W, Fut, S, Settled>(
        &mut self,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
        mut settle: S,
        once: bool,
    ) -> Option<TermEnd<Fut::Output>>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
        S: FnMut() -> Settled,
        Settled: Future<Output = ()>,
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
        // A separate task renews the term, so that renewals continue even if the leader's work blocks its thread.
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
            // The work does not start if the term ends before this future is first polled.
            let work = leadership.run(Box::pin(async { on_started_leading(leadership.clone()).await }));
            let ended = report_leaders_during(caught_payload(work), &mut notices, &mut new_leader).await;
            let ended = ended.unwrap_or_else(|panic| resume_unwind(panic));
            let requested = stop.is_cancelled().then_some(EndReason::Cancelled).or_else(|| term.handle.drains_for());
            let end = end_of_term(ended, &leadership, requested);
            if once || matches!(end.reason, EndReason::Completed | EndReason::Panicked) {
                stop.cancel();
            }
            // Also wait for concurrent work in `Leadership::run`, because the term lasts until all work has ended.
            let close = async {
                term.handle.close(end.reason.clone()).await;
                settle().await;
            };
            let closed = report_leaders_during(close, &mut notices, &mut new_leader).await;
            // After a panic in a callback or in the `Contest`, keep the term so that the next call to `run` waits for
            // it.
            if let Ok(Some(())) = closed {
                self.unfinished = None;
            }
            closed.unwrap_or_else(|panic| resume_unwind(panic));
            let (recorded, called) = term.report_end(&end);
            drop(term);
            if let Err(panic) = recorded.and(called) {
                resume_unwind(panic);
            }
            last = Some(end);
            place.work_ended();
        }
        match ended.await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => resume_unwind(panic),
            // The `Contest` was dropped without a result, because the task of the `Shell` panicked or the runtime of the task
            // has shut down. Panic in this case, because a caller that contends again would otherwise loop without a pause.
            Err(_) => {
                let panic = place.panic_message().await;
                resume_unwind(Box::new(
                    panic.unwrap_or_else(|| "the runtime of the election's task has shut down".into()),
                ));
            }
        }
        last
    }

    /// Sets the channel that delivers the preferred holder.
    #[doc(hidden)]
    pub fn prefer(self, preference: watch::Receiver<Preference>) -> Self {
        Self { preference: Some(preference), ..self }
    }

    /// Returns a handle that reports failures in the [`status`](Self::status) of the election.
    #[doc(hidden)]
    pub fn list_outage(&self) -> ListOutage {
        ListOutage(self.observed.clone())
    }

    /// Spawns the task that drives this elector and other electors. The task runs on the caller's runtime.
    #[doc(hidden)]
    pub fn start_shared_shell(&self) {
        if let Some(shell) = &self.shell {
            shell.start();
        }
    }

    /// Creates a [`Shell`] for this elector alone, which watches the elector's lock.
    fn own_shell(&self) -> Arc<Shell<L>> {
        let (lock, clocks) = (self.lock.clone(), self.config.clocks.clone());
        let pauses = Backoff::new(self.config.watch_retries(), self.config.seed());
        Arc::new(Shell::new(self.config.clocks.clone(), None, move |to_us, _| async move {
            let seen = async || Ok(lock.watch().await?.map(|events| map(events, |event| Some((None, event)))));
            follow(lock.key(), seen, clocks, pauses, to_us).await;
        }))
    }

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

pintle_meta::debug_struct!(LeaderElector<L: Lock> |self| { lock = self.lock.key(), config, .. });

/// Awaits `work`, and reports new leaders while `work` is running. Returns `None` if the `Contest` ends before `work`,
/// which happens only after a panic. If `new_leader` panics, drops `work` first and then returns the panic, because a
/// second panic during unwinding would abort the process.
async fn report_leaders_during<F: Future>(
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
                // `Started` cannot arrive here, because the `Machine` reports the end of this term before it begins the
                // next term.
                Some(Notice::Started(_)) | None => return Ok(None),
            },
        }
    }
}

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
    // The leader's work may return before the elector notices the end of the term.
    let reason = match leadership.check() {
        Err(lost) if !matches!(reason, EndReason::Panicked | EndReason::Dropped) => lost.reason,
        _ => reason,
    };
    TermEnd { reason, work }
}

/// Shows a term in the status of the elector until the `OpenTerm` is dropped. The status shows the term while the callbacks
/// run, because the elector still holds the lock. Dropping the `OpenTerm` reports the end of the term if its beginning was
/// reported.
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
        self.observed.send_modify(|observed| observed.term = Some(self.handle.leadership()));
        // If this call panics, the term does not begin, and therefore its end is not reported.
        self.record(LeaderEventKind::BecameLeader);
        self.open = true;
    }

    /// Reports the end of the term to the event hook and to the callback. Calls the callback even if the event hook
    /// panics.
    fn report_end(&mut self, end: &TermEnd<T>) -> (thread::Result<()>, thread::Result<()>) {
        self.open = false;
        self.handle.lose(end.reason.clone());
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
        if self.open {
            let (recorded, called) = self.report_end(&TermEnd { reason: EndReason::Dropped, work: None });
            // Catch the panic, because a second panic during unwinding would abort the process.
            if recorded.is_err() || called.is_err() {
                tracing::error!(lock = %self.event.key, "a callback panicked while handling the end of a dropped term");
            }
        }
        self.observed.send_modify(|observed| observed.term = None);
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

    /// The callback panics, and then dropping the work panics, too. A second panic during unwinding would abort the process.
    #[tokio::test]
    async fn work_panic_after_callback_panic_does_not_abort() {
        let (sender, mut notices) = mpsc::unbounded_channel();
        assert!(sender.send(Notice::NewLeader("other".into())).is_ok());
        let work = async move {
            let _falls = Falls;
            pending::<()>().await
        };
        let mut new_leader = |_: String| panic!("the callback panicked");
        let ended = caught_payload(report_leaders_during(work, &mut notices, &mut new_leader)).await;
        assert_eq!(ended.unwrap_err().downcast_ref::<&str>(), Some(&"the work panicked"));
    }
}
