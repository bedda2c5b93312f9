//! Runs the controllers on the leader, or on every replica if there is no leader election.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use futures_util::FutureExt;
use pintle_events::{EventRecorder, EventType, ObjectReference};
use pintle_leaderelect::{EndReason, LeaderCallbacks, LeaderElector, LeaderEvent, Leadership, Lock, TermEnd};
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::team::Team;
use crate::error::ManagerError;
use crate::no_subscriber::with_current_subscriber;
use crate::panic::caught;

pub(super) const NAME: &str = "the leader election";

/// Returns a function for [`LeaderElectionConfig::events`] that records an Event when a replica becomes the leader or
/// stops leading. The Event refers to the lock object.
///
/// # Examples
///
/// ```
/// use pintle_controller::leader_events;
/// use pintle_events::EventRecorder;
/// use pintle_leaderelect::LeaderElectionConfig;
///
/// fn config(recorder: EventRecorder) -> LeaderElectionConfig {
///     LeaderElectionConfig { events: Some(leader_events(recorder)), ..LeaderElectionConfig::default() }
/// }
/// ```
///
/// [`LeaderElectionConfig::events`]: pintle_leaderelect::LeaderElectionConfig::events
pub fn leader_events(recorder: EventRecorder) -> Arc<dyn Fn(&LeaderEvent) + Send + Sync> {
    Arc::new(move |event| {
        let lock = ObjectReference {
            api_version: event.resource.group_version.to_string(),
            kind: event.resource.kind.clone(),
            namespace: event.key.namespace().unwrap_or_default().into(),
            name: event.key.name().into(),
            uid: event.version.uid.clone(),
            resource_version: event.version.resource_version.clone(),
            field_path: String::new(),
        };
        recorder.event(lock, EventType::Normal, "LeaderElection", event.to_string());
    })
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) trait Election: Send {
    /// Contends for the lease until a stop is requested, and runs `work` in each term. At the end of each term, this
    /// method awaits the future returned by `settle`.
    fn run<'a>(
        &'a mut self,
        stop: &'a CancellationToken,
        work: Box<dyn FnMut(Leadership) -> Work + Send>,
        settle: Box<dyn FnMut() -> Work + Send>,
    ) -> Pin<Box<dyn Future<Output = Option<TermEnd<()>>> + Send + 'a>>;
}

impl<L: Lock> Election for LeaderElector<L> {
    fn run<'a>(
        &'a mut self,
        stop: &'a CancellationToken,
        work: Box<dyn FnMut(Leadership) -> Work + Send>,
        settle: Box<dyn FnMut() -> Work + Send>,
    ) -> Pin<Box<dyn Future<Output = Option<TermEnd<()>>> + Send + 'a>> {
        Box::pin(self.run_until_settled(stop, LeaderCallbacks::new(work), settle))
    }
}

/// A new leadership term. The controllers run until the election drops the receiver of `ended`. If the controllers end
/// first, the manager sends a message to `ended`.
struct Term {
    leadership: Leadership,
    ended: oneshot::Sender<()>,
}

/// Runs the controllers until a stop is requested. With leader election, the controllers run only while this replica
/// leads.
pub(super) async fn run_election(
    team: &Arc<Team>,
    election: Option<Box<dyn Election>>,
    stop: &CancellationToken,
) -> Result<(), ManagerError> {
    let Some(election) = election else {
        team.work(None).await;
        return Ok(());
    };
    let (terms, mut begun) = mpsc::unbounded_channel();
    let mut contest = isolated(NAME, contend(election, team.clone(), terms, stop.clone())).fuse();
    loop {
        let Term { leadership, mut ended } = tokio::select! {
            biased;
            over = &mut contest => return over,
            Some(term) = begun.recv() => term,
        };
        let work = async {
            tokio::select! {
                biased;
                () = ended.closed() => return,
                () = team.work(Some(&leadership)) => {}
            }
            // Ignore the error, which means that the term has already ended.
            _ = ended.send(());
        };
        tokio::select! {
            biased;
            over = &mut contest => return over,
            () = work => {}
        }
    }
}

/// Contends for the lease until a stop is requested, and sends each leadership term to `terms`. This function does not
/// contend while reconciliations of an earlier term or run are still running. The elector also waits for the
/// reconciliations of a lost term, because it must not release the lease while they run.
async fn contend(
    mut election: Box<dyn Election>,
    team: Arc<Team>,
    terms: mpsc::UnboundedSender<Term>,
    stop: CancellationToken,
) -> Result<(), ManagerError> {
    tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        () = team.settle_all() => {}
    }
    while !stop.is_cancelled() {
        let terms = terms.clone();
        let work = move |leadership: Leadership| {
            let (ended, done) = oneshot::channel();
            // Ignore the error: sending fails only if the manager and this future are being dropped.
            _ = terms.send(Term { leadership, ended });
            Box::pin(async move { _ = done.await }) as Work
        };
        let team = team.clone();
        let settle = move || {
            let team = team.clone();
            Box::pin(async move { team.settle_all().await }) as Work
        };
        let ended = caught(election.run(&stop, Box::new(work), Box::new(settle))).await;
        let ended = ended.map_err(|panic| failed(NAME, format!("panicked: {panic}")))?;
        let reason = ended.map(|end| end.reason);
        if let Some(reason @ (EndReason::Deadline | EndReason::TakenBy { .. } | EndReason::Deleted)) = reason {
            tracing::warn!(%reason, "the last term was lost");
        }
    }
    Ok(())
}

pub(super) type Contest = Pin<Box<dyn Future<Output = Result<(), ManagerError>> + Send>>;

/// Runs an election in a way that controllers cannot delay.
///
/// On a multi-threaded runtime, the election runs on a separate thread and runtime. The election can then renew leases
/// and end lost terms in time, even if reconciliations block the threads of the main runtime. On a single-threaded
/// runtime, the election and the controllers run on the same runtime.
pub(super) fn isolated(
    name: &'static str,
    contest: impl Future<Output = Result<(), ManagerError>> + Send + 'static,
) -> Contest {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Box::pin(contest),
        _ => Box::pin(on_its_own_thread(name, contest)),
    }
}

async fn on_its_own_thread(
    name: &'static str,
    contest: impl Future<Output = Result<(), ManagerError>> + Send + 'static,
) -> Result<(), ManagerError> {
    let (sender, result) = oneshot::channel();
    let dropped = CancellationToken::new();
    let _dropped = dropped.clone().drop_guard();
    let run = with_current_subscriber(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                _ = sender.send(Err(failed(name, error)));
                return;
            }
        };
        if let Some(ended) = runtime.block_on(dropped.run_until_cancelled_owned(contest)) {
            // Ignore the error: sending fails only if the receiver was dropped, and then the result is not needed.
            _ = sender.send(ended);
        }
        // Do not wait for the election's blocking tasks, which may take a long time.
        runtime.shutdown_background();
    });
    thread::Builder::new().name("pintle-election".into()).spawn(run).map_err(|error| failed(name, error))?;
    result.await.unwrap_or_else(|_| Err(failed(name, "its thread has ended")))
}

pub(super) fn failed(name: &str, cause: impl Into<Box<dyn Error + Send + Sync>>) -> ManagerError {
    ManagerError::Runnable { name: name.into(), cause: cause.into() }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use pintle_leaderelect::{LeaderElectionConfig, LeaderElectionRecord, Lease, LeaseLock};
    use pintle_meta::ObjectKey;
    use pintle_testing::{Client, Collection};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::super::ending::Ending;
    use super::*;
    use crate::stop::Stop;
    use crate::{Action, Controller, Manager, ManagerConfig, ReconcileError, ReconcileRequest, Trigger};

    /// A manager's election with a simulated blocked reconciliation. A task token of the controller simulates this
    /// reconciliation. A real thread cannot be blocked here, because the clock is paused.
    struct Setup {
        leases: Collection<Lease>,
        client: Client<Lease>,
        controller: Controller,
        stop: Stop,
        ending: Arc<Ending>,
        run: JoinHandle<Result<(), ManagerError>>,
    }

    const TIMEOUT: Duration = Duration::from_secs(1_000);

    impl Setup {
        /// Starts the election, and waits until this replica leads.
        async fn start() -> Self {
            let leases = Collection::<Lease>::default();
            let client = leases.client("a");
            let config = LeaderElectionConfig { identity: "a".into(), ..LeaderElectionConfig::default() };
            let elector = LeaderElector::new(LeaseLock::new(client.clone(), "ns", "lock"), config).unwrap();
            let controller: Controller =
                Controller::named("c").reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
            let (ending, stop) = (Arc::new(Ending::default()), Stop::new(CancellationToken::new(), TIMEOUT));
            let team = Arc::new(Team::new(vec![Arc::new(controller.clone())], stop.clone(), ending.clone()));
            let token = stop.token.clone();
            let run = tokio::spawn(async move { run_election(&team, Some(Box::new(elector)), &token).await });
            sleep(Duration::from_secs(5)).await;
            Self { leases, client, controller, stop, ending, run }
        }

        fn record(&self) -> LeaderElectionRecord {
            self.leases.object(&ObjectKey::new("ns", "lock")).unwrap().spec.record()
        }

        /// Writes the record of another holder, with a new renew time.
        fn renew_as(&self, holder: &str) {
            self.leases.change(&ObjectKey::new("ns", "lock"), |lease| {
                let spec = &mut lease.spec;
                spec.renew_time.as_mut().unwrap().0 += Duration::from_secs(1);
                spec.holder_identity = Some(holder.into());
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lease_is_renewed_until_a_blocked_call_ends() {
        for (call_takes, fails) in [(100, false), (300, true)] {
            let mut manager = Setup::start().await;
            let call = manager.controller.blocked_task();
            manager.stop.request();
            for _ in 0..call_takes {
                let before = manager.record();
                sleep(Duration::from_secs(5)).await;
                let after = manager.record();
                assert!(after.holder_identity == "a" && after.renew_time != before.renew_time, "{after:?}");
            }
            drop(call);
            (&mut manager.run).await.unwrap().unwrap();
            assert_eq!(manager.record().holder_identity, "");
            let result = manager.ending.result(TIMEOUT);
            assert!(result.is_err(), "the error names the controller");
            assert_eq!(matches!(result, Err(ManagerError::StopTimedOut { .. })), !fails, "{result:?}");
        }
    }

    /// Tests two ways to lose the term. Another holder takes the lease and lets it expire, or an outage prevents
    /// renewals while the lease keeps this replica's record.
    #[tokio::test(start_paused = true)]
    async fn lost_lease_stays_untouched_until_blocked_call_ends() {
        for is_outage in [false, true] {
            let manager = Setup::start().await;
            let call = manager.controller.blocked_task();
            if is_outage {
                manager.client.faults().cut_off();
                sleep(Duration::from_secs(12)).await;
                manager.client.faults().heal();
            } else {
                manager.renew_as("b");
            }
            let lost = manager.record();
            for _ in 0..60 {
                sleep(Duration::from_secs(1)).await;
                assert_eq!(manager.record(), lost);
            }
            drop(call);
            sleep(Duration::from_secs(5)).await;
            let record = manager.record();
            assert!(record.holder_identity == "a" && record.renew_time != lost.renew_time, "{record:?}");
            assert!(!manager.stop.token.is_cancelled() && !manager.run.is_finished());
        }
    }

    /// A controller's run is dropped if its term is lost during the stop.
    #[tokio::test(start_paused = true)]
    async fn stop_error_names_controller_of_a_lost_term() {
        type Called = Result<Action, ReconcileError>;
        let leases = Collection::<Lease>::default();
        let client = leases.client("a");
        let config = LeaderElectionConfig { identity: "a".into(), ..LeaderElectionConfig::default() };
        let elector = LeaderElector::new(LeaseLock::new(client.clone(), "ns", "lock"), config).unwrap();
        let (trigger, stop) = (Trigger::new(), CancellationToken::new());
        let controller: Controller =
            Controller::named("c").source(trigger.clone()).reconciler(|_: ReconcileRequest| pending::<Called>());
        let config = ManagerConfig { exit_if_blocked: false, ..ManagerConfig::default() };
        let manager = Manager::new().config(config).controller(controller.clone()).leader_election(elector);
        let token = stop.clone();
        let run = tokio::spawn(async move { manager.run(&token).await });
        sleep(Duration::from_secs(5)).await;
        trigger.trigger(ObjectKey::new("ns", "x"));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(controller.queue_counts().unwrap().in_flight, 1);
        let _call = controller.blocked_task();
        stop.cancel();
        client.faults().cut_off();
        sleep(Duration::from_secs(18)).await;
        assert_eq!(controller.queue_counts(), None, "the term is lost before the run times out");
        let error = run.await.unwrap().unwrap_err();
        let ManagerError::StopTimedOut { left, .. } = &error else { panic!("{error}") };
        assert_eq!(left[..], ["controller \"c\"", NAME]);
    }

    #[tokio::test(start_paused = true)]
    async fn blocked_call_of_lost_term_fails_a_standby_manager() {
        let manager = Setup::start().await;
        let _call = manager.controller.blocked_task();
        for passed in 0..1_100 {
            manager.renew_as("b");
            assert!(passed > 990 || !manager.stop.token.is_cancelled(), "after {passed} s");
            sleep(Duration::from_secs(1)).await;
        }
        assert!(manager.stop.token.is_cancelled());
        assert!(!manager.run.is_finished(), "a call that still blocks keeps the lease from being released");
        let error = manager.ending.result(TIMEOUT).unwrap_err().to_string();
        assert!(error.contains("\"c\""), "{error}");
    }
}
