//! client-go's tests of the delaying queue: rows D1 to D4 in tests/ROWS.md. Row D5 is a benchmark, which is not
//! included.

use std::time::Duration;

use pintle_workqueue::ratelimit::{Clock, ManualClock};
use pintle_workqueue::{AddOptions, Added, DelayKind, DelayPolicy, QueueConfig, ShutdownMode, TryGetError, WorkQueue};

use crate::support::at;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (WorkQueue<&'static str, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
}

fn take(queue: &WorkQueue<&'static str, ManualClock>) -> Option<&'static str> {
    queue.try_get().ok().map(|item| *item)
}

#[test]
fn d1_simple_queue() {
    let (queue, clock) = queue();
    queue.add_after("foo", 50 * MS);
    assert_eq!((queue.len(), take(&queue)), (0, None));
    clock.advance(60 * MS);
    assert_eq!(queue.len(), 1);
    assert_eq!(take(&queue), Some("foo"));
    for _ in 0..100 {
        clock.advance(100 * MS);
        assert_eq!((queue.len(), take(&queue)), (0, None));
    }
}

#[test]
fn d2_deduping() {
    let (queue, clock) = queue();
    assert_eq!(queue.add_after("foo", 50 * MS), Added::Scheduled);
    assert_eq!(queue.add_after("foo", 70 * MS), Added::Merged);
    clock.advance(60 * MS);
    assert_eq!(take(&queue), Some("foo"));
    clock.advance(20 * MS);
    assert_eq!(take(&queue), None);

    queue.add_after("foo", 50 * MS);
    assert_eq!(queue.add_after("foo", 30 * MS), Added::Scheduled);
    clock.advance(40 * MS);
    assert_eq!(take(&queue), Some("foo"));
    clock.advance(20 * MS);
    assert_eq!(take(&queue), None);
}

#[test]
fn d3_add_two_fire_early() {
    let (queue, clock) = queue();
    queue.add_after("a", SECOND);
    queue.add_after("b", 50 * MS);
    clock.advance(60 * MS);
    assert_eq!((take(&queue), take(&queue)), (Some("b"), None));
    queue.add_after("c", 2 * SECOND);
    clock.advance(SECOND);
    assert_eq!((take(&queue), take(&queue)), (Some("a"), None));
    clock.advance(2 * SECOND);
    assert_eq!((take(&queue), take(&queue)), (Some("c"), None));
}

#[test]
fn d4_copy_shifting() {
    let (queue, clock) = queue();
    queue.add_after("a", SECOND);
    queue.add_after("b", 500 * MS);
    queue.add_after("c", 250 * MS);
    clock.advance(2 * SECOND);
    assert_eq!(queue.len(), 3);
    assert_eq!([take(&queue), take(&queue), take(&queue)], [Some("c"), Some("b"), Some("a")]);
}

#[test]
fn zero_delay_is_a_plain_add() {
    let (queue, _clock) = queue();
    queue.add_after("now", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[test]
fn longest_delay_never_ends_and_does_not_overflow() {
    let (queue, clock) = queue();
    clock.advance(SECOND);
    queue.add_after("never", Duration::MAX);
    clock.advance(Duration::from_secs(1 << 33));
    assert_eq!((take(&queue), queue.counts().delayed), (None, 1));
}

#[test]
fn a_cancelled_delay_does_not_end() {
    let (queue, clock) = queue();
    let deadline = clock.now() + SECOND;
    queue.add_after("a", SECOND);
    assert_eq!((queue.cancel(&"a"), queue.cancel(&"a")), (Some(deadline), None));
    clock.advance(2 * SECOND);
    assert_eq!(take(&queue), None);
    assert!(queue.snapshot().is_empty(), "the record is removed");
}

#[test]
fn postpone_only_extends_a_delay() {
    let (queue, clock) = queue();
    assert!(!queue.postpone(&"a", SECOND), "no delay is pending");
    queue.add_after("a", SECOND);
    assert!(queue.postpone(&"a", 2 * SECOND));
    assert!(!queue.postpone(&"a", SECOND));
    clock.advance(SECOND);
    assert_eq!(take(&queue), None);
    clock.advance(SECOND);
    assert_eq!(take(&queue), Some("a"));
}

#[test]
fn replaced_delay_ends_at_the_new_deadline() {
    let (queue, clock) = queue();
    queue.add_after("a", SECOND);
    queue.replace_after("a", 3 * SECOND, DelayKind::Reminder);
    queue.replace_after("a", 2 * SECOND, DelayKind::Retry);
    assert_eq!(queue.snapshot()[0].delay, Some((DelayKind::Retry, clock.now() + 2 * SECOND)));
    clock.advance(SECOND);
    assert_eq!(take(&queue), None);
    clock.advance(SECOND);
    assert_eq!((take(&queue), take(&queue)), (Some("a"), None));
}

#[test]
fn absorbed_delay_kind_does_not_outlive_a_queued_key() {
    let clock = ManualClock::new();
    let queue = WorkQueue::new(QueueConfig { pending_retry: DelayPolicy::Absorb, ..QueueConfig::new(clock.clone()) });
    for (kind, added) in [(DelayKind::Retry, Added::Merged), (DelayKind::Reminder, Added::Scheduled)] {
        queue.add("a");
        assert_eq!(queue.add_with("a", AddOptions { after: Some(SECOND), kind, ..AddOptions::default() }), added);
        assert_eq!(take(&queue), Some("a"));
        clock.advance(SECOND);
        assert_eq!(take(&queue), (added == Added::Scheduled).then_some("a"), "{kind:?}");
    }
}

#[test]
fn add_cancels_a_requeue_but_no_merged_reminder() {
    for (first, second, is_kept) in [
        (DelayKind::Requeue, DelayKind::Requeue, false),
        (DelayKind::Reminder, DelayKind::Requeue, true),
        (DelayKind::Requeue, DelayKind::Reminder, true),
    ] {
        let (queue, clock) = queue();
        for kind in [first, second] {
            queue.add_with("a", AddOptions { after: Some(SECOND), kind, ..AddOptions::default() });
        }
        queue.add("a");
        assert_eq!(take(&queue), Some("a"));
        clock.advance(SECOND);
        assert_eq!(take(&queue), is_kept.then_some("a"), "{first:?}, {second:?}");
    }
}

#[test]
fn retries_and_reminders_can_have_different_policies() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.pending_retry = DelayPolicy::Respect;
    let queue = WorkQueue::new(config);
    queue.add_rate_limited("failed");
    queue.add_after("watched", 5 * MS);
    assert_eq!(queue.add_with("failed", at(0)), Added::Merged, "an add does not end the backoff");
    assert_eq!(queue.add_with("watched", at(0)), Added::Scheduled);
    assert_eq!(*queue.try_get().unwrap(), "watched");
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
    clock.advance(5 * MS);
    let rest: Vec<_> = std::iter::from_fn(|| queue.try_get().ok().map(|item| *item)).collect();
    assert_eq!(rest, ["failed", "watched"], "the add does not cancel the reminder");
}

fn respectful() -> (WorkQueue<&'static str, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    (config.pending_retry, config.pending_reminder) = (DelayPolicy::Respect, DelayPolicy::Respect);
    (WorkQueue::new(config), clock)
}

#[test]
fn add_in_flight_does_not_shorten_the_backoff() {
    let (queue, clock) = respectful();
    queue.add("a");
    for backoff in [5 * MS, 10 * MS, 20 * MS] {
        let item = queue.try_get().unwrap();
        assert_eq!(queue.add_with("a", at(7)), Added::Scheduled);
        assert_eq!(item.retry(), Added::Scheduled);
        let counts = queue.counts();
        assert_eq!((counts.queued, counts.delayed, counts.dirty_in_flight), (0, 1, 0));
        clock.advance(backoff - Duration::from_nanos(1));
        assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
        clock.advance(Duration::from_nanos(1));
    }
    let item = queue.try_get().unwrap();
    assert_eq!(item.priority(), 7, "the retry has the priority of the add");
    item.forget();
    assert!(queue.snapshot().is_empty(), "one run covers the add and the retry");
}

#[test]
fn add_in_flight_waits_for_a_respected_reminder() {
    let (queue, clock) = respectful();
    queue.add("a");
    let item = queue.try_get().unwrap();
    queue.add("a");
    item.requeue_after(SECOND);
    assert_eq!(queue.try_get().unwrap_err(), TryGetError::Empty);
    clock.advance(SECOND);
    assert_eq!((take(&queue), take(&queue)), (Some("a"), None));
}

#[test]
fn add_in_flight_survives_cancel_and_shutdown() {
    for is_shut_down in [false, true] {
        let (queue, _clock) = respectful();
        queue.add("a");
        let item = queue.try_get().unwrap();
        queue.add("a");
        queue.add_rate_limited("a");
        if is_shut_down {
            drop(queue.shut_down(ShutdownMode::FinishBacklog));
        } else {
            assert!(queue.cancel(&"a").is_some());
        }
        item.done();
        assert_eq!(take(&queue), Some("a"));
    }
}

#[test]
fn repeatedly_replaced_delay_ends_once() {
    let (queue, clock) = queue();
    for round in 0..10_000 {
        queue.replace_after("a", SECOND + round * MS, DelayKind::Reminder);
    }
    assert_eq!(queue.counts().delayed, 1);
    clock.advance(20 * SECOND);
    assert_eq!((take(&queue), take(&queue)), (Some("a"), None));
}
