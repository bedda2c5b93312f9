//! Tests of adds and dropped guards that find the lock contended. Operations in the inbox are applied later, but
//! callers cannot observe the delay.

use pintle_workqueue::{AddOptions, Added, ShutdownMode};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread::{self, JoinHandle};

use crate::{Queue, block_on, explore, join, poll_and_drop, queue, spawn};

fn two_add_four_each(queue: &Queue) -> [JoinHandle<()>; 2] {
    [0, 10].map(|first| spawn(queue, move |queue| (first..first + 4).for_each(|key| queue.add(key))))
}

#[test]
fn no_add_stays_in_the_inbox() {
    explore(|| {
        let (queue, _) = queue();
        let adders = two_add_four_each(&queue);
        for _ in 0..8 {
            assert!(queue.blocking_get().is_some());
        }
        join(adders);
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn finished_add_is_visible_to_later_calls() {
    explore(|| {
        let (queue, _) = queue();
        let adders = [0, 10].map(|first| {
            spawn(&queue, move |queue| {
                for key in first..first + 3 {
                    queue.add(key);
                    assert!(queue.snapshot().into_iter().any(|state| state.key == key));
                }
            })
        });
        join(adders);
        let report = queue.shut_down(ShutdownMode::FinishInFlight).wait();
        assert_eq!(report.queued.len(), 6);
    });
}

/// A key added at the beginning of a shutdown is either rejected or processed, even if the add goes through the inbox.
#[test]
fn accepted_add_is_processed_during_shutdown() {
    explore(|| {
        let (queue, _) = queue();
        let adders = [0, 10, 20].map(|first| {
            spawn(&queue, move |queue| {
                let accepted = |key: &usize| queue.add_with(*key, AddOptions::default()) != Added::ShutDown;
                (first..first + 2).filter(accepted).count()
            })
        });
        let worker = spawn(&queue, |queue| std::iter::from_fn(|| queue.blocking_get()).count());
        let drain = queue.shut_down(ShutdownMode::FinishBacklog);
        let accepted: usize = join(adders).into_iter().sum();
        let report = drain.wait();
        assert_eq!((report.complete, report.refused), (true, 6 - accepted as u64));
        assert_eq!(worker.join().unwrap(), accepted);
    });
}

#[test]
fn keys_keep_the_order_of_their_producer_thread() {
    explore(|| {
        let (queue, _) = queue();
        let adders = two_add_four_each(&queue);
        let taken: Vec<usize> = (0..8).map(|_| *queue.blocking_get().unwrap()).collect();
        join(adders);
        for adder in 0..2 {
            let own: Vec<_> = taken.iter().copied().filter(|key| key / 10 == adder).collect();
            assert!(own.is_sorted(), "{taken:?}");
        }
    });
}

/// Two threads add keys, two threads process keys, and one thread calls `counts`. Every key that was added before this
/// call must be queued, in flight or finished.
#[test]
fn access_sees_every_finished_operation() {
    explore(|| {
        let (queue, _) = queue();
        // The numbers of completed adds, of guards whose drop has begun, and of dropped guards.
        let [added, ending, ended] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let adders = [0, 10].map(|first| {
            let added = Arc::clone(&added);
            spawn(&queue, move |queue| {
                for key in first..first + 2 {
                    queue.add(key);
                    added.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        let workers = [(); 2].map(|()| {
            let (ending, ended) = (Arc::clone(&ending), Arc::clone(&ended));
            spawn(&queue, move |queue| {
                while ended.load(Ordering::SeqCst) < 4 {
                    match queue.try_get() {
                        Ok(item) => {
                            ending.fetch_add(1, Ordering::SeqCst);
                            item.done();
                            ended.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(_) => thread::yield_now(),
                    }
                }
            })
        });
        for _ in 0..3 {
            let (added, ended) = (added.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
            let counts = queue.counts();
            let ending = ending.load(Ordering::SeqCst);
            assert!(added <= counts.queued + counts.in_flight + ending, "{added} of {counts:?}, {ending}");
            assert!(counts.queued + counts.in_flight + ended <= 4, "{counts:?}, {ended}");
        }
        join(adders);
        join(workers);
    });
}

#[test]
fn shutdown_loses_no_late_operation() {
    explore(|| {
        let (queue, _) = queue();
        let adders = [0, 10].map(|first| spawn(&queue, move |queue| (first..first + 2).for_each(|key| queue.add(key))));
        let workers = [(); 2].map(|()| spawn(&queue, |queue| std::iter::from_fn(|| queue.blocking_get()).count()));
        let counter = spawn(&queue, |queue| assert!(queue.counts().in_flight <= 2));
        drop(queue.shut_down(ShutdownMode::FinishBacklog));
        join(adders);
        let report = queue.shut_down(ShutdownMode::FinishBacklog).wait();
        assert!(report.complete && report.queued.is_empty());
        assert_eq!(join(workers).into_iter().sum::<usize>() as u64 + report.refused, 4);
        counter.join().unwrap();
    });
}

#[test]
fn dropped_guards_end_two_drains() {
    explore(|| {
        let (queue, _) = queue();
        [1, 2].into_iter().for_each(|key| queue.add(key));
        let workers = [(); 2].map(|()| {
            let item = queue.try_get().unwrap();
            thread::spawn(move || item.done())
        });
        let drainer = spawn(&queue, |queue| block_on(queue.shut_down(ShutdownMode::FinishInFlight)));
        assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
        assert!(drainer.join().unwrap().complete);
        join(workers);
    });
}

/// Three waiters arrive during an add, and one of these waiters stops waiting.
#[test]
fn new_waiter_is_woken_by_a_late_add() {
    explore(|| {
        let (queue, _) = queue();
        let adders = [1, 2].map(|key| spawn(&queue, move |queue| queue.add(key)));
        let fickle = spawn(&queue, |queue| {
            if poll_and_drop(queue.get(), 1).is_some() {
                queue.add(3);
            }
        });
        let steady = spawn(&queue, |queue| block_on(queue.get()).is_some());
        assert!(queue.blocking_get().is_some());
        assert!(steady.join().unwrap());
        fickle.join().unwrap();
        join(adders);
    });
}
