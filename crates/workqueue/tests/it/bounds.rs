//! Tests that a single operation processes and wakes only a limited number of keys, records and workers.

use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{QueueConfig, WorkQueue};

use crate::gate::{Bar, gate};
use crate::watch::Wakes;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue<K: Eq + Send + 'static>() -> (WorkQueue<K, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
}

/// Each `try_get` queues up to 16 due keys, and returns the due key with the earliest deadline.
#[test]
fn due_keys_are_queued_in_small_batches() {
    let (queue, clock) = queue();
    for key in 0..1000u64 {
        queue.add_after(key, SECOND + Duration::from_nanos(key));
    }
    clock.advance(2 * SECOND);
    let queued = || queue.snapshot().iter().filter(|state| state.dirty).count();
    assert_eq!(queued(), 0, "a snapshot queues no due keys");
    assert_eq!(*queue.try_get().unwrap(), 0);
    assert_eq!(queued(), 15);
    queue.add(5000);
    assert_eq!(queued(), 16, "an add of another key queues no due keys");
    assert_eq!(queue.counts().queued, 1000, "counts queues all due keys");
    let rest: Vec<_> = std::iter::from_fn(|| queue.try_get().ok().map(|item| *item)).collect();
    assert_eq!(rest, (1..16).chain([5000]).chain(16..1000).collect::<Vec<_>>());
}

/// A key that counts its clones, and that blocks its first clone until the test continues.
#[derive(Debug)]
struct Copied {
    number: u32,
    copies: Arc<AtomicUsize>,
    bar: Arc<Mutex<Option<Bar>>>,
}

impl Clone for Copied {
    fn clone(&self) -> Self {
        if let Some(bar) = self.bar.lock().unwrap().take() {
            bar.wait();
        }
        self.copies.fetch_add(1, Ordering::SeqCst);
        Self { number: self.number, copies: Arc::clone(&self.copies), bar: Arc::clone(&self.bar) }
    }
}

impl PartialEq for Copied {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Copied {}

impl Hash for Copied {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// A snapshot does not block a concurrent add, and contains the key that was added.
#[test]
fn snapshot_copies_keys_in_small_batches() {
    let (queue, _clock) = queue();
    let ((gate, bar), copies) = (gate(), Arc::<AtomicUsize>::default());
    let bar = Arc::new(Mutex::new(Some(bar)));
    let key = |number| Copied { number, copies: Arc::clone(&copies), bar: Arc::clone(&bar) };
    (0..200).for_each(|number| queue.add(key(number)));
    let states = gate.hold_by(
        || queue.snapshot(),
        || {
            queue.add(key(200));
            gate.open();
        },
    );
    assert_eq!((states.len(), copies.load(Ordering::SeqCst)), (201, 201));
}

#[test]
fn expired_failures_are_forgotten_during_a_wait() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.keep_failures = Some(SECOND);
    let queue = WorkQueue::new(config);
    for key in 0..1000 {
        queue.add_rate_limited(key);
    }
    clock.advance(SECOND);
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    assert_eq!(queue.counts().idle, 1000);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut cx).is_pending());
    clock.advance(2 * SECOND);
    // Each poll removes only a few expired records, so the waiter is woken until all of them are removed.
    let mut polls = 0;
    while wakes.count() > polls {
        polls += 1;
        assert!(get.as_mut().poll(&mut cx).is_pending());
    }
    assert!(queue.snapshot().is_empty());
    assert!((20..100).contains(&polls), "{polls} polls for 1000 records");
}

/// Timers of expired failures and of in-flight keys make no key available, so the queue must fire further timers to
/// find the due key.
#[test]
fn due_key_is_found_behind_other_due_keys() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.keep_failures = Some(SECOND);
    let queue = WorkQueue::new(config);
    (0..100).for_each(|key| _ = queue.add_rate_limited(key));
    clock.advance(MS * 5);
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    (200..300).for_each(|key| queue.add(key));
    let held: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).collect();
    (200..300).for_each(|key| _ = queue.add_after(key, SECOND));
    queue.add_after(1000, 2 * SECOND);
    clock.advance(2 * SECOND);
    assert_eq!(queue.try_get().map(|item| *item), Ok(1000));
    assert_eq!((queue.counts().idle, queue.counts().dirty_in_flight, held.len()), (0, 100, 100));
}

/// Another worker dequeues the key before the woken waiter is polled again. The woken waiter then waits again, and
/// keeps its position in front of later waiters.
#[test]
fn repolled_waiter_keeps_its_position() {
    let (queue, _clock) = queue();
    let wakes = [(); 2].map(|()| Arc::new(Wakes::default()));
    let wakers = wakes.clone().map(Waker::from);
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(queue.get()));
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    queue.add(1);
    queue.try_get().unwrap().done();
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    queue.add(2);
    assert_eq!([wakes[0].count(), wakes[1].count()], [2, 0]);
    let Poll::Ready(Some(_)) = first.as_mut().poll(&mut Context::from_waker(&wakers[0])) else {
        panic!("first waiter")
    };
}
