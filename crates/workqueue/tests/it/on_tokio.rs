//! Tests of the queue with tokio's paused clock.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use pintle_workqueue::ratelimit::{StdClock, Timer, TokioClock};
use pintle_workqueue::{Get, ShutdownMode, WorkQueue};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::time::Instant;

use crate::watch::ends;

type Queue = WorkQueue<&'static str, TokioClock>;

const SECOND: Duration = Duration::from_secs(1);

/// Only `Send` futures can run as tasks on tokio's multi-threaded runtime.
#[test]
fn handles_guards_and_futures_are_send() {
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
async fn waiting_get_returns_when_a_delay_ends() {
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
async fn cancelled_get_passes_its_timer_to_another_waiter() {
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
async fn drain_with_a_timeout_reports_remaining_keys() {
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

#[tokio::test]
async fn default_queue_supports_tasks() {
    let queue = WorkQueue::<String>::default();
    queue.add_after("a".to_owned(), Duration::from_millis(1));
    assert_eq!(queue.get().await.map(|item| item.key().clone()), Some("a".to_owned()));
}

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_time().build().unwrap()
}

type Taken = mpsc::Sender<u32>;

type AllTaken = Arc<Mutex<mpsc::Receiver<()>>>;

/// Runs a worker that finishes each key immediately, except for the key `busy`. For `busy`, the worker adds `keys` more
/// keys, and blocks its thread until other workers have dequeued these keys.
async fn work<C: Timer>(queue: WorkQueue<u32, C>, taken: Taken, busy: u32, keys: u32, all_taken: AllTaken) {
    while let Some(item) = queue.get().await {
        if *item != busy {
            taken.send(*item).unwrap();
            continue;
        }
        queue.add_all(0..keys);
        all_taken.lock().unwrap().recv().unwrap();
    }
}

/// The woken task is in the LIFO slot of a blocked runtime thread. Other threads cannot steal tasks from this slot.
fn keys_do_not_wait_for_the_worker_that_computes<C: Timer + Default>() {
    for keys in [1, 2, 100] {
        ends(move || {
            let (runtime, (taken, all), (report_all, all_taken)) = (runtime(4), mpsc::channel(), mpsc::channel());
            let (queue, all_taken) = (WorkQueue::<u32, C>::default(), Arc::new(Mutex::new(all_taken)));
            let workers: Vec<_> = (0..8)
                .map(|_| runtime.spawn(work(queue.clone(), taken.clone(), 1000, keys, Arc::clone(&all_taken))))
                .collect();
            queue.add(1000);
            let mut seen: Vec<u32> = (0..keys).map(|_| all.recv().unwrap()).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..keys));
            report_all.send(()).unwrap();
            drop(queue.shut_down(ShutdownMode::FinishBacklog));
            workers.into_iter().for_each(|worker| runtime.block_on(worker).unwrap());
        });
    }
}

#[test]
fn keys_do_not_wait_for_a_blocked_tokio_worker() {
    keys_do_not_wait_for_the_worker_that_computes::<TokioClock>();
}

#[test]
fn blocked_worker_delays_no_keys_with_default_clock() {
    keys_do_not_wait_for_the_worker_that_computes::<StdClock>();
}

/// The `get` of the first waiter is never polled, because another branch of its `select!` blocks the thread.
#[test]
fn keys_do_not_wait_for_a_blocked_select() {
    ends(|| {
        let (runtime, (taken, all)) = (runtime(4), mpsc::channel());
        let queue = WorkQueue::<u32, TokioClock>::default();
        let all_taken = Arc::new(Mutex::new(mpsc::channel().1));
        let (begin, begun) = oneshot::channel::<()>();
        let ((tell_listed, listed), (finish, finished)) = (mpsc::channel(), mpsc::channel::<()>());
        let selects = runtime.spawn({
            let queue = queue.clone();
            async move {
                let computes = async move {
                    tell_listed.send(()).unwrap();
                    begun.await.unwrap();
                    tell_listed.send(()).unwrap();
                    finished.recv().unwrap();
                };
                tokio::select! {
                    biased;
                    _ = queue.get() => {}
                    () = computes => {}
                }
            }
        });
        listed.recv().unwrap();
        for _ in 0..2 {
            runtime.spawn(work(queue.clone(), taken.clone(), u32::MAX, 0, Arc::clone(&all_taken)));
        }
        begin.send(()).unwrap();
        listed.recv().unwrap();
        for key in 0..20 {
            queue.add(key);
            assert_eq!(all.recv(), Ok(key));
        }
        finish.send(()).unwrap();
        runtime.block_on(selects).unwrap();
        drop(queue.shut_down(ShutdownMode::Abandon));
    });
}

/// The queue uses the timer of the first worker's runtime, and the test shuts this runtime down.
#[test]
fn delay_ends_although_its_runtime_has_shut_down() {
    ends(|| {
        let queue = WorkQueue::<u32, TokioClock>::default();
        let first = runtime(1);
        let waits = first.spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| *item) }
        });
        queue.add(1);
        assert_eq!(first.block_on(waits).unwrap(), Some(1));
        let waits = first.spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| *item) }
        });
        queue.add_after(2, Duration::from_millis(20));
        first.shutdown_background();
        drop(waits);
        let second = runtime(1);
        assert_eq!(second.block_on(async { queue.get().await.map(|item| *item) }), Some(2));
    });
}

/// A thread outside of any runtime adds a key with a shorter delay, so the waiting task's timer must fire earlier.
#[test]
fn thread_outside_the_runtime_sets_its_timer() {
    ends(|| {
        let (runtime, queue) = (runtime(1), WorkQueue::<u32, TokioClock>::default());
        let waits = runtime.spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| *item) }
        });
        queue.add_after(1, 3600 * SECOND);
        queue.add_after(2, Duration::from_millis(1));
        assert_eq!(runtime.block_on(waits).unwrap(), Some(2));
    });
}

#[tokio::test]
async fn get_uses_the_cooperative_budget() {
    let queue = WorkQueue::<u32, TokioClock>::default();
    queue.add_all(0..100);
    let worker = tokio::spawn(async move {
        for _ in 0..12_800 {
            let item = queue.get().await.unwrap();
            queue.add(*item);
        }
    });
    let mut runs = 0;
    while !worker.is_finished() {
        runs += 1;
        tokio::task::yield_now().await;
    }
    assert!(runs >= 100, "{runs} runs during 12,800 keys");
}

async fn spend_budget() {
    while has_budget_remaining() {
        consume_budget().await;
    }
}

fn waiting_workers(runtime: &Runtime, queue: &WorkQueue<u32, TokioClock>, count: usize) -> mpsc::Receiver<u32> {
    let ((taken, all), (tell_listed, listed)) = (mpsc::channel(), mpsc::channel());
    for _ in 0..count {
        let (queue, taken, tell_listed) = (queue.clone(), taken.clone(), tell_listed.clone());
        runtime.spawn(async move {
            let mut get = pin!(queue.get());
            assert!(poll_once(&mut get).await.is_pending());
            tell_listed.send(()).unwrap();
            let mut next = get.await;
            while let Some(item) = next {
                taken.send(*item).unwrap();
                next = item.next().await;
            }
        });
    }
    (0..count).for_each(|_| listed.recv().unwrap());
    all
}

async fn poll_once<'a>(get: &mut Pin<&mut Get<'a, u32, TokioClock>>) -> Poll<Option<u32>> {
    poll_fn(|cx| Poll::Ready(get.as_mut().poll(cx).map(|item| item.map(|item| *item)))).await
}

/// A task in `block_on` of a multi-threaded runtime has exhausted its cooperative budget. Without any budget left, a
/// tokio sleep calls its waker while it is being polled. In this test, the waker is the queue's alarm.
#[test]
fn add_after_without_budget_in_block_on_works() {
    ends(|| {
        let (runtime, queue) = (runtime(1), WorkQueue::<u32, TokioClock>::default());
        let all = waiting_workers(&runtime, &queue, 4);
        runtime.block_on(async {
            spend_budget().await;
            queue.add_after(1, Duration::from_millis(1));
        });
        assert_eq!(all.recv(), Ok(1));
    });
}

/// The woken task is in the LIFO slot of the blocked thread, so only the alarm can wake another worker. The task that
/// sets the alarm has no cooperative budget left.
#[test]
fn keys_do_not_wait_for_a_worker_without_budget() {
    ends(|| {
        let (runtime, queue) = (runtime(4), WorkQueue::<u32, TokioClock>::default());
        let all = waiting_workers(&runtime, &queue, 8);
        let adds = runtime.spawn(async move {
            spend_budget().await;
            queue.add(1);
            all.recv()
        });
        assert_eq!(runtime.block_on(adds).unwrap(), Ok(1));
    });
}

fn single_threaded_runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Starts a task that waits for a key, and that its executor polls only after it was woken.
fn waiting_task(runtime: &Runtime, queue: &WorkQueue<u32, TokioClock>) -> JoinHandle<Option<u32>> {
    let queue = queue.clone();
    let waits = runtime.spawn(async move { queue.get().await.map(|item| *item) });
    runtime.block_on(tokio::task::yield_now());
    waits
}

/// A task on one runtime has set the alarm, but another task blocks this runtime's thread. A task on another runtime
/// starts to wait for a key only afterwards.
#[test]
fn delay_ends_while_another_runtime_is_not_driven() {
    ends(|| {
        let (idle, busy) = (single_threaded_runtime(), single_threaded_runtime());
        let queue = WorkQueue::<u32, TokioClock>::default();
        let mut stuck = pin!(queue.get());
        assert!(busy.block_on(poll_once(&mut stuck)).is_pending());
        queue.add_after(1, Duration::from_millis(1));
        assert_eq!(idle.block_on(async { queue.get().await.map(|item| *item) }), Some(1));
    });
}

/// The task that was the last to wait has set the alarm. The test then cancels this task's `get` and blocks the thread
/// of its runtime.
#[test]
fn cancelled_get_passes_the_alarm_to_another_runtime() {
    ends(|| {
        let (idle, busy) = (single_threaded_runtime(), single_threaded_runtime());
        let queue = WorkQueue::<u32, TokioClock>::default();
        let waits = waiting_task(&idle, &queue);
        {
            let mut cancelled = pin!(queue.get());
            assert!(busy.block_on(poll_once(&mut cancelled)).is_pending());
            queue.add_after(1, Duration::from_millis(1));
        }
        assert_eq!(idle.block_on(waits).unwrap(), Some(1));
    });
}

/// First, a task waits for a key on each of an idle and a busy runtime, and later a second task waits on the idle
/// runtime.
#[test]
fn alarm_moves_to_the_runtime_that_waited_last() {
    ends(|| {
        let (idle, busy) = (single_threaded_runtime(), single_threaded_runtime());
        let queue = WorkQueue::<u32, TokioClock>::default();
        let first = waiting_task(&idle, &queue);
        let mut stuck = pin!(queue.get());
        assert!(busy.block_on(poll_once(&mut stuck)).is_pending());
        queue.add_after(1, Duration::from_millis(1));
        let _second = waiting_task(&idle, &queue);
        assert_eq!(idle.block_on(first).unwrap(), Some(1));
    });
}

/// The added key wakes the task on the busy runtime. A millisecond later, the idle runtime's timer wakes the task on
/// the idle runtime.
#[test]
fn key_does_not_wait_for_a_runtime_not_driven() {
    ends(|| {
        let (idle, busy) = (single_threaded_runtime(), single_threaded_runtime());
        let queue = WorkQueue::<u32, TokioClock>::default();
        let mut stuck = pin!(queue.get());
        assert!(busy.block_on(poll_once(&mut stuck)).is_pending());
        let waits = waiting_task(&idle, &queue);
        queue.add(1);
        assert_eq!(idle.block_on(waits).unwrap(), Some(1));
    });
}

/// Without delayed keys, the queue needs no timer, and adding a key must still wake the workers.
#[test]
fn workers_survive_a_runtime_without_a_time_driver() {
    ends(|| {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let queue = WorkQueue::<u32, TokioClock>::default();
        let all = waiting_workers(&runtime, &queue, 8);
        for key in 0..50 {
            queue.add(key);
            assert_eq!(all.recv(), Ok(key));
        }
    });
}
