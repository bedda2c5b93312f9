//! client-go's test of the rate-limiting queue (row R1 in tests/ROWS.md), and additional tests.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pintle_workqueue::ratelimit::{Clock, ExponentialFailureRateLimiter, ManualClock, RateLimiter, TokenBucket};
use pintle_workqueue::{
    AddOptions, Added, DelayKind, DelayPolicy, QueueConfig, RetryAccounting, ShutdownMode, WorkItem, WorkQueue,
};

const MS: Duration = Duration::from_millis(1);

fn config() -> (QueueConfig<&'static str, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.limiter = Box::new(ExponentialFailureRateLimiter::new(MS, Duration::from_secs(1)));
    (config, clock)
}

fn delay(queue: &WorkQueue<&'static str, ManualClock>, clock: &ManualClock, key: &str) -> Duration {
    let state = queue.snapshot().into_iter().find(|state| state.key == key).unwrap();
    state.delay.unwrap().1 - clock.now()
}

#[test]
fn r1_rate_limiting_queue() {
    let (mut config, clock) = config();
    // Count every call as a failure, because client-go also counts a second call with a later end of its delay.
    config.charge = RetryAccounting::Always;
    let queue = WorkQueue::new(config);
    queue.add_rate_limited("one");
    assert_eq!(delay(&queue, &clock, "one"), MS);
    queue.cancel(&"one");
    queue.add_rate_limited("one");
    assert_eq!(delay(&queue, &clock, "one"), 2 * MS);
    assert_eq!(queue.num_requeues(&"one"), 2);

    queue.add_rate_limited("two");
    assert_eq!(delay(&queue, &clock, "two"), MS);
    queue.cancel(&"two");
    queue.add_rate_limited("two");
    assert_eq!(delay(&queue, &clock, "two"), 2 * MS);

    queue.forget(&"one");
    assert_eq!(queue.num_requeues(&"one"), 0);
    queue.cancel(&"one");
    queue.add_rate_limited("one");
    assert_eq!(delay(&queue, &clock, "one"), MS);
}

#[test]
fn retry_in_flight_waits_for_delay_and_guard() {
    let (config, clock) = config();
    let queue = WorkQueue::new(config);
    queue.add("a");
    let item = queue.try_get().unwrap();
    assert_eq!(item.retry(), Added::Scheduled);
    assert_eq!((queue.len(), queue.counts().delayed, queue.num_requeues(&"a")), (0, 1, 1));
    clock.advance(MS);
    let item = queue.try_get().unwrap();
    assert_eq!(item.num_requeues(), 1);
    item.forget();
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert!(queue.snapshot().is_empty());
}

#[test]
fn requeue_after_forgets_the_failures() {
    let (config, clock) = config();
    let queue = WorkQueue::new(config);
    queue.add_rate_limited("a");
    clock.advance(MS);
    assert_eq!(queue.try_get().unwrap().requeue_after(10 * MS), Added::Scheduled);
    assert_eq!((queue.num_requeues(&"a"), delay(&queue, &clock, "a")), (0, 10 * MS));
}

#[test]
fn failures_of_a_key_that_is_never_forgotten_expire() {
    let (mut config, clock) = config();
    config.keep_failures = Some(1000 * MS);
    let queue = WorkQueue::new(config);
    queue.add_rate_limited("a");
    clock.advance(MS);
    queue.try_get().unwrap().done();
    clock.advance(999 * MS);
    assert_eq!(queue.num_requeues(&"a"), 1, "not expired yet");
    clock.advance(MS);
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert!(queue.try_get().is_err(), "no key is queued");
    assert!(queue.snapshot().is_empty(), "the access removed the record");
}

struct Forgetful(Arc<Mutex<Vec<&'static str>>>);

impl RateLimiter<&'static str> for Forgetful {
    fn delay(&mut self, _: &&'static str, _: u32, _: Instant) -> Duration {
        MS
    }

    fn forget(&mut self, key: &&'static str) {
        self.0.lock().unwrap().push(*key);
    }
}

/// As in client-go, a limiter may have counted failures of a key that is not in the queue.
#[test]
fn forget_is_called_on_the_limiter() {
    type Queue = WorkQueue<&'static str, ManualClock>;
    for (step, expected) in [
        ((|queue: &Queue| queue.forget(&"a")) as fn(&Queue), &["a"][..]),
        (|queue| queue.forget(&"unknown"), &["unknown"]),
        (|queue| queue.try_get().unwrap().forget(), &["a"]),
        (|queue| _ = queue.try_get().unwrap().requeue_after(MS), &["a"]),
        (|queue| queue.try_get().unwrap().done(), &[]),
        (|queue| _ = queue.try_get().unwrap().retry(), &[]),
        (|queue| assert!(queue.remove(&"a")), &[]),
    ] {
        let ((mut config, clock), forgotten) = (config(), Arc::default());
        config.limiter = Box::new(Forgetful(Arc::clone(&forgotten)));
        let queue = WorkQueue::new(config);
        queue.add_rate_limited("a");
        clock.advance(MS);
        step(&queue);
        assert_eq!(*forgotten.lock().unwrap(), expected);
    }
}

/// Each test case calls another method of the queue after the failures have expired.
#[test]
fn expired_failures_never_count_again() {
    type Queue = WorkQueue<&'static str, ManualClock>;
    for (step, queued) in [
        ((|queue: &Queue| queue.add("a")) as fn(&Queue), 1),
        (|queue| assert_eq!(queue.add_after("a", Duration::ZERO), Added::Scheduled), 1),
        (|queue| assert_eq!(queue.cancel(&"a"), None), 0),
        (|queue| assert!(!queue.postpone(&"a", MS)), 0),
        (|queue| assert!(!queue.remove(&"a")), 0),
    ] {
        let ((mut config, clock), forgotten) = (config(), Arc::default());
        config.keep_failures = Some(1000 * MS);
        config.limiter = Box::new(Forgetful(Arc::clone(&forgotten)));
        let queue = WorkQueue::new(config);
        queue.add_rate_limited("a");
        clock.advance(MS);
        queue.try_get().unwrap().done();
        clock.advance(1000 * MS);
        assert_eq!(queue.num_requeues(&"a"), 0);
        step(&queue);
        assert_eq!(queue.num_requeues(&"a"), 0, "the failures do not return");
        assert_eq!((queue.snapshot().len(), queue.counts().queued, queue.counts().idle), (queued, queued, 0));
        assert_eq!(*forgotten.lock().unwrap(), ["a"], "the limiter's forget is called");
    }
}

#[test]
fn lookup_does_not_extend_the_expiry_of_failures() {
    let (mut config, clock) = config();
    config.keep_failures = Some(1000 * MS);
    let queue = WorkQueue::new(config);
    queue.add_rate_limited("a");
    clock.advance(MS);
    queue.try_get().unwrap().done();
    clock.advance(999 * MS);
    assert_eq!((queue.cancel(&"a"), queue.num_requeues(&"a")), (None, 1));
    clock.advance(MS);
    assert_eq!(queue.num_requeues(&"a"), 0);
}

#[test]
fn failures_do_not_expire_during_the_retry_delay() {
    let (mut config, clock) = config();
    config.keep_failures = Some(MS);
    config.limiter = Box::new(ExponentialFailureRateLimiter::new(Duration::from_secs(60), Duration::from_secs(600)));
    let queue = WorkQueue::new(config);
    queue.add_rate_limited("a");
    clock.advance(Duration::from_secs(60));
    assert_eq!(queue.try_get().unwrap().num_requeues(), 1);
}

#[test]
fn dequeue_limit_caps_the_rate_without_debt() {
    let (mut config, clock) = config();
    config.dequeue_limit = Some(TokenBucket::new(10.0, 2, clock.now()));
    let queue = WorkQueue::new(config);
    for key in ["a", "b", "c", "d"] {
        queue.add(key);
    }
    assert!(queue.try_get().is_ok() && queue.try_get().is_ok());
    for _ in 0..50 {
        assert!(queue.try_get().is_err(), "the burst is used up, and a failed get takes no token");
    }
    clock.advance(100 * MS);
    assert!(queue.try_get().is_ok());
    assert!(queue.try_get().is_err());
    assert_eq!(queue.len(), 1, "the waiting key stays queued");
}

#[test]
fn waiting_get_sleeps_until_the_next_token() {
    let (mut config, clock) = config();
    config.dequeue_limit = Some(TokenBucket::new(10.0, 1, clock.now()));
    let queue = WorkQueue::new(config);
    queue.add("a");
    queue.add("b");
    drop(queue.try_get());
    let mut get = std::pin::pin!(queue.get());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(get.as_mut().poll(&mut cx).is_pending());
    assert_eq!(clock.next_deadline(), Some(clock.now() + 100 * MS));
    clock.advance(100 * MS);
    assert!(get.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn every_kind_of_rejected_add_is_counted() {
    type Step = fn(&WorkQueue<&'static str, ManualClock>, WorkItem<&'static str, ManualClock>);
    let steps: [Step; 8] = [
        |queue, _| queue.add("new"),
        |queue, _| assert_eq!(queue.add_with("new", AddOptions::default()), Added::ShutDown),
        |queue, _| assert_eq!(queue.add_after("new", MS), Added::ShutDown),
        |queue, _| assert_eq!(queue.replace_after("new", MS, DelayKind::Retry), Added::ShutDown),
        |queue, _| assert_eq!(queue.add_rate_limited("new"), Added::ShutDown),
        |queue, _| assert_eq!(queue.add_rate_limited("held"), Added::ShutDown),
        |_, held| assert_eq!(held.retry(), Added::ShutDown),
        |_, held| assert_eq!(held.requeue_after(MS), Added::ShutDown),
    ];
    for charge in [RetryAccounting::IfScheduled, RetryAccounting::Always] {
        for (number, step) in steps.iter().enumerate() {
            let (mut config, _clock) = config();
            config.charge = charge;
            let queue = WorkQueue::new(config);
            queue.add("held");
            let held = queue.try_get().unwrap();
            let drain = queue.shut_down(ShutdownMode::FinishBacklog);
            step(&queue, held);
            let report = drain.wait();
            assert_eq!((report.complete, report.refused), (true, 1), "{charge:?}, {number}");
        }
    }
}

/// A limiter without failure counts, like a token bucket.
struct Bucket;

impl<K> RateLimiter<K> for Bucket {
    fn delay(&mut self, _: &K, _: u32, _: Instant) -> Duration {
        MS
    }

    fn counts_failures(&self) -> bool {
        false
    }
}

/// A rate-limited add can count as a failure even after a shutdown. The queue creates a record for the key only if the
/// limiter counts failures, and then the record expires.
#[test]
fn record_of_a_charge_after_shutdown_expires() {
    let (mut bucket, _clock) = config();
    bucket.charge = RetryAccounting::Always;
    bucket.limiter = Box::new(Bucket);
    let queue = WorkQueue::new(bucket);
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
    assert_eq!(queue.add_rate_limited("a"), Added::ShutDown);
    assert!(queue.snapshot().is_empty());

    let (mut config, clock) = config();
    config.charge = RetryAccounting::Always;
    config.keep_failures = Some(1000 * MS);
    let queue = WorkQueue::new(config);
    drop(queue.shut_down(ShutdownMode::FinishBacklog));
    assert_eq!(queue.add_rate_limited("a"), Added::ShutDown);
    assert_eq!(queue.num_requeues(&"a"), 1);
    clock.advance(1000 * MS);
    assert_eq!(queue.num_requeues(&"a"), 0);
}

#[test]
fn failure_counts_despite_an_earlier_reminder() {
    let (config, clock) = config();
    let queue = WorkQueue::new(config);
    queue.add("a");
    for _ in 0..50 {
        let item = queue.try_get().unwrap();
        queue.add_after("a", Duration::from_nanos(1));
        assert_eq!(item.retry(), Added::Merged, "the reminder has the earlier deadline");
        clock.advance(MS);
    }
    assert_eq!(queue.num_requeues(&"a"), 50);
}

#[test]
fn failure_counts_for_a_key_that_is_already_dirty() {
    let (mut config, _clock) = config();
    config.pending_retry = DelayPolicy::Absorb;
    let queue = WorkQueue::new(config);
    queue.add("a");
    for _ in 0..50 {
        let item = queue.try_get().unwrap();
        queue.add("a");
        item.retry();
    }
    assert_eq!((queue.num_requeues(&"a"), queue.counts().delayed), (50, 0));
}

#[test]
fn rate_limited_add_counts_unless_a_retry_is_pending() {
    let (config, _clock) = config();
    let queue = WorkQueue::new(config);
    queue.add_after("a", Duration::from_nanos(1));
    assert_eq!((queue.add_rate_limited("a"), queue.num_requeues(&"a")), (Added::Merged, 1));
    assert_eq!((queue.add_rate_limited("a"), queue.num_requeues(&"a")), (Added::Merged, 1));
}

/// Merges a reminder with a retry, in each order of calls and deadlines. An add without a delay must never end the
/// backoff.
#[test]
fn reminder_merged_with_a_retry_is_respected() {
    for (reminder, before) in [(MS / 2, true), (MS / 2, false), (100 * MS, true), (100 * MS, false)] {
        let (mut config, clock) = config();
        config.pending_retry = DelayPolicy::Respect;
        let queue = WorkQueue::new(config);
        queue.add("a");
        let item = queue.try_get().unwrap();
        if before {
            queue.add_after("a", reminder);
        }
        item.retry();
        if !before {
            queue.add_after("a", reminder);
        }
        assert_eq!(queue.add_with("a", AddOptions::default()), Added::Merged, "{reminder:?} {before}");
        assert_eq!(queue.len(), 0);
        clock.advance(reminder.min(MS));
        assert_eq!(queue.len(), 1);
    }
}

#[test]
fn failures_are_kept_for_an_hour_by_default() {
    let clock = ManualClock::new();
    let queue: WorkQueue<&str, _> = WorkQueue::new(QueueConfig::new(clock.clone()));
    queue.add("a");
    queue.try_get().unwrap().retry();
    clock.advance(5 * MS);
    queue.try_get().unwrap().done();
    clock.advance(Duration::from_secs(3600) - MS);
    assert_eq!(queue.num_requeues(&"a"), 1);
    clock.advance(MS);
    assert_eq!(queue.num_requeues(&"a"), 0);
}
