//! Tests with scripted watch events, and with user code that panics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::stream::{self, StreamExt};
use pintle_leaderelect::{
    Clocks, LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Leadership, LeaseGroup,
    LeaseGroupConfig, Lock, LockEvent, LockEvents, LockSnapshot, LockState, Now, Token, Version,
};
use pintle_meta::{ApiError, ApiResource, ObjectKey, Reason, Scope, Status};
use pintle_testing::Collection;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};

type Event = LockEvent<LockState>;

struct Scripted {
    key: ObjectKey,
    stored: Arc<Mutex<LockState>>,
    events: Mutex<Option<mpsc::UnboundedReceiver<Event>>>,
    falls: bool,
}

fn state(version: u64, holder: &str) -> LockState {
    let version = Version { uid: "uid".into(), resource_version: version.to_string() };
    let record =
        LeaderElectionRecord { holder_identity: holder.into(), lease_duration_seconds: 15, ..Default::default() };
    LockState::new(version, record)
}

fn locked(state: &LockState) -> LockSnapshot<LockState> {
    LockSnapshot { state: state.clone(), object: state.clone() }
}

impl Scripted {
    fn new(stored: LockState, falls: bool) -> (Self, Arc<Mutex<LockState>>, mpsc::UnboundedSender<Event>) {
        let (sender, events) = mpsc::unbounded_channel();
        let stored = Arc::new(Mutex::new(stored));
        let key = ObjectKey::new("kube-system", "lock");
        (Self { key, stored: stored.clone(), events: Mutex::new(Some(events)), falls }, stored, sender)
    }
}

impl Lock for Scripted {
    type Object = LockState;

    fn resource(&self) -> ApiResource {
        ApiResource::new("example.com/v1", "Lock", "locks", Scope::Namespaced)
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn token(&self, began: &LockState) -> Option<Token> {
        assert!(!self.falls, "panicked");
        Token::of(&began.version)
    }

    async fn watch(&self) -> Result<Option<LockEvents<LockState>>, ApiError> {
        let events = self.events.lock().unwrap().take();
        let events = events
            .map(|events| stream::unfold(events, async |mut events| Some((events.recv().await?, events))).boxed());
        Ok(events.map(|events| events as LockEvents<LockState>))
    }

    async fn get(&self) -> Result<Option<LockSnapshot<LockState>>, ApiError> {
        Ok(Some(locked(&self.stored.lock().unwrap())))
    }

    async fn create(&self, _: &LeaderElectionRecord) -> Result<LockSnapshot<LockState>, ApiError> {
        Err(Status::failure(409, Reason::AlreadyExists, "it is there").into())
    }

    async fn update(
        &self,
        base: &LockState,
        record: &LeaderElectionRecord,
    ) -> Result<LockSnapshot<LockState>, ApiError> {
        let mut stored = self.stored.lock().unwrap();
        if stored.version != base.version {
            return Err(Status::failure(409, Reason::Conflict, "it has changed").into());
        }
        let next = stored.version.resource_version.parse::<u64>().unwrap() + 1;
        *stored = LockState { record: record.clone(), ..state(next, "") };
        Ok(locked(&stored))
    }
}

fn config(clocks: Arc<dyn Clocks>) -> LeaderElectionConfig {
    LeaderElectionConfig { identity: "me".into(), seed: Some(7), clocks, ..LeaderElectionConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn stale_watch_event_does_not_block_a_takeover() {
    let (lock, stored, sender) = Scripted::new(state(4, "other"), false);
    let mut elector = LeaderElector::new(lock, config(TestClock::new())).unwrap();
    let status = elector.status();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        elector.run(&CancellationToken::new(), work).await
    });
    pass(1.0).await;
    *stored.lock().unwrap() = state(5, "");
    sender.send(LockEvent::Changed(locked(&state(5, "")))).unwrap();
    sender.send(LockEvent::Changed(locked(&state(3, "other")))).unwrap();
    pass(0.1).await;
    assert!(status.is_leader());
    run.abort();
}

/// The last watch event has a version that cannot be compared with other versions. Therefore, the elector no longer has
/// the object that its planned write replaces.
#[tokio::test(start_paused = true)]
async fn write_without_its_base_is_not_a_timeout() {
    let (log, _guard) = crate::log::Log::here();
    let (lock, stored, sender) = Scripted::new(state(4, "other"), false);
    let mut elector = LeaderElector::new(lock, config(TestClock::new())).unwrap();
    let status = elector.status();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        elector.run(&CancellationToken::new(), work).await.map(drop)
    });
    pass(1.0).await;
    *stored.lock().unwrap() = state(5, "");
    sender.send(LockEvent::Changed(locked(&state(5, "")))).unwrap();
    let mut unordered = state(5, "other");
    unordered.version.resource_version = "x".into();
    sender.send(LockEvent::Changed(locked(&unordered))).unwrap();
    pass(1.0).await;
    assert_eq!(log.count("no response"), 0);
    log.assert_tells(&["the object for the write is unknown"]);
    assert!(status.is_leader(), "the lock is read again within half a retry period");
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn panic_in_token_ends_the_run() {
    let (lock, _, _) = Scripted::new(state(4, ""), true);
    let mut elector = LeaderElector::new(lock, config(TestClock::new())).unwrap();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        elector.run(&CancellationToken::new(), work).await.map(drop)
    });
    pass(1.0).await;
    assert!(run.is_finished());
    assert_eq!(run.await.unwrap_err().into_panic().downcast_ref::<&str>(), Some(&"panicked"));
}

#[derive(Debug)]
struct Falling(Arc<TestClock>, AtomicBool);

impl Clocks for Falling {
    fn now(&self) -> Now {
        assert!(!self.1.load(Ordering::Relaxed), "the clocks panicked");
        self.0.now()
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_clocks_ends_each_run() {
    let clocks = Arc::new(Falling(TestClock::new(), AtomicBool::new(false)));
    let server = Collection::default();
    let start = |identity: &str, clocks: Arc<dyn Clocks>| {
        let election = LeaderElectionConfig { identity: identity.into(), ..config(clocks) };
        let config = LeaseGroupConfig { election, ..LeaseGroupConfig::default() };
        LeaseGroup::start(server.client(identity), "kube-system", config).unwrap()
    };
    let run = |electors: &LeaseGroup<_>, index: usize| {
        let mut elector = electors.elector(&format!("lock-{index}"));
        tokio::spawn(async move {
            let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
            elector.run(&CancellationToken::new(), work).await.map(|end| end.reason)
        })
    };
    let leaders = start("leader", TestClock::new());
    let _leaders: Vec<_> = (0..2).map(|index| run(&leaders, index)).collect();
    pass(1.0).await;
    let candidates = start("candidate", clocks.clone());
    let runs: Vec<_> = (0..2).map(|index| run(&candidates, index)).collect();
    pass(1.0).await;
    clocks.1.store(true, Ordering::Relaxed);
    pass(30.0).await;
    for run in runs {
        assert!(run.is_finished());
        let panic = run.await.unwrap_err().into_panic();
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or(panic.downcast_ref::<&str>().map(|message| (*message).to_owned()));
        assert_eq!(message.as_deref(), Some("the clocks panicked"));
    }
}
