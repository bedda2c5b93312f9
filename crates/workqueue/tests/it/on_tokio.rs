//! The queue under tokio, with its paused clock.

use std::time::Duration;

use pintle_workqueue::ratelimit::TokioClock;
use pintle_workqueue::{ShutdownMode, WorkQueue};
use tokio::time::Instant;

type Queue = WorkQueue<&'static str, TokioClock>;

const SECOND: Duration = Duration::from_secs(1);

/// What a multi-threaded runtime asks of what its tasks hold.
#[test]
fn handles_guards_and_futures_may_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_sync<T: Sync>(_: &T) {}
    let queue = Queue::default();
    queue.add("a");
    is_send(&queue);
    is_sync(&queue);
    is_send(&queue.get());
    is_send(&queue.try_get().unwrap());
    is_send(&queue.shut_down(ShutdownMode::Abandon));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_get_keeps_the_time_itself() {
    let queue = Queue::default();
    let start = Instant::now();
    queue.add_after("b", 2 * SECOND);
    queue.add_after("a", SECOND);
    assert_eq!(*queue.get().await.unwrap(), "a");
    assert_eq!(start.elapsed(), SECOND);
    assert_eq!(*queue.get().await.unwrap(), "b");
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_get_hands_its_timer_to_another_waiter() {
    let queue = Queue::default();
    queue.add_after("a", SECOND);
    let keeper = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    keeper.abort();
    assert_eq!(tokio::time::timeout(2 * SECOND, other).await.unwrap().unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_drain_with_a_timeout_says_what_is_left() {
    let queue = Queue::default();
    queue.add("a");
    queue.add("b");
    queue.add_after("c", SECOND);
    let held = queue.get().await.unwrap();
    let report = queue.shut_down(ShutdownMode::FinishBacklog).with_timeout(SECOND).await;
    assert!(!report.complete);
    assert_eq!((report.queued, report.delayed, report.in_flight), (vec!["b"], vec!["c"], vec!["a"]));
    drop(held);
    assert!(queue.shut_down(ShutdownMode::FinishInFlight).await.complete);
}
