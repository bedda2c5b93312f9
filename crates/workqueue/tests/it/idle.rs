//! Tests that no key waits for more than a millisecond while an idle worker is polled by its executor.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use pintle_workqueue::ratelimit::{Clock, ManualClock, TokenBucket};
use pintle_workqueue::{Get, QueueConfig, ShutdownMode, WorkQueue};

use crate::watch::{Wakes, ends};

type Queue = WorkQueue<usize, ManualClock>;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
}

struct Task<'a> {
    get: Pin<Box<Get<'a, usize, ManualClock>>>,
    wakes: Arc<Wakes>,
}

impl<'a> Task<'a> {
    fn waits(queue: &'a Queue) -> Self {
        let mut task = Self { get: Box::pin(queue.get()), wakes: Arc::default() };
        assert!(task.poll().is_pending());
        task
    }

    fn poll(&mut self) -> Poll<Option<usize>> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.get.as_mut().poll(&mut Context::from_waker(&waker)).map(|item| item.map(|item| *item))
    }

    fn is_woken(&self) -> bool {
        self.wakes.count() > 0
    }
}

fn waiting(queue: &Queue, count: usize) -> Vec<Task<'_>> {
    (0..count).map(|_| Task::waits(queue)).collect()
}

fn woken(tasks: &[Task<'_>]) -> usize {
    tasks.iter().filter(|task| task.is_woken()).count()
}

fn processors() -> usize {
    available_parallelism().unwrap().get()
}

#[test]
fn wakeups_are_limited_by_keys_and_processors() {
    let (queue, _clock) = queue();
    let mut tasks = waiting(&queue, processors() + 3);
    queue.add(0);
    assert_eq!((woken(&tasks), tasks[0].is_woken()), (1, true), "the first waiter");
    queue.add_all(1..100);
    assert_eq!(woken(&tasks), processors());
    for at in 0..3 {
        assert!(tasks[at].poll().is_ready());
        assert_eq!(woken(&tasks), processors() + at + 1);
    }
}

/// No other operation uses the queue during this millisecond.
#[test]
fn another_task_gets_the_key_after_a_millisecond() {
    let (queue, clock) = queue();
    let mut tasks = waiting(&queue, 5);
    queue.add(7);
    clock.advance(MS - Duration::from_nanos(1));
    assert_eq!(woken(&tasks), 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(woken(&tasks), 5);
    assert_eq!(tasks[4].poll(), Poll::Ready(Some(7)));
    assert!(tasks[3].poll().is_pending());
    assert!(tasks[0].poll().is_pending(), "the first task is polled late and waits again");
    queue.add(8);
    assert_eq!(tasks[0].wakes.count(), 2, "the first task keeps its position");
}

/// Each key waits at most a millisecond, although more woken tasks than processors are never polled.
#[test]
fn many_unpolled_tasks_do_not_delay_a_key() {
    let (queue, clock) = queue();
    let _stuck = waiting(&queue, 3 * processors() + 1);
    let mut live = Task::waits(&queue);
    for key in 0..10 {
        queue.add(key);
        clock.advance(MS);
        assert!(live.is_woken(), "key {key}");
        assert_eq!(live.poll(), Poll::Ready(Some(key)));
        live = Task::waits(&queue);
    }
}

#[test]
fn delay_ends_in_time_when_first_waiter_is_unpolled() {
    let (queue, clock) = queue();
    queue.add_after(1, SECOND);
    let (stuck, mut other) = (Task::waits(&queue), Task::waits(&queue));
    clock.advance(SECOND);
    assert!(stuck.is_woken() && !other.is_woken());
    clock.advance(MS);
    assert_eq!(other.poll(), Poll::Ready(Some(1)));
    // A task that began to wait later must also be polled within a millisecond after it was notified.
    queue.add_after(2, SECOND);
    let mut third = Task::waits(&queue);
    clock.advance(SECOND);
    assert!(third.is_woken());
    assert_eq!(third.poll(), Poll::Ready(Some(2)));
}

#[test]
fn late_task_without_a_key_wakes_no_other_task() {
    let (queue, clock) = queue();
    let tasks = waiting(&queue, 3);
    queue.add(1);
    queue.try_get().unwrap().done();
    clock.advance(2 * MS);
    assert_eq!(woken(&tasks), 1);
    assert_eq!(clock.sleepers(), 0, "no deadline is pending");
}

/// The dequeue limit permits only one key, which another task gets. The task that was woken first is never polled.
#[test]
fn unpolled_task_does_not_lose_a_token() {
    let clock = ManualClock::new();
    let dequeue_limit = Some(TokenBucket::new(1.0, 1, clock.now()));
    let queue = WorkQueue::new(QueueConfig { dequeue_limit, ..QueueConfig::new(clock.clone()) });
    let (stuck, mut other) = (Task::waits(&queue), Task::waits(&queue));
    queue.add_all([1, 2]);
    assert!(stuck.is_woken() && !other.is_woken(), "one token is available");
    clock.advance(MS);
    assert_eq!(other.poll(), Poll::Ready(Some(1)));
    let mut third = Task::waits(&queue);
    clock.advance(SECOND);
    assert!(third.is_woken(), "the next token is available");
    assert_eq!(third.poll(), Poll::Ready(Some(2)));
}

#[test]
fn no_timer_is_set_while_no_task_waits() {
    let (queue, clock) = queue();
    queue.add_after(1, SECOND);
    assert_eq!(clock.sleepers(), 0);
    {
        let _tasks = waiting(&queue, 2);
        assert_eq!((clock.sleepers(), clock.next_deadline()), (1, Some(clock.now() + SECOND)));
    }
    assert_eq!(clock.sleepers(), 0, "the waiting tasks are dropped");
    let tasks = waiting(&queue, 2);
    queue.add(2);
    assert_eq!(clock.next_deadline(), Some(clock.now() + MS), "the deadline of the woken task");
    drop(queue.shut_down(ShutdownMode::Abandon));
    assert_eq!((clock.sleepers(), woken(&tasks)), (0, 2));
}

#[test]
fn get_yields_after_128_keys_without_waiting() {
    let (queue, _clock) = queue();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut gave_way = 0;
    for _ in 0..1290 {
        queue.add(1);
        let mut get = Box::pin(queue.get());
        if get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            gave_way += 1;
            assert_eq!(wakes.count(), gave_way, "the yielding task is woken immediately");
            assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        }
    }
    assert_eq!(gave_way, 10);
}

/// Each round polls two new futures in order until one is ready, like a biased `select!` in a loop.
#[test]
fn select_in_a_loop_yields() {
    let ((empty, _clock), (full, _full_clock), (other, _other_clock)) = (queue(), queue(), queue());
    [&full, &other].into_iter().for_each(|queue| queue.add_all(0..1000));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    for queues in [[&empty, &full], [&full, &empty], [&full, &other]] {
        let mut waits = || {
            let mut gets = queues.map(|queue| Box::pin(queue.get()));
            gets.iter_mut().all(|get| get.as_mut().poll(&mut cx).is_pending())
        };
        assert_eq!((1..1000).find(|_| waits()), Some(129));
    }
    assert!(wakes.count() >= 3, "the task is woken after each yield");
}

/// A thread dequeues a key, adds more keys, and blocks until other workers have dequeued these keys.
#[test]
fn keys_do_not_wait_for_a_busy_thread() {
    for keys in [1, 100] {
        ends(move || {
            let queue: WorkQueue<u32> = WorkQueue::default();
            let (taken, all) = channel();
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    let (queue, taken) = (queue.clone(), taken.clone());
                    thread::spawn(move || {
                        while let Some(item) = queue.blocking_get() {
                            if *item != 1000 {
                                taken.send(*item).unwrap();
                                continue;
                            }
                            queue.add_all(0..keys);
                            while queue.counts().queued + queue.counts().in_flight > 1 {
                                thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            queue.add(1000);
            (0..keys).for_each(|_| _ = all.recv().unwrap());
            drop(queue.shut_down(ShutdownMode::FinishBacklog));
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}

/// Both threads and tasks wait for keys of the same queue, and the task that is woken first is never polled.
#[test]
fn thread_dequeues_the_key_of_an_unpolled_task() {
    let (queue, clock) = queue();
    let stuck = Task::waits(&queue);
    thread::scope(|scope| {
        let thread = scope.spawn(|| queue.blocking_get().map(|item| *item));
        while clock.sleepers() == 0 {
            thread::yield_now();
        }
        queue.add(1);
        assert!(stuck.is_woken());
        clock.advance(MS);
        assert_eq!(thread.join().unwrap(), Some(1));
    });
}

/// Waits until the timekeeper has parked until `deadline`. The timekeeper is the waiting thread that wakes up at the
/// next deadline.
fn wait_for_timekeeper(clock: &ManualClock, deadline: Instant) {
    while clock.next_deadline() != Some(deadline) {
        thread::yield_now();
    }
}

#[test]
fn earlier_delay_wakes_the_thread_that_keeps_time() {
    ends(|| {
        let (queue, clock) = queue();
        let now = clock.now();
        queue.add_after(1, 10 * SECOND);
        thread::scope(|scope| {
            let thread = scope.spawn(|| queue.blocking_get().map(|item| *item));
            wait_for_timekeeper(&clock, now + 10 * SECOND);
            queue.add_after(2, SECOND);
            wait_for_timekeeper(&clock, now + SECOND);
            clock.advance(SECOND);
            assert_eq!(thread.join().unwrap(), Some(2));
        });
    });
}

/// A notified thread that finds no key parks until the next deadline. A notified task may never be polled again, so it
/// must not be responsible for the next deadline.
#[test]
fn notified_task_does_not_keep_the_time() {
    ends(|| {
        let (queue, clock) = queue();
        let now = clock.now();
        let stuck = Task::waits(&queue);
        thread::scope(|scope| {
            let thread = scope.spawn(|| queue.blocking_get().map(|item| *item));
            // Wait until the thread has parked without a deadline, so that the test can distinguish the alarm from a
            // wake-up of the thread itself.
            while clock.sleepers() == 0 {
                thread::yield_now();
            }
            queue.add_after(1, 10 * SECOND);
            wait_for_timekeeper(&clock, now + 10 * SECOND);
            queue.add(3);
            assert!(stuck.is_woken());
            assert_eq!(queue.try_get().map(|item| *item), Ok(3));
            queue.add_after(2, SECOND);
            wait_for_timekeeper(&clock, now + SECOND);
            clock.advance(SECOND);
            assert_eq!(thread.join().unwrap(), Some(2));
        });
    });
}
