//! The workers and producers of a workload, as threads or tokio tasks.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, StdClock, TokioClock};
use pintle_workqueue::{WorkItem, WorkQueue};
use tokio::runtime::Runtime;
use tokio::task;

use super::Setting;
use super::keys::Key;

pub(super) trait Crew {
    type Clock: Clock + Default;
    type Member;

    /// Starts a worker that gets and counts keys until the queue is shut down.
    fn worker<K: Key>(
        &self,
        queue: &WorkQueue<K, Self::Clock>,
        each: impl FnMut(WorkItem<K, Self::Clock>) + Send + 'static,
    ) -> Self::Member;

    /// Like [`worker`](Self::worker), but finishes a key and gets the next key in one call.
    fn chain<K: Key>(&self, queue: &WorkQueue<K, Self::Clock>) -> Self::Member;

    /// Starts a worker that gets keys and does no work for them. `setting` determines whether it makes one or two
    /// calls per key.
    fn taker<K: Key>(&self, queue: &WorkQueue<K, Self::Clock>, setting: Setting) -> Self::Member {
        if setting.next { self.chain(queue) } else { self.worker(queue, drop) }
    }

    /// Starts a producer that calls the closure `each` `steps` times.
    fn producer(&self, steps: usize, pace: Option<Pace>, each: impl FnMut(usize) + Send + 'static) -> Self::Member;

    /// Waits for a worker or producer to finish, and returns its count.
    fn join(&self, member: Self::Member) -> usize;

    fn join_all(&self, members: Vec<Self::Member>) -> usize {
        members.into_iter().map(|member| self.join(member)).sum()
    }
}

/// The schedule of a producer's calls, where a late call starts immediately.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) first: Instant,
    pub(super) every: Duration,
}

impl Pace {
    fn of(self, step: usize) -> Instant {
        self.first + self.every * step as u32
    }
}

pub(super) struct Threads;

impl Crew for Threads {
    type Clock = StdClock;
    type Member = JoinHandle<usize>;

    fn worker<K: Key>(&self, queue: &WorkQueue<K>, mut each: impl FnMut(WorkItem<K>) + Send + 'static) -> Self::Member {
        let queue = queue.clone();
        thread::spawn(move || std::iter::from_fn(|| queue.blocking_get()).map(&mut each).count())
    }

    fn chain<K: Key>(&self, queue: &WorkQueue<K>) -> Self::Member {
        let queue = queue.clone();
        thread::spawn(move || {
            let (mut gets, mut next) = (0, queue.blocking_get());
            while let Some(item) = next {
                gets += 1;
                next = item.blocking_next();
            }
            gets
        })
    }

    fn producer(&self, steps: usize, pace: Option<Pace>, mut each: impl FnMut(usize) + Send + 'static) -> Self::Member {
        thread::spawn(move || {
            for step in 0..steps {
                if let Some(pace) = pace {
                    thread::sleep(pace.of(step).saturating_duration_since(Instant::now()));
                }
                each(step);
            }
            steps
        })
    }

    fn join(&self, member: Self::Member) -> usize {
        member.join().expect("a thread of the workload panicked")
    }
}

/// Tokio tasks on the default runtime, which has one worker thread per available CPU.
pub(super) struct Tasks(Runtime);

impl Tasks {
    pub(super) fn new() -> Option<Self> {
        Runtime::new().ok().map(Self)
    }
}

impl Crew for Tasks {
    type Clock = TokioClock;
    type Member = task::JoinHandle<usize>;

    // Consume tokio's cooperative budget in each iteration, as a reconciler's I/O does. Without this step, tasks
    // that never wait for I/O would not yield their thread.

    fn worker<K: Key>(
        &self,
        queue: &WorkQueue<K, TokioClock>,
        mut each: impl FnMut(WorkItem<K, TokioClock>) + Send + 'static,
    ) -> Self::Member {
        let queue = queue.clone();
        self.0.spawn(async move {
            let mut gets = 0;
            while let Some(item) = queue.get().await {
                gets += 1;
                each(item);
                task::coop::consume_budget().await;
            }
            gets
        })
    }

    fn chain<K: Key>(&self, queue: &WorkQueue<K, TokioClock>) -> Self::Member {
        let queue = queue.clone();
        self.0.spawn(async move {
            let (mut gets, mut next) = (0, queue.get().await);
            while let Some(item) = next {
                gets += 1;
                next = item.next().await;
                task::coop::consume_budget().await;
            }
            gets
        })
    }

    fn producer(&self, steps: usize, pace: Option<Pace>, mut each: impl FnMut(usize) + Send + 'static) -> Self::Member {
        self.0.spawn(async move {
            for step in 0..steps {
                if let Some(pace) = pace {
                    tokio::time::sleep_until(pace.of(step).into()).await;
                }
                each(step);
                task::coop::consume_budget().await;
            }
            steps
        })
    }

    fn join(&self, member: Self::Member) -> usize {
        self.0.block_on(member).expect("a task of the workload panicked")
    }
}
