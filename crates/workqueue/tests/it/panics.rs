//! Tests of user code that panics or calls the queue. After a panic, no key may be stuck, and no caller may wait
//! forever.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use pintle_metrics::{Counter, Gauge, Histogram, InMemoryProvider, Metric, Provider, Pulled};
use pintle_workqueue::ratelimit::{ManualClock, RateLimiter};
use pintle_workqueue::{DelayKind, Fifo, Order, QueueConfig, Queued, ShutdownMode, Ticket, WorkQueue};

use crate::gate::gated;
use crate::watch::ends;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn panics(call: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("it panics");
    match payload.downcast::<&str>() {
        Ok(message) => (*message).to_owned(),
        Err(payload) => *payload.downcast::<String>().expect("a message"),
    }
}

/// A test key. `Clone` panics while `bad_clone` is set, `Eq` panics while `bad_eq` is set, and `Drop` calls the
/// callback `dropped`.
struct Key {
    number: u32,
    bad_clone: Arc<AtomicBool>,
    bad_eq: Arc<AtomicBool>,
    dropped: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

#[derive(Default)]
struct Keys {
    bad_clone: Arc<AtomicBool>,
    bad_eq: Arc<AtomicBool>,
    dropped: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl Keys {
    fn key(&self, number: u32) -> Key {
        let (bad_clone, bad_eq) = (Arc::clone(&self.bad_clone), Arc::clone(&self.bad_eq));
        Key { number, bad_clone, bad_eq, dropped: Arc::clone(&self.dropped) }
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        assert!(!self.bad_clone.load(Ordering::SeqCst), "no copies");
        let (bad_clone, bad_eq) = (Arc::clone(&self.bad_clone), Arc::clone(&self.bad_eq));
        Self { number: self.number, bad_clone, bad_eq, dropped: Arc::clone(&self.dropped) }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        assert!(!self.bad_eq.load(Ordering::SeqCst), "no comparisons");
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.number)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if let Some(call) = self.dropped.get() {
            call();
        }
    }
}

/// Checks that a drain ends, which means that each in-flight key has a guard that marks it as done.
pub(crate) fn assert_drains<K: Clone>(queue: &WorkQueue<K, ManualClock>) {
    let mut drain = pin!(queue.shut_down(ShutdownMode::FinishBacklog));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(drain.as_mut().poll(&mut cx), Poll::Ready(report) if report.complete), "{queue:?}");
}

#[test]
fn key_with_panicking_clone_is_done() {
    let keys = Keys::default();
    let queue = WorkQueue::new(QueueConfig::new(ManualClock::new()));
    queue.add(keys.key(1));
    queue.add(keys.key(2));
    keys.bad_clone.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| drop(queue.try_get())), "no copies");
    assert_eq!((queue.counts().in_flight, queue.len()), (0, 1));
    keys.bad_clone.store(false, Ordering::SeqCst);
    assert_eq!(queue.try_get().unwrap().number, 2, "other keys are not affected");
    queue.add(keys.key(1));
    assert_eq!(queue.blocking_get().unwrap().number, 1, "the key can be added again");
    assert_drains(&queue);
}

#[test]
fn get_passes_its_wakeup_on_when_key_panics() {
    let keys = Keys::default();
    let queue = WorkQueue::new(QueueConfig::new(ManualClock::new()));
    let mut cx = Context::from_waker(Waker::noop());
    let mut second = pin!(queue.get());
    {
        let mut first = pin!(queue.get());
        assert!(first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending());
        queue.add(keys.key(1));
        queue.add(keys.key(2));
        keys.bad_clone.store(true, Ordering::SeqCst);
        assert_eq!(panics(|| _ = first.as_mut().poll(&mut cx).is_ready()), "no copies");
        keys.bad_clone.store(false, Ordering::SeqCst);
    }
    assert!(matches!(second.as_mut().poll(&mut cx), Poll::Ready(Some(item)) if item.number == 2));
}

#[test]
fn add_whose_eq_panics_has_no_effect() {
    let keys = Keys::default();
    let queue = WorkQueue::new(QueueConfig::new(ManualClock::new()));
    queue.add(keys.key(1));
    keys.bad_eq.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| queue.add(keys.key(1))), "no comparisons");
    assert_eq!(panics(|| _ = queue.add_rate_limited(keys.key(1))), "no comparisons");
    keys.bad_eq.store(false, Ordering::SeqCst);
    assert_eq!((queue.len(), queue.counts().delayed), (1, 0));
    queue.try_get().unwrap().done();
    assert_drains(&queue);
}

/// The add is still in the inbox after its call has returned, so its panic propagates from the call that applies it.
#[test]
fn late_add_panic_propagates_from_the_applying_call() {
    let keys = Keys::default();
    let (order, gate) = gated(Box::new(Fifo::default()), |key: &Key| key.number == 0);
    let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(ManualClock::new()) });
    queue.add(keys.key(1));
    gate.hold(&queue, keys.key(0), || [1, 2].into_iter().for_each(|number| queue.add(keys.key(number))));
    keys.bad_eq.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| _ = queue.counts()), "no comparisons");
    keys.bad_eq.store(false, Ordering::SeqCst);
    let taken: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).map(|item| item.number).collect();
    assert_eq!(taken, [1, 0, 2], "no other key was lost");
    assert_drains(&queue);
}

/// The `Drop` implementation of a key may use the queue. This test makes the queue drop merged, rejected, expired,
/// removed and finished keys.
#[test]
fn no_key_is_dropped_under_the_lock() {
    let (keys, clock) = (Keys::default(), ManualClock::new());
    let mut config = QueueConfig::new(clock.clone());
    config.keep_failures = Some(SECOND);
    let queue = WorkQueue::new(config);
    let calls_back = queue.clone();
    keys.dropped.set(Box::new(move || _ = calls_back.counts())).unwrap_or_else(|_| panic!("once"));
    queue.add(keys.key(1));
    queue.add(keys.key(1));
    queue.add_after(keys.key(2), SECOND);
    queue.cancel(&keys.key(2));
    queue.add(keys.key(3));
    assert!(queue.remove(&keys.key(3)));
    queue.try_get().unwrap().done();
    for number in 10..20 {
        queue.add_rate_limited(keys.key(number));
    }
    clock.advance(SECOND);
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    clock.advance(2 * SECOND);
    assert_eq!(queue.counts().idle, 0, "the failures of all ten keys have expired in one operation");
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
    queue.add(keys.key(4));
    assert!(queue.snapshot().is_empty());
}

/// A waker that uses the queue when it is called and when it is dropped, like the wakers of some executors.
struct Curious {
    queue: WorkQueue<u32, ManualClock>,
    called: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Wake for Curious {
    fn wake(self: Arc<Self>) {
        self.queue.counts();
        self.called.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.queue.counts();
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls waiters with another waker, drops them, and wakes them.
#[test]
fn no_waker_is_called_or_dropped_under_the_lock() {
    ends(|| {
        let queue = WorkQueue::new(QueueConfig::new(ManualClock::new()));
        let (called, dropped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let waker = || {
            let (called, dropped) = (Arc::clone(&called), Arc::clone(&dropped));
            Waker::from(Arc::new(Curious { queue: queue.clone(), called, dropped }))
        };
        let counts = || (called.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst));
        {
            let (mut other, mut get) = (pin!(queue.get()), pin!(queue.get()));
            assert!(get.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            assert!(get.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            assert_eq!(counts(), (0, 1), "polled with another waker");
            assert!(other.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            queue.add(1);
            assert_eq!(counts(), (1, 2), "woken by a key");
        }
        assert_eq!(counts(), (2, 3), "a notified get is dropped, and another waiter is woken instead");
        let item = queue.try_get().unwrap();
        {
            let mut get = pin!(queue.get());
            assert!(get.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        }
        assert_eq!(counts(), (2, 4), "a listed get is dropped");
        let mut get = pin!(queue.get());
        assert!(get.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        {
            let mut drain = pin!(queue.shut_down(ShutdownMode::FinishInFlight));
            assert_eq!(counts(), (3, 5), "woken by the shutdown");
            assert!(drain.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            assert!(drain.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            assert_eq!(counts(), (3, 6), "the drain is polled with another waker");
        }
        assert_eq!(counts(), (3, 7), "the drain is dropped");
        let mut drain = pin!(queue.shut_down(ShutdownMode::FinishInFlight));
        assert!(drain.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        item.done();
        assert_eq!(counts(), (4, 8), "woken by the end of the shutdown");
    });
}

/// A panic in user code may make the queue drop a key. Dropping this key uses the queue, which would deadlock if the
/// queue were still locked.
#[test]
fn panic_drops_no_key_under_the_lock() {
    let keys = Keys::default();
    let limiter = Box::new(BadLimiter);
    let queue = WorkQueue::new(QueueConfig { limiter, ..QueueConfig::new(ManualClock::new()) });
    queue.add(keys.key(1));
    let calls_back = queue.clone();
    let looks = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&looks);
    let look = move || {
        _ = calls_back.counts();
        counter.fetch_add(1, Ordering::SeqCst);
    };
    keys.dropped.set(Box::new(look)).unwrap_or_else(|_| panic!("once"));

    assert_eq!(panics(|| _ = queue.add_rate_limited(keys.key(2))), "no delay");
    keys.bad_eq.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| queue.add(keys.key(1))), "no comparisons");
    assert_eq!(panics(|| _ = queue.add_after(keys.key(1), SECOND)), "no comparisons");
    assert_eq!(panics(|| _ = queue.add_rate_limited(keys.key(1))), "no comparisons");
    assert_eq!(panics(|| _ = queue.replace_after(keys.key(1), SECOND, DelayKind::Retry)), "no comparisons");
    keys.bad_eq.store(false, Ordering::SeqCst);
    assert_eq!((looks.load(Ordering::SeqCst), queue.counts().queued), (5, 1));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("no wake-up");
    }
}

pub(crate) fn waker() -> Waker {
    Waker::from(Arc::new(Panics))
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn no_waiter_stays_asleep_when_a_waker_panics() {
    let queue: WorkQueue<u32, _> = WorkQueue::new(QueueConfig::new(ManualClock::new()));
    let woken = Arc::new(Woken::default());
    let (bad, good) = (Waker::from(Arc::new(Panics)), Waker::from(Arc::clone(&woken)));
    let (mut first, mut second, mut third) = (pin!(queue.get()), pin!(queue.get()), pin!(queue.get()));
    assert!(first.as_mut().poll(&mut Context::from_waker(&bad)).is_pending());
    for get in [&mut second, &mut third] {
        assert!(get.as_mut().poll(&mut Context::from_waker(&good)).is_pending());
    }
    assert_eq!(panics(|| drop(queue.shut_down(ShutdownMode::FinishBacklog))), "no wake-up");
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
}

#[test]
fn nothing_is_formatted_under_the_lock() {
    struct Logger<'a>(&'a WorkQueue<u32, ManualClock>, String);
    impl Write for Logger<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.counts();
            self.1.push_str(text);
            Ok(())
        }
    }
    let queue = WorkQueue::new(QueueConfig { name: "sites".into(), ..QueueConfig::new(ManualClock::new()) });
    queue.add(1);
    let mut logger = Logger(&queue, String::new());
    write!(logger, "{queue:?}").unwrap();
    assert!(logger.1.contains("\"sites\"") && logger.1.contains("queued: 1"), "{}", logger.1);
}

#[derive(Debug, Default)]
struct BadOrder(Fifo, Arc<AtomicBool>);

impl<K> Order<K> for BadOrder {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        assert!(!self.1.load(Ordering::SeqCst), "no place");
        self.0.push(key)
    }

    fn pop(&mut self) -> Option<Ticket> {
        assert!(!self.1.load(Ordering::SeqCst), "no next one");
        Order::<K>::pop(&mut self.0)
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.0.remove(key, place);
    }

    fn len(&self) -> usize {
        Order::<K>::len(&self.0)
    }
}

struct BadLimiter;

impl<K> RateLimiter<K> for BadLimiter {
    fn delay(&mut self, _: &K, _: u32, _: Instant) -> Duration {
        panic!("no delay")
    }
}

#[test]
fn panicking_order_loses_only_the_affected_key() {
    let bad = Arc::new(AtomicBool::new(false));
    let order = BadOrder(Fifo::default(), Arc::clone(&bad));
    let queue = WorkQueue::new(QueueConfig { order: Box::new(order), ..QueueConfig::new(ManualClock::new()) });
    queue.add("held");
    let held = queue.try_get().unwrap();
    queue.add("held");
    queue.add("queued");
    bad.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| queue.add("new")), "no place");
    assert_eq!(panics(|| drop(queue.try_get())), "no next one");
    assert_eq!(panics(|| drop(held)), "no place", "the key was added while in flight, and its push panics");
    bad.store(false, Ordering::SeqCst);
    assert_eq!((queue.counts().in_flight, queue.counts().idle, queue.len()), (0, 0, 1));
    assert_eq!(*queue.try_get().unwrap(), "queued");
    queue.add("new");
    assert_eq!(*queue.try_get().unwrap(), "new");
    assert_drains(&queue);
}

#[test]
fn shutdown_begins_when_the_order_panics() {
    let (bad, clock) = (Arc::new(AtomicBool::new(false)), ManualClock::new());
    let order = Box::new(BadOrder(Fifo::default(), Arc::clone(&bad)));
    let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(clock.clone()) });
    for key in 0..40 {
        queue.add_after(key, SECOND);
    }
    queue.add_after(40, 2 * SECOND);
    clock.advance(SECOND);
    bad.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| drop(queue.shut_down(ShutdownMode::FinishBacklog))), "no place");
    bad.store(false, Ordering::SeqCst);
    assert!(queue.is_shutting_down());
    assert_eq!(queue.counts().delayed, 1, "the queue tried to add each due key");
    assert_drains(&queue);
}

#[test]
fn key_of_a_panicking_order_is_in_no_depth() {
    let (bad, memory) = (Arc::new(AtomicBool::new(false)), InMemoryProvider::new());
    let order = Box::new(BadOrder(Fifo::default(), Arc::clone(&bad)));
    let metrics = Some(Arc::new(memory.clone()) as Arc<dyn Provider>);
    let queue = WorkQueue::new(QueueConfig { order, metrics, ..QueueConfig::new(ManualClock::new()) });
    queue.add("queued");
    bad.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| queue.add("new")), "no place");
    assert_eq!(memory.value("workqueue_depth", &[]), Some(1.0));
    bad.store(false, Ordering::SeqCst);
    queue.add("new");
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    assert_eq!(memory.value("workqueue_depth", &[]), Some(0.0));
}

/// The guard is dropped while its thread unwinds after a panic in the limiter, and this drop makes the order panic,
/// too. The second panic must not abort the process.
#[test]
fn limiter_and_order_can_panic_in_one_call() {
    let bad = Arc::new(AtomicBool::new(false));
    let order = Box::new(BadOrder(Fifo::default(), Arc::clone(&bad)));
    let limiter = Box::new(BadLimiter);
    let queue = WorkQueue::new(QueueConfig { order, limiter, ..QueueConfig::new(ManualClock::new()) });
    queue.add("a");
    let item = queue.try_get().unwrap();
    queue.add("a");
    bad.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| _ = item.retry()), "no delay");
    bad.store(false, Ordering::SeqCst);
    assert!(queue.snapshot().is_empty());
    assert_drains(&queue);
}

#[test]
fn panicking_limiter_leaves_no_record() {
    let limiter = Box::new(BadLimiter);
    let queue = WorkQueue::new(QueueConfig { limiter, ..QueueConfig::new(ManualClock::new()) });
    assert_eq!(panics(|| _ = queue.add_rate_limited("new")), "no delay");
    assert!(queue.snapshot().is_empty());
}

#[derive(Debug)]
struct BadProvider;

impl Counter for BadProvider {
    fn add(&self, _: u64) {
        panic!("no counter")
    }
}

impl Gauge for BadProvider {
    fn add(&self, _: i64) {}
}

impl Histogram for BadProvider {
    fn observe(&self, _: f64) {
        panic!("no histogram")
    }
}

impl Provider for BadProvider {
    fn counter(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Counter> {
        Box::new(Self)
    }

    fn gauge(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Gauge> {
        Box::new(Self)
    }

    fn histogram(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Histogram> {
        Box::new(Self)
    }

    fn pulled(&self, _: &'static Metric, _: &[&str], _: Pulled) -> Box<dyn std::any::Any + Send + Sync> {
        Box::new(())
    }
}

#[derive(Debug)]
struct BadHistograms(InMemoryProvider);

impl Provider for BadHistograms {
    fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Counter> {
        self.0.counter(metric, labels)
    }

    fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Box<dyn Gauge> {
        self.0.gauge(metric, labels)
    }

    fn histogram(&self, _: &'static Metric, _: &[&str]) -> Box<dyn Histogram> {
        Box::new(BadProvider)
    }

    fn pulled(&self, metric: &'static Metric, labels: &[&str], read: Pulled) -> Box<dyn std::any::Any + Send + Sync> {
        self.0.pulled(metric, labels, read)
    }
}

#[test]
fn panicking_provider_is_not_called_again() {
    let metrics = Some(Arc::new(BadProvider) as Arc<dyn Provider>);
    let queue = WorkQueue::new(QueueConfig { metrics, ..QueueConfig::new(ManualClock::new()) });
    assert_eq!(panics(|| queue.add("a")), "no counter");
    assert_eq!(queue.len(), 1, "the add has its effect");
    queue.add("b");
    queue.try_get().unwrap().done();
    assert_eq!(*queue.try_get().unwrap(), "b");
    assert_drains(&queue);
}

/// If the panic propagated, the guard would be dropped, and the key would be done without having been processed.
#[test]
fn panicking_histogram_does_not_lose_the_dequeued_key() {
    for blocks in [false, true] {
        let metrics = Some(Arc::new(BadHistograms(InMemoryProvider::new())) as Arc<dyn Provider>);
        let queue = WorkQueue::new(QueueConfig { metrics, ..QueueConfig::new(ManualClock::new()) });
        queue.add("a");
        let item = if blocks { queue.blocking_get() } else { queue.try_get().ok() };
        assert_eq!(item.map(|item| *item), Some("a"));
        assert_drains(&queue);
    }
}

/// The worker that dequeues its key also wakes the next worker, whose waker panics.
#[test]
fn panicking_waker_does_not_lose_the_dequeued_key() {
    let queue = WorkQueue::<usize, _>::new(QueueConfig::new(ManualClock::new()));
    let processors = available_parallelism().unwrap().get();
    let mut good: Vec<_> = (0..processors).map(|_| Box::pin(queue.get())).collect();
    let mut cx = Context::from_waker(Waker::noop());
    for get in &mut good {
        assert!(get.as_mut().poll(&mut cx).is_pending());
    }
    let mut bad = Box::pin(queue.get());
    assert!(bad.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
    queue.add_all(0..processors + 1);
    assert!(matches!(good[0].as_mut().poll(&mut cx), Poll::Ready(Some(item)) if *item == 0));
    assert_eq!((queue.len(), queue.counts().in_flight), (processors, 0));
}

/// Dropping the finished key panics after the worker has dequeued the next key.
#[test]
fn key_panicking_in_drop_does_not_lose_the_next() {
    let keys = Keys::default();
    let queue = WorkQueue::new(QueueConfig::new(ManualClock::new()));
    queue.add(keys.key(1));
    queue.add(keys.key(2));
    let item = queue.try_get().unwrap();
    let is_bad = AtomicBool::new(true);
    let drop_panics = move || assert!(!is_bad.swap(false, Ordering::SeqCst), "no drop");
    keys.dropped.set(Box::new(drop_panics)).unwrap_or_else(|_| panic!("once"));
    assert_eq!(item.blocking_next().unwrap().number, 2);
}

#[test]
fn panic_in_next_leaves_no_key_in_flight() {
    let bad = Arc::new(AtomicBool::new(false));
    let order = BadOrder(Fifo::default(), Arc::clone(&bad));
    let queue = WorkQueue::new(QueueConfig { order: Box::new(order), ..QueueConfig::new(ManualClock::new()) });
    queue.add("a");
    queue.add("b");
    let item = queue.try_get().unwrap();
    queue.add("a");
    bad.store(true, Ordering::SeqCst);
    assert_eq!(panics(|| drop(item.blocking_next())), "no next one");
    bad.store(false, Ordering::SeqCst);
    assert_eq!((queue.counts().in_flight, queue.len()), (0, 1));
}
