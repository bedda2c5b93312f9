//! A contender for tests: an elector in a separate task, whose work logs its actions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_leaderelect::{
    Clocks, ElectionStatus, EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease,
    LeaseLock, Now,
};
use pintle_metrics::InMemoryProvider;
use pintle_testing::{Client, Collection, SteppedClock};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::server::{NAME, NAMESPACE};

/// Clocks that follow tokio's clock until a test sets them to another time.
#[derive(Debug)]
pub(crate) struct TestClock(pub(crate) SteppedClock, Mutex<Duration>);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(SteppedClock::beside_tokio(), Mutex::default()))
    }

    /// Suspends the machine for `time`. The wall clock does not advance either.
    pub(crate) fn suspend(&self, time: Duration) {
        *self.1.lock().unwrap() += time;
    }
}

impl Clocks for TestClock {
    fn now(&self) -> Now {
        let monotonic = self.0.elapsed();
        Now { boot: monotonic + *self.1.lock().unwrap(), monotonic, wall: self.0.wall() }
    }
}

/// A log of test events with their times, such as `7.0 a started`.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    start: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Story {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), lines: Arc::default() }
    }

    pub(crate) fn log(&self, line: &str) {
        let time = self.start.elapsed().as_secs_f64();
        self.lines.lock().unwrap().push(format!("{time:.1} {line}"));
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    pub(crate) fn take_deeds(&self) -> Vec<String> {
        self.take().into_iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }
}

pub(crate) struct Contender {
    pub(crate) client: Client<Lease>,
    pub(crate) status: ElectionStatus,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) stop: CancellationToken,
    pub(crate) story: Story,
    pub(crate) leadership: Arc<Mutex<Option<Leadership>>>,
    pub(crate) memory: InMemoryProvider,
    pub(crate) run: JoinHandle<Option<EndReason>>,
}

pub(crate) struct Setup {
    pub(crate) config: LeaderElectionConfig,
    /// How long the leader's work continues after the elector has asked it to finish.
    pub(crate) drain: Duration,
    /// The time after which the leader's work returns without being asked.
    pub(crate) work: Option<Duration>,
    pub(crate) watch: bool,
    pub(crate) once: bool,
    pub(crate) story: Option<Story>,
    pub(crate) clock: Option<Arc<TestClock>>,
    pub(crate) memory: InMemoryProvider,
}

impl Setup {
    pub(crate) fn new(identity: &str) -> Self {
        let mut config = LeaderElectionConfig { identity: identity.into(), ..LeaderElectionConfig::default() };
        config.seed = Some(7);
        let memory = InMemoryProvider::new();
        config.metrics = Some(Arc::new(memory.clone()));
        let (drain, work) = (Duration::ZERO, None);
        Self { config, drain, work, watch: false, once: false, story: None, clock: None, memory }
    }

    pub(crate) fn start(self, server: &Collection<Lease>) -> Contender {
        let client = server.client(&self.config.identity);
        self.start_with(client)
    }

    pub(crate) fn start_with(self, client: Client<Lease>) -> Contender {
        let Self { config, drain, work, watch, once, memory, .. } = self;
        let story = self.story.unwrap_or_else(Story::new);
        let clock = self.clock.unwrap_or_else(TestClock::new);
        let stop = CancellationToken::new();
        let identity = config.identity.clone();
        let lock = LeaseLock { watch, ..LeaseLock::new(client.clone(), NAMESPACE, NAME) };
        let config = LeaderElectionConfig { clocks: clock.clone(), ..config };
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let status = elector.status();
        let leadership = Arc::new(Mutex::new(None));
        let callbacks = {
            let (story, identity, leadership) = (story.clone(), identity.clone(), leadership.clone());
            let (log, me) = (story.clone(), identity.clone());
            LeaderCallbacks {
                on_new_leader: Box::new({
                    let (log, me) = (log.clone(), me.clone());
                    move |leader| log.log(&format!("{me} sees {leader:?}"))
                }),
                on_stopped_leading: Box::new(move |end| log.log(&format!("{me} stopped: {:?}", end.reason))),
                ..LeaderCallbacks::new(move |guard: Leadership| {
                    *leadership.lock().unwrap() = Some(guard.clone());
                    work_of(guard, story.clone(), identity.clone(), drain, work)
                })
            }
        };
        let run = tokio::spawn({
            let stop = stop.clone();
            async move {
                let ended =
                    if once { elector.run_once(&stop, callbacks).await } else { elector.run(&stop, callbacks).await };
                ended.map(|end| end.reason)
            }
        });
        Contender { client, status, clock, stop, story, leadership, memory, run }
    }
}

impl Contender {
    pub(crate) fn guard(&self) -> Leadership {
        self.leadership.lock().unwrap().clone().expect("never led")
    }

    pub(crate) fn count(&self, name: &str) -> Option<f64> {
        self.memory.value(&format!("leader_election_{name}"), &[])
    }

    pub(crate) async fn stop(self) -> Option<EndReason> {
        self.stop.cancel();
        self.run.await.unwrap()
    }
}

async fn work_of(guard: Leadership, story: Story, identity: String, drain: Duration, work: Option<Duration>) {
    story.log(&format!("{identity} works"));
    let end = Ending { story, identity };
    match work {
        Some(work) => tokio::time::sleep(work).await,
        None => {
            guard.cancelled().await;
            tokio::time::sleep(drain).await;
        }
    }
    drop(end);
}

/// Logs the end of the leader's work when dropped, even if the work has not finished.
struct Ending {
    story: Story,
    identity: String,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.story.log(&format!("{} rests", self.identity));
    }
}

pub(crate) async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}
