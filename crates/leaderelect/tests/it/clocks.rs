//! Tests with clocks that are set back or forward, and with silent watches. Some of the tests count clock readings.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use pintle_leaderelect::__private::machine::{Instruction, LockRequest, Machine, Signal};
use pintle_leaderelect::{
    Clocks, Deadline, LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Leadership, Lease,
    LeaseLock, Lock, LockEvent, LockEvents, LockSnapshot, LockState, Now, TimePrecision, Version,
};
use pintle_meta::{ApiError, ApiResource, ObjectKey};
use pintle_testing::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::contender::{Setup, TestClock, pass};
use crate::server::{NAME, NAMESPACE, server};

fn at(monotonic: f64, wall: f64) -> Now {
    let monotonic = Duration::from_secs_f64(monotonic);
    let wall = Timestamp::from_microsecond(1_800_000_000_000_000 + (wall * 1e6).round() as i64).unwrap();
    Now { boot: monotonic, monotonic, wall }
}

/// Returns the renew times, in wall-clock seconds, that a `Machine` writes if every request succeeds immediately.
/// `clocks` contains the monotonic time and the wall-clock time of each renewal.
fn written(precision: TimePrecision, coordinated: bool, clocks: &[(f64, f64)]) -> Vec<f64> {
    let config = LeaderElectionConfig { identity: "me".into(), coordinated, ..LeaderElectionConfig::default() };
    let mut machine = Machine::new(config, precision, at(0.0, 0.0));
    machine.step(Signal::Tick, at(0.0, 0.0));
    let holder_identity = if coordinated { "me".into() } else { String::new() };
    let record = LeaderElectionRecord { holder_identity, ..LeaderElectionRecord::default() };
    let version = Version { uid: "1".into(), resource_version: "0".into() };
    let found = Signal::Read(Ok(Some(LockState::new(version, record))));
    let mut instructions = machine.step(found, at(0.0, 0.0));
    let mut times = Vec::new();
    for (number, (monotonic, wall)) in clocks.iter().enumerate() {
        let now = at(*monotonic, *wall);
        if number > 0 {
            instructions = machine.step(Signal::Tick, now);
        }
        let record = instructions.iter().find_map(|instruction| match instruction {
            Instruction::Send { request: LockRequest::Create(record) | LockRequest::Update { record, .. }, .. } => {
                Some(record)
            }
            _ => None,
        });
        let time = record.unwrap_or_else(|| panic!("no write at {monotonic}: {instructions:?}")).renew_time.unwrap().0;
        times.push((time.as_microsecond() - 1_800_000_000_000_000) as f64 / 1e6);
        let version = Version { uid: "1".into(), resource_version: (number + 1).to_string() };
        machine.step(Signal::Written(Ok(version)), now);
    }
    times
}

#[test]
fn each_record_has_a_later_renew_time() {
    let micros = |clocks: &[(f64, f64)]| written(TimePrecision::Micros, false, clocks);
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 2.0), (4.0, 4.0)]), [0.0, 2.0, 4.0]);
    // The time in the record must increase by a second even if the time of day does not advance, because client-go
    // compares whole seconds.
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 0.0), (4.0, 0.0), (6.0, 6.0)]), [0.0, 1.0, 2.0, 6.0]);
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 2.5), (4.0, -60.0), (6.0, -58.0)]), [0.0, 2.5, 3.0, 4.0]);
    let seconds = |clocks: &[(f64, f64)]| written(TimePrecision::Seconds, false, clocks);
    assert_eq!(seconds(&[(0.0, 0.0), (2.0, 2.9), (4.0, 4.1)]), [0.0, 2.0, 4.0]);
    assert_eq!(seconds(&[(0.0, 0.0), (2.0, 0.0), (4.0, 0.0)]), [0.0, 1.0, 2.0]);
    assert_eq!(seconds(&[(0.0, 0.0), (2.0, 2.9), (4.0, -60.5), (6.0, -58.5)]), [0.0, 2.0, 3.0, 4.0]);
}

/// The control plane compares the renew time with its own clock, so a renew time in the future would keep the lease of
/// a dead holder valid for too long.
#[test]
fn coordinated_record_follows_wall_clock_set_far_back() {
    let micros = |clocks: &[(f64, f64)]| written(TimePrecision::Micros, true, clocks);
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 2.5), (4.0, -60.0), (6.0, -58.0)]), [0.0, 2.5, -60.0, -58.0]);
    // If the clock was set back, but by less than ten seconds compared with the last record, the times in new records
    // still increase.
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 2.5), (4.0, -5.499)]), [0.0, 2.5, 3.0]);
    // The time of day is set back by slightly less and slightly more than the limit of ten seconds.
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 2.5), (4.0, -7.999)]), [0.0, 2.5, 3.0]);
    assert_eq!(micros(&[(0.0, 0.0), (2.0, 2.5), (4.0, -8.001)]), [0.0, 2.5, -8.001]);
}

#[test]
fn coordinated_renewal_with_earlier_time_counts() {
    let config = LeaderElectionConfig { identity: "me".into(), coordinated: true, ..LeaderElectionConfig::default() };
    let mut machine = Machine::new(config, TimePrecision::Micros, at(0.0, 0.0));
    machine.step(Signal::Tick, at(0.0, 0.0));
    let version = |number: u64| Version { uid: "1".into(), resource_version: number.to_string() };
    let record = LeaderElectionRecord { holder_identity: "me".into(), ..LeaderElectionRecord::default() };
    machine.step(Signal::Read(Ok(Some(LockState::new(version(1), record)))), at(0.0, 0.0));
    machine.step(Signal::Written(Ok(version(2))), at(0.0, 0.0));
    let now = at(2.0, -100.0);
    machine.step(Signal::Tick, now);
    let deadline = Deadline::after(now, Duration::from_secs(10));
    assert_eq!(machine.step(Signal::Written(Ok(version(3))), now), [Instruction::Extend(deadline)]);
}

/// A candidate that has not read the lock for a long time waits for another full lease duration. In the meantime, a
/// holder whose clock was set back may have written the same record again.
#[test]
fn unrelated_write_after_long_blindness_counts_as_renewal() {
    for (second_read, taken) in [(30.9, true), (31.0, false)] {
        let config = LeaderElectionConfig { identity: "me".into(), seed: Some(7), ..LeaderElectionConfig::default() };
        let mut machine = Machine::new(config, TimePrecision::Seconds, at(0.0, 0.0));
        let held = |number: u64| {
            let version = Version { uid: "1".into(), resource_version: number.to_string() };
            let record = LeaderElectionRecord {
                holder_identity: "other".into(),
                lease_duration_seconds: 15,
                ..LeaderElectionRecord::default()
            };
            Signal::Read(Ok(Some(LockState::new(version, record))))
        };
        machine.step(Signal::Tick, at(0.0, 0.0));
        machine.step(held(1), at(0.0, 0.0));
        let mut look = |now: f64, number: u64| {
            assert_eq!(machine.step(Signal::Tick, at(now, now)).len(), 1, "at {now}");
            machine.step(held(number), at(now, now))
        };
        assert_eq!(look(6.0, 2), []);
        // The limit for the time between two reads is a lease duration plus a renew deadline.
        let instructions = look(second_read, 3);
        assert_eq!(!instructions.is_empty(), taken, "{instructions:?}");
    }
}

#[derive(Debug)]
struct Counting {
    inner: Arc<TestClock>,
    naps: AtomicUsize,
}

impl Clocks for Counting {
    fn now(&self) -> Now {
        self.inner.now()
    }

    fn sleep_until(&self, deadline: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.naps.fetch_add(1, Ordering::Relaxed);
        self.inner.sleep_until(deadline)
    }
}

#[tokio::test(start_paused = true)]
async fn idle_standby_sets_few_timers() {
    let server = server();
    let _a = Setup::new("a").start(&server);
    pass(1.0).await;
    let clocks = Arc::new(Counting { inner: TestClock::new(), naps: AtomicUsize::new(0) });
    let lock = LeaseLock::new(server.client("b"), NAMESPACE, NAME);
    let config =
        LeaderElectionConfig { identity: "b".into(), seed: Some(7), clocks: clocks.clone(), ..Default::default() };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        elector.run(&CancellationToken::new(), work).await.map(|_| ())
    });
    pass(10.0).await;
    clocks.naps.store(0, Ordering::Relaxed);
    pass(100.0).await;
    // Each renewal that the watch reports postpones the next poll, so the elector sets only one timer per three or four
    // retry periods.
    assert!(clocks.naps.load(Ordering::Relaxed) <= 17, "{clocks:?}");
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn monotonic_sleep_uses_long_intervals() {
    let clocks = TestClock::new();
    let naps = |deadline: Deadline| {
        let clocks = clocks.clone();
        async move {
            let counting = Reads(clocks, AtomicUsize::new(0));
            counting.sleep_until(deadline).await;
            counting.1.into_inner()
        }
    };
    let now = clocks.now();
    assert_eq!(naps(Deadline::monotonic(now.monotonic + Duration::from_secs(60))).await, 7);
    let now = clocks.now();
    assert_eq!(naps(Deadline::after(now, Duration::from_secs(60))).await, 61);
}

#[derive(Debug)]
struct Reads(Arc<TestClock>, AtomicUsize);

impl Clocks for Reads {
    fn now(&self) -> Now {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.now()
    }
}

struct Watched {
    lock: LeaseLock<Client<Lease>>,
    hangs: Arc<AtomicBool>,
    floods: bool,
}

impl Lock for Watched {
    type Object = Lease;

    fn resource(&self) -> ApiResource {
        self.lock.resource()
    }

    fn key(&self) -> &ObjectKey {
        self.lock.key()
    }

    async fn watch(&self) -> Result<Option<LockEvents<Lease>>, ApiError> {
        if self.floods {
            if !self.hangs.load(Ordering::Relaxed) {
                return Err(ApiError::timeout("not yet"));
            }
            let old = LockState::new(
                Version { uid: "1".into(), resource_version: "0".into() },
                LeaderElectionRecord::default(),
            );
            return Ok(Some(
                stream::repeat(LockEvent::Changed(LockSnapshot { state: old, object: Lease::default() })).boxed(),
            ));
        }
        let hangs = self.hangs.clone();
        let events = self.lock.watch().await?.unwrap();
        Ok(Some(events.filter(move |_| std::future::ready(!hangs.load(Ordering::Relaxed))).boxed()))
    }

    async fn get(&self) -> Result<Option<LockSnapshot<Lease>>, ApiError> {
        self.lock.get().await
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<Lease>, ApiError> {
        self.lock.create(record).await
    }

    async fn update(&self, base: &Lease, record: &LeaderElectionRecord) -> Result<LockSnapshot<Lease>, ApiError> {
        self.lock.update(base, record).await
    }
}

#[tokio::test(start_paused = true)]
async fn silent_watch_does_not_delay_a_takeover() {
    for seed in 0..4 {
        for dies_after in [0.3, 2.3, 4.3, 5.9, 6.3, 7.9, 8.3, 12.3, 14.3] {
            let server = server();
            let a = Setup::new("a").start(&server);
            pass(1.0).await;
            let hangs = Arc::new(AtomicBool::new(false));
            let lock = LeaseLock::new(server.client("b"), NAMESPACE, NAME);
            let lock = Watched { lock, hangs: hangs.clone(), floods: false };
            let config = LeaderElectionConfig {
                identity: "b".into(),
                clocks: TestClock::new(),
                seed: Some(seed),
                ..LeaderElectionConfig::default()
            };
            let mut elector = LeaderElector::new(lock, config).unwrap();
            let status = elector.status();
            let run = tokio::spawn(async move {
                let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
                elector.run(&CancellationToken::new(), work).await.map(|_| ())
            });
            pass(30.0).await;
            hangs.store(true, Ordering::Relaxed);
            pass(dies_after).await;
            a.run.abort();
            let died = Instant::now();
            while !status.is_leader() {
                pass(0.05).await;
            }
            // As stated in ELECTION.md, a candidate without a working watch takes over within a lease duration plus two
            // polls.
            let took = died.elapsed().as_secs_f64();
            assert!(took <= 15.0 + 2.0 * 4.4, "seed {seed}, it dies after {dies_after} s: {took} s");
            run.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn flooding_watch_costs_no_term() {
    let server = server();
    let begins = Arc::new(AtomicBool::new(false));
    let lock = LeaseLock::new(server.client("a"), NAMESPACE, NAME);
    let lock = Watched { lock, hangs: begins.clone(), floods: true };
    let config = LeaderElectionConfig { identity: "a".into(), clocks: TestClock::new(), ..Default::default() };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let status = elector.status();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        elector.run(&CancellationToken::new(), work).await.map(|_| ())
    });
    pass(1.0).await;
    begins.store(true, Ordering::Relaxed);
    for second in 0..60 {
        // The runtime is never idle, so tokio does not advance the paused clock automatically.
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(status.is_leader(), "in second {second}");
    }
    run.abort();
}
