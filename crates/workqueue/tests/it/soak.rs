//! Runs all operations concurrently on real threads for a limited time. No key may be lost or in flight twice, and
//! the queue must drain.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pintle_workqueue::ratelimit::{Clock, ExponentialFailureRateLimiter, StdClock, ThreadTimer};
use pintle_workqueue::{QueueConfig, ShutdownMode, WorkQueue};

use crate::watch::ends;

const KEYS: usize = 500;
const TIME: Duration = Duration::from_millis(1500);

/// The latest requested version of a key (`wanted`), and its last processed version (`seen`). At the end of the test,
/// `wanted` must equal `seen`.
#[derive(Default)]
struct Work {
    wanted: AtomicU64,
    seen: AtomicU64,
    held: AtomicBool,
}

fn config<C>(clock: C) -> QueueConfig<usize, C> {
    let limiter = ExponentialFailureRateLimiter::new(Duration::from_micros(50), Duration::from_millis(2));
    QueueConfig { limiter: Box::new(limiter), ..QueueConfig::new(clock) }
}

fn dice(seed: &mut u64, sides: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % sides
}

#[test]
fn soak_on_threads_and_tasks() {
    ends(|| {
        let queue: WorkQueue<usize, ThreadTimer> = WorkQueue::new(config(ThreadTimer::default()));
        let work: Vec<Work> = (0..KEYS).map(|_| Work::default()).collect();
        let handed_out = AtomicUsize::new(0);
        let end = StdClock.now() + TIME;

        let reconcile = |item: pintle_workqueue::WorkItem<usize, ThreadTimer>, seed: &mut u64| {
            let work = &work[*item];
            assert!(!work.held.swap(true, Ordering::SeqCst), "{} is in flight twice", *item);
            handed_out.fetch_add(1, Ordering::Relaxed);
            // Read `wanted` before the key is processed. Every later change of `wanted` adds the key again, so the
            // next call handles the change.
            let wanted = work.wanted.load(Ordering::SeqCst);
            let fails = dice(seed, 10) == 0 && StdClock.now() < end;
            if !fails {
                work.seen.store(wanted, Ordering::SeqCst);
            }
            work.held.store(false, Ordering::SeqCst);
            if fails {
                item.retry();
            } else {
                item.forget();
            }
        };
        thread::scope(|scope| {
            for seed in 0..3 {
                let (queue, reconcile) = (&queue, &reconcile);
                scope.spawn(move || {
                    let mut seed = seed;
                    while let Some(item) = queue.blocking_get() {
                        reconcile(item, &mut seed);
                    }
                });
            }
            // On this thread, drop some of the `get` futures while they wait.
            scope.spawn(|| {
                let mut seed = 99;
                loop {
                    let item = block_on(async {
                        if dice(&mut seed, 3) == 0 {
                            let mut get = std::pin::pin!(queue.get());
                            std::future::poll_fn(|cx| {
                                let polled = get.as_mut().poll(cx);
                                // Poll the `get` future once and drop it. If the future was woken, the queue must
                                // wake another waiter.
                                std::task::Poll::Ready(match polled {
                                    std::task::Poll::Ready(item) => Some(item),
                                    std::task::Poll::Pending => None,
                                })
                            })
                            .await
                        } else {
                            Some(queue.get().await)
                        }
                    });
                    match item {
                        Some(Some(item)) => reconcile(item, &mut seed),
                        Some(None) => return,
                        None => {}
                    }
                }
            });
            thread::scope(|producers| {
                for seed in 0..3 {
                    let (queue, work) = (&queue, &work);
                    producers.spawn(move || {
                        let mut seed = 1000 + seed;
                        while StdClock.now() < end {
                            let key = dice(&mut seed, KEYS as u64) as usize;
                            work[key].wanted.fetch_add(1, Ordering::SeqCst);
                            match dice(&mut seed, 4) {
                                0 => _ = queue.add_after(key, Duration::from_micros(dice(&mut seed, 3000))),
                                _ => queue.add(key),
                            };
                            if dice(&mut seed, 50) == 0 {
                                thread::yield_now();
                            }
                        }
                    });
                }
            });
            while queue.counts().delayed + queue.counts().queued + queue.counts().in_flight > 0 {
                thread::yield_now();
            }
            let report = queue.shut_down(ShutdownMode::FinishBacklog).wait();
            assert!(report.complete && report.queued.is_empty() && report.delayed.is_empty(), "{report:?}");
        });
        for (key, work) in work.iter().enumerate() {
            assert_eq!(work.seen.load(Ordering::SeqCst), work.wanted.load(Ordering::SeqCst), "key {key}");
        }
        assert!(handed_out.into_inner() >= KEYS);
    });
}

fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[test]
fn blocking_and_async_workers_share_one_queue() {
    ends(|| {
        let queue: WorkQueue<usize, ThreadTimer> = WorkQueue::new(config(ThreadTimer::default()));
        for key in 0..1000 {
            queue.add_after(key, Duration::from_micros(key as u64));
        }
        let taken = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(_item) = queue.blocking_get() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
                scope.spawn(|| {
                    block_on(async {
                        while let Some(_item) = queue.get().await {
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                });
            }
            while taken.load(Ordering::Relaxed) < 1000 {
                thread::yield_now();
            }
            drop(queue.shut_down(ShutdownMode::FinishBacklog));
        });
        assert_eq!(taken.into_inner(), 1000);
    });
}
