//! Small tests that replace controller-runtime's benchmarks of the priority queue (row C28 in tests/ROWS.md). The
//! tests in this module do not measure time.

use std::ops::Range;
use std::thread;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{ShutdownMode, TryGetError, WorkQueue};

use crate::priority::config;
use crate::recorder::Recorder;
use crate::watch::ends;

fn numbers() -> WorkQueue<u32, ManualClock> {
    WorkQueue::new(config(ManualClock::new(), &Recorder::default()))
}

fn add_all(queue: &WorkQueue<u32, ManualClock>, keys: Range<u32>) {
    for key in keys {
        queue.add(key);
    }
}

#[test]
fn c28a_add_get_done_of_a_thousand() {
    let queue = numbers();
    for round in 0..10 {
        add_all(&queue, 0..1000);
        let taken: Vec<u32> = (0..1000).map(|_| *queue.try_get().unwrap()).collect();
        assert_eq!(taken, (0..1000).collect::<Vec<_>>(), "round {round}");
        assert_eq!(queue.try_get().err(), Some(TryGetError::Empty));
    }
}

#[test]
fn c28b_adds_alone() {
    let queue = numbers();
    for _ in 0..10 {
        add_all(&queue, 0..1000);
    }
    assert_eq!(queue.len(), 1000);
}

#[test]
fn c28c_adds_against_many_workers() {
    ends(|| {
        const BEFORE: u32 = 20_000;
        const MEANWHILE: u32 = 2000;
        const WORKERS: usize = 64;
        let queue = numbers();
        add_all(&queue, 0..BEFORE);
        let taken: usize = thread::scope(|scope| {
            let workers: Vec<_> =
                (0..WORKERS).map(|_| scope.spawn(|| std::iter::from_fn(|| queue.blocking_get()).count())).collect();
            add_all(&queue, BEFORE..BEFORE + MEANWHILE);
            assert!(queue.shut_down(ShutdownMode::FinishBacklog).wait().complete);
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(taken, (BEFORE + MEANWHILE) as usize);
    });
}
