//! Tests that the queue wakes every caller that waits for a key or for the end of a shutdown.

use pintle_workqueue::ShutdownMode;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::{block_on, explore, join, poll_and_drop, queue, spawn};

#[test]
fn every_getter_is_woken_for_a_key() {
    explore(|| {
        let (queue, _) = queue();
        let getters = [0, 1, 2].map(|getter| {
            spawn(&queue, move |queue| match getter {
                0 => block_on(queue.get()).is_some(),
                _ => queue.blocking_get().is_some(),
            })
        });
        let adder = spawn(&queue, |queue| {
            queue.add(1);
            queue.add(2);
        });
        queue.add(3);
        adder.join().unwrap();
        assert_eq!(join(getters), [true; 3]);
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn cancelled_get_passes_its_wakeup_on() {
    explore(|| {
        let (queue, _) = queue();
        let fickle = spawn(&queue, |queue| poll_and_drop(queue.get(), 2).is_some());
        let steady = spawn(&queue, |queue| queue.blocking_get().is_some());
        queue.add(1);
        let taken = fickle.join().unwrap();
        if taken {
            // The first thread has dequeued and finished the key, so add another key for the other thread.
            queue.add(2);
        }
        assert!(steady.join().unwrap());
    });
}

#[test]
fn workers_using_next_finish_the_backlog() {
    explore(|| {
        let (queue, _) = queue();
        let workers = [0, 1, 2].map(|worker| {
            spawn(&queue, move |queue| {
                let (mut taken, mut next) = (0, queue.blocking_get());
                while let Some(item) = next {
                    taken += 1;
                    next = match worker {
                        0 => item.blocking_next(),
                        1 => block_on(item.next()),
                        _ => {
                            item.done();
                            queue.blocking_get()
                        }
                    };
                }
                taken
            })
        });
        (0..3).for_each(|key| queue.add(key));
        let held = queue.try_get().ok();
        held.iter().for_each(|item| queue.add(**item));
        drop(held);
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
        assert_eq!((join(workers).into_iter().sum::<usize>(), queue.counts().depth()), (3, 0));
    });
}

/// Drops the `next` future, with or without polling it first. Dropping the future marks the worker's
/// key as done, and no other worker misses a wake-up.
#[test]
fn cancelled_next_marks_its_key_as_done() {
    explore(|| {
        let (queue, _) = queue();
        [1, 2].into_iter().for_each(|key| queue.add(key));
        let fickle = [0, 1].map(|polls| {
            let item = queue.try_get().unwrap();
            thread::spawn(move || poll_and_drop(item.next(), polls).is_some())
        });
        let steady = spawn(&queue, |queue| queue.blocking_get().is_some());
        queue.add(3);
        if join(fickle).contains(&true) {
            queue.add(4);
        }
        assert!(steady.join().unwrap());
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
    });
}

#[test]
fn all_drainers_are_woken_and_all_getters_leave() {
    explore(|| {
        let (queue, _) = queue();
        queue.add(1);
        queue.add(2);
        let workers = [(); 2].map(|()| {
            spawn(&queue, |queue| {
                while let Some(item) = queue.blocking_get() {
                    if *item == 1 {
                        queue.add(1);
                    }
                    if queue.is_shutting_down() {
                        continue;
                    }
                    thread::yield_now();
                }
            })
        });
        let drainers = [0, 1].map(|drainer| {
            spawn(&queue, move |queue| {
                let drain = queue.shut_down(ShutdownMode::FinishBacklog);
                if drainer == 0 { block_on(drain) } else { drain.wait() }
            })
        });
        for report in join(drainers) {
            assert!(report.complete && report.queued.is_empty() && report.in_flight.is_empty());
        }
        join(workers);
    });
}

#[test]
fn stricter_shutdown_ends_a_stuck_drain() {
    explore(|| {
        let (queue, _) = queue();
        queue.add(1);
        let held = queue.try_get().unwrap();
        let drainer = spawn(&queue, |queue| queue.shut_down(ShutdownMode::FinishBacklog).wait());
        drop(queue.shut_down(ShutdownMode::Abandon));
        assert_eq!(drainer.join().unwrap().in_flight, [1]);
        drop(held);
    });
}

#[test]
fn cancelled_drain_does_not_consume_another_drains_wakeup() {
    explore(|| {
        let (queue, _) = queue();
        queue.add(1);
        let held = queue.try_get().unwrap();
        let fickle = spawn(&queue, |queue| drop(poll_and_drop(queue.shut_down(ShutdownMode::FinishInFlight), 2)));
        let steady = spawn(&queue, |queue| queue.shut_down(ShutdownMode::FinishInFlight).wait().complete);
        drop(held);
        assert!(steady.join().unwrap());
        fickle.join().unwrap();
    });
}

#[test]
fn one_worker_per_key_and_no_lost_adds() {
    explore(|| {
        let (queue, _) = queue();
        let held = Arc::new(AtomicUsize::new(0));
        let (wanted, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let workers = [(); 2].map(|()| {
            let (held, wanted, seen) = (Arc::clone(&held), Arc::clone(&wanted), Arc::clone(&seen));
            spawn(&queue, move |queue| {
                while let Some(_item) = queue.blocking_get() {
                    assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "in flight twice");
                    seen.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst);
                    thread::yield_now();
                    held.fetch_sub(1, Ordering::SeqCst);
                }
            })
        });
        for _ in 0..3 {
            wanted.fetch_add(1, Ordering::SeqCst);
            queue.add(1);
        }
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
        join(workers);
        assert_eq!(seen.load(Ordering::SeqCst), 3);
    });
}
