//! Tests of panics whose payload panics when it is dropped.

use std::mem::forget;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pintle_workqueue::ratelimit::{ManualClock, RateLimiter};
use pintle_workqueue::{Fifo, Order, QueueConfig, Queued, ShutdownMode, Ticket, WorkQueue, parallelize_until};

use crate::panics::assert_drains;

const SECOND: Duration = Duration::from_secs(1);

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic_any(Self);
    }
}

fn panics(call: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("it panics");
    assert!(payload.is::<PanicsWhenDropped>());
    forget(payload);
}

/// An order and a limiter that panic while the flag is set.
#[derive(Debug, Default)]
struct Bad(Fifo, Arc<AtomicBool>);

impl Bad {
    fn check(&self) {
        if self.1.load(Ordering::SeqCst) {
            panic_any(PanicsWhenDropped);
        }
    }
}

impl<K> Order<K> for Bad {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        self.check();
        self.0.push(key)
    }

    fn pop(&mut self) -> Option<Ticket> {
        Order::<K>::pop(&mut self.0)
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.0.remove(key, place);
    }

    fn len(&self) -> usize {
        Order::<K>::len(&self.0)
    }
}

impl<K> RateLimiter<K> for Bad {
    fn delay(&mut self, _: &K, _: u32, _: Instant) -> Duration {
        SECOND
    }

    fn forget(&mut self, _: &K) {
        self.check();
    }
}

#[test]
fn shutdown_begins_when_two_payloads_panic() {
    let (bad, clock) = (Arc::new(AtomicBool::new(false)), ManualClock::new());
    let order = Box::new(Bad(Fifo::default(), Arc::clone(&bad)));
    let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(clock.clone()) });
    (0..3).for_each(|key| _ = queue.add_after(key, SECOND));
    clock.advance(SECOND);
    bad.store(true, Ordering::SeqCst);
    panics(|| drop(queue.shut_down(ShutdownMode::FinishBacklog)));
    bad.store(false, Ordering::SeqCst);
    assert!(queue.is_shutting_down());
    assert_drains(&queue);
}

/// The failures of all keys expire in one critical section, so the limiter can panic several times.
#[test]
fn limiter_can_panic_twice_in_one_call() {
    let (bad, clock) = (Arc::new(AtomicBool::new(false)), ManualClock::new());
    let limiter = Box::new(Bad(Fifo::default(), Arc::clone(&bad)));
    let queue = WorkQueue::new(QueueConfig { limiter, keep_failures: Some(SECOND), ..QueueConfig::new(clock.clone()) });
    (0..3).for_each(|key| _ = queue.add_rate_limited(key));
    clock.advance(SECOND);
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    assert_eq!(queue.counts().idle, 3);
    clock.advance(SECOND);
    bad.store(true, Ordering::SeqCst);
    panics(|| _ = queue.counts());
    bad.store(false, Ordering::SeqCst);
    assert_eq!(queue.counts().idle, 0);
    assert_drains(&queue);
}

#[test]
fn piece_with_a_panicking_payload_ends_alone() {
    let one = NonZeroUsize::MIN;
    let unfinished = parallelize_until(one, 3, one, || false, |_| panic_any(PanicsWhenDropped)).unwrap_err();
    assert_eq!((unfinished.panics.len(), unfinished.skipped.len()), (3, 0));
}
