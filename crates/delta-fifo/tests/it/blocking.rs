//! The queue between threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;
use pintle_delta_fifo::{BlockingDeltaFifo, FifoClosed};

use crate::support::{Known, Thing, fifo, fifo_with, shorthands, thing, things};

/// Long enough for any machine; nothing waits for it unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn the_order_of_each_producer_is_kept() {
    let fifo = Arc::new(BlockingDeltaFifo::new(fifo()));
    let producers = ["left", "right"].map(|side| {
        let fifo = fifo.clone();
        thread::spawn(move || {
            for number in 0..500 {
                fifo.lock().add(thing(&format!("{side}{number}-"), number)).unwrap();
            }
        })
    });
    let mut next = [0, 0];
    for _ in 0..1000 {
        let object = fifo.pop(|_, popped| popped.deltas.oldest().object().cloned()).unwrap().unwrap();
        let side = usize::from(object.name.starts_with("right"));
        assert_eq!(object.value, next[side], "{}", object.name);
        next[side] += 1;
    }
    for producer in producers {
        producer.join().unwrap();
    }
    assert!(fifo.lock().is_empty());
}

#[test]
fn closing_ends_every_wait() {
    let fifo = Arc::new(BlockingDeltaFifo::<String, Thing>::new(fifo()));
    let (done, results) = unbounded();
    for _ in 0..10 {
        let (fifo, done) = (fifo.clone(), done.clone());
        thread::spawn(move || done.send(fifo.pop(|_, _| ())).unwrap());
    }
    fifo.lock().close();
    for _ in 0..10 {
        assert_eq!(results.recv_timeout(PATIENCE), Ok(Err(FifoClosed)));
    }
}

#[test]
fn a_closed_queue_gives_what_it_has_before_it_ends() {
    let fifo = BlockingDeltaFifo::new(fifo());
    fifo.lock().add(thing("a", 1)).unwrap();
    fifo.lock().close();
    assert_eq!(fifo.pop(|_, popped| shorthands(&popped.deltas)), Ok("A a1".to_owned()));
    assert_eq!(fifo.pop(|_, _| ()), Err(FifoClosed));
}

#[test]
fn what_processes_may_use_the_queue_that_it_is_given() {
    let fifo = BlockingDeltaFifo::new(fifo());
    fifo.lock().add(thing("a", 1)).unwrap();
    let again = |fifo: &mut pintle_delta_fifo::DeltaFifo<String, Thing>, popped: pintle_delta_fifo::Popped<_, _>| {
        fifo.add_if_not_present(popped.deltas).unwrap();
    };
    fifo.pop(again).unwrap();
    assert_eq!(fifo.pop(|_, popped| shorthands(&popped.deltas)), Ok("A a1".to_owned()));
}

#[test]
fn what_processes_is_told_if_it_would_wait_for_itself() {
    let fifo = BlockingDeltaFifo::new(fifo());
    fifo.lock().add(thing("a", 1)).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| fifo.pop(|_, _| fifo.lock().len())));
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("must use the one that it is given"), "{message}");
    assert_eq!(fifo.lock().len(), 0, "the queue goes on");
}

#[test]
fn synced_means_processed() {
    let known = Known::default();
    let fifo = Arc::new(BlockingDeltaFifo::new(fifo_with(&known)));
    fifo.lock().replace(things("a1 b1"), "1").unwrap();
    let (popped, on_popped) = unbounded();
    let (go_on, may_go_on) = unbounded();
    let consumer = thread::spawn({
        let (fifo, known) = (fifo.clone(), known.clone());
        move || {
            for _ in 0..2 {
                fifo.pop(|_, next| {
                    popped.send(()).unwrap();
                    may_go_on.recv_timeout(PATIENCE).unwrap();
                    known.apply(&next);
                })
                .unwrap();
            }
        }
    });
    on_popped.recv_timeout(PATIENCE).unwrap();
    go_on.send(()).unwrap();
    on_popped.recv_timeout(PATIENCE).unwrap();
    // The last key is popped and not yet processed. Whoever asks now waits for that, and then sees it.
    let observer = thread::spawn(move || (fifo.lock().has_synced(), known.objects.lock().unwrap().len()));
    go_on.send(()).unwrap();
    assert_eq!(observer.join().unwrap(), (true, 2));
    consumer.join().unwrap();
}

#[test]
fn who_waits_for_the_first_list_is_woken_after_it_or_when_there_is_none() {
    let known = Known::default();
    let fifo = Arc::new(BlockingDeltaFifo::new(fifo_with(&known)));
    let waiter = |fifo: &Arc<BlockingDeltaFifo<String, Thing>>| {
        let (fifo, known) = (fifo.clone(), known.clone());
        thread::spawn(move || (fifo.wait_synced(), known.objects.lock().unwrap().len()))
    };
    let waiting = waiter(&fifo);
    fifo.lock().replace(things("a1 b1 c1"), "1").unwrap();
    for _ in 0..3 {
        fifo.pop(|_, popped| known.apply(&popped)).unwrap();
    }
    assert_eq!(waiting.join().unwrap(), (true, 3));

    let never = Arc::new(BlockingDeltaFifo::new(fifo_with(&known)));
    let waiting = waiter(&never);
    never.lock().close();
    assert!(!waiting.join().unwrap().0);
}
