//! Who does the work: plain threads, or tasks of tokio.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pintle_ratelimit::{Clock, StdClock, TokioClock};
use pintle_workqueue::{WorkItem, WorkQueue};
use tokio::runtime::Runtime;
use tokio::task;

use super::Setting;
use super::keys::Key;

pub(super) trait Crew {
    /// The clock of the queues that it works on.
    type Clock: Clock + Default;
    type Member;

    /// Takes keys until the queue is shut down, and counts them.
    fn worker<K: Key>(
        &self,
        queue: &WorkQueue<K, Self::Clock>,
        each: impl FnMut(WorkItem<K, Self::Clock>) + Send + 'static,
    ) -> Self::Member;

    /// The same, but is done with a key and takes the next one in one step.
    fn chain<K: Key>(&self, queue: &WorkQueue<K, Self::Clock>) -> Self::Member;

    /// Does nothing with the keys, and takes them in the way of the setting.
    fn taker<K: Key>(&self, queue: &WorkQueue<K, Self::Clock>, how: Setting) -> Self::Member {
        if how.next { self.chain(queue) } else { self.worker(queue, drop) }
    }

    /// Does so many steps, and counts them.
    fn producer(&self, steps: usize, pace: Option<Pace>, each: impl FnMut(usize) + Send + 'static) -> Self::Member;

    /// What the member has counted.
    fn join(&self, member: Self::Member) -> usize;

    fn join_all(&self, members: Vec<Self::Member>) -> usize {
        members.into_iter().map(|member| self.join(member)).sum()
    }
}

/// When the steps of a producer are to begin. One that is late begins at once.
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
        member.join().expect("a thread of the work panicked")
    }
}

/// In tokio's default runtime, which has a worker thread for each CPU that the process may use.
pub(super) struct Tasks(Runtime);

impl Tasks {
    /// `None` where no runtime can be had.
    pub(super) fn new() -> Option<Self> {
        Runtime::new().ok().map(Self)
    }
}

impl Crew for Tasks {
    type Clock = TokioClock;
    type Member = task::JoinHandle<usize>;

    // Nothing here ever waits for the network, so each turn spends of tokio's budget, as a reconciler's would: a task that never
    // let go of its thread would be of no use to anyone.

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
        self.0.block_on(member).expect("a task of the work panicked")
    }
}
