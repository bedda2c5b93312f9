//! Tests that tasks yield if the futures of a `SharedFifo` are always ready.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use pintle_delta_fifo::RealFifo;

use crate::shared_fifo::{Count, atomic, shared};
use crate::support::thing;

#[test]
fn task_yields_after_128_results_without_waiting() {
    let fifo = shared(atomic());
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    for value in 0..1000 {
        fifo.lock().add(thing("a", value)).unwrap();
    }
    for round in 1..=3 {
        let mut taken = 0;
        while pin!(fifo.take(RealFifo::pop)).poll(&mut context).is_ready() {
            taken += 1;
        }
        assert_eq!((taken, woken.0.load(Ordering::Relaxed)), (128, round), "yields, and is woken at once");
    }
    for _ in 0..128 {
        assert!(pin!(fifo.room()).poll(&mut context).is_ready());
    }
    assert!(pin!(fifo.room()).poll(&mut context).is_pending(), "producers yield too");
    for _ in 0..200 {
        drop(fifo.take(RealFifo::pop).wait().unwrap());
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), 4, "blocking threads do not yield");
}

/// Each round polls two new futures in order until one is ready, like a biased `select!` in a loop.
#[test]
fn select_in_a_loop_yields() {
    let [empty, full, other] = [(); 3].map(|()| shared(atomic()));
    for fifo in [&full, &other] {
        (0..1000).for_each(|value| fifo.lock().add(thing("a", value)).unwrap());
    }
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    for fifos in [[&empty, &full], [&full, &empty], [&full, &other]] {
        let mut waits = || {
            let mut takes = fifos.map(|fifo| Box::pin(fifo.take(RealFifo::pop)));
            takes.iter_mut().all(|take| take.as_mut().poll(&mut context).is_pending())
        };
        assert_eq!((1..1000).find(|_| waits()), Some(129));
    }
    assert!(woken.0.load(Ordering::Relaxed) >= 3, "the task is woken after each yield");
}
