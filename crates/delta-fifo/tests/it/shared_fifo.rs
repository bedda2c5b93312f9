//! Tests that use a `SharedFifo` from several threads and tasks.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;
use pintle_delta_fifo::{
    DeltaFifo, FifoClosed, FifoMetrics, Heap, Item, LatestFifo, Popped, PoppedItem, Queue, RealFifo, RealFifoConfig,
    SharedFifo, SharedFifoConfig,
};

use crate::support::{Known, Thing, fifo, fifo_with, key_of, shorthand, shorthands, thing, things};

type Deltas = DeltaFifo<String, Thing>;
pub(crate) type Real = RealFifo<String, Thing>;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn shared<Q: Queue>(queue: Q) -> SharedFifo<Q> {
    SharedFifo::new(queue, SharedFifoConfig::default())
}

pub(crate) fn atomic() -> Real {
    RealFifo::new(key_of, RealFifoConfig::default())
}

fn pop(fifo: &SharedFifo<Deltas>) -> Result<String, FifoClosed> {
    fifo.process(DeltaFifo::pop, |_, popped| shorthands(&popped.deltas)).wait()
}

fn text(popped: &PoppedItem<String, Thing>) -> String {
    match &popped.item {
        Item::One { delta, .. } => shorthand(delta),
        other => format!("{other:?}"),
    }
}

#[derive(Default)]
pub(crate) struct Count(pub(crate) AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts two producers that add 500 objects each, and checks the order of the popped objects.
fn check_order_of_producers<Q: Queue + Send + 'static>(
    queue: Q,
    add: fn(&mut Q, Thing),
    next: fn(&SharedFifo<Q>) -> Thing,
) {
    let fifo = Arc::new(shared(queue));
    let producers = ["left", "right"].map(|side| {
        let fifo = fifo.clone();
        thread::spawn(move || {
            for number in 0..500 {
                add(&mut fifo.room().wait(), thing(&format!("{side}{number}-"), number));
            }
        })
    });
    let mut expected = [0, 0];
    for _ in 0..1000 {
        let object = next(&fifo);
        let side = usize::from(object.name.starts_with("right"));
        assert_eq!(object.value, expected[side], "{}", object.name);
        expected[side] += 1;
    }
    for producer in producers {
        producer.join().unwrap();
    }
    assert!(fifo.lock().is_empty());
}

#[test]
fn d1_r1_s1_order_of_each_producer_is_kept() {
    check_order_of_producers(
        fifo(),
        |fifo, thing| fifo.add(thing).unwrap(),
        |fifo| {
            fifo.process(DeltaFifo::pop, |_, popped| popped.deltas.oldest().object().cloned()).wait().unwrap().unwrap()
        },
    );
    check_order_of_producers(
        atomic(),
        |fifo, thing| fifo.add(thing).unwrap(),
        |fifo| match fifo.take(RealFifo::pop).wait().unwrap().popped.item {
            Item::One { delta, .. } => delta.object().cloned().unwrap(),
            other => panic!("{other:?}"),
        },
    );
    check_order_of_producers(
        LatestFifo::new(key_of),
        |fifo, thing| fifo.add(thing).unwrap(),
        |fifo| fifo.take(LatestFifo::pop).wait().unwrap().popped.object,
    );
}

fn check_close<Q: Queue + Send + 'static>(queue: Q) {
    let fifo = Arc::new(shared(queue));
    let (done, results) = unbounded();
    for _ in 0..10 {
        let (fifo, done) = (fifo.clone(), done.clone());
        thread::spawn(move || done.send(fifo.process(Q::pop, |_, _| ()).wait()).unwrap());
    }
    fifo.lock().close();
    for _ in 0..10 {
        assert_eq!(results.recv_timeout(PATIENCE), Ok(Err(FifoClosed)));
    }
}

#[test]
fn d27_r1_s1_closing_ends_every_wait() {
    check_close(fifo());
    check_close(atomic());
    check_close(LatestFifo::new(key_of));
    check_close(Heap::new(key_of, |left, right| left.value < right.value));
}

#[test]
fn closed_queue_returns_remaining_items_before_it_ends() {
    let fifo = shared(fifo());
    fifo.lock().add(thing("a", 1)).unwrap();
    fifo.lock().close();
    assert_eq!(pop(&fifo), Ok("A a1".to_owned()));
    assert_eq!(pop(&fifo), Err(FifoClosed));
}

#[test]
fn process_function_can_use_the_queue_argument() {
    let fifo = shared(fifo());
    fifo.lock().add(thing("a", 1)).unwrap();
    let again = |fifo: &mut Deltas, popped: Popped<_, _>| fifo.add_if_not_present(popped.deltas).unwrap();
    fifo.process(DeltaFifo::pop, again).wait().unwrap();
    assert_eq!(pop(&fifo), Ok("A a1".to_owned()));
}

#[test]
fn lock_inside_process_panics() {
    let fifo = shared(fifo());
    fifo.lock().replace(things("a1"), "1").unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| fifo.process(DeltaFifo::pop, |_, _| fifo.lock().len()).wait()));
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("use the queue that is passed to the function"), "{message}");
    assert_eq!(fifo.lock().len(), 0, "the queue stays usable");
    assert!(fifo.synced().wait(), "the lost item counts as processed");
}

#[test]
fn synced_means_processed() {
    let known = Known::default();
    let fifo = Arc::new(shared(fifo_with(&known)));
    fifo.lock().replace(things("a1 b1"), "1").unwrap();
    let (popped, on_popped) = unbounded();
    let (go_on, may_go_on) = unbounded();
    let consumer = thread::spawn({
        let (fifo, known) = (fifo.clone(), known.clone());
        move || {
            for _ in 0..2 {
                let process = |_: &mut Deltas, next: Popped<_, _>| {
                    popped.send(()).unwrap();
                    may_go_on.recv_timeout(PATIENCE).unwrap();
                    known.apply(&next);
                };
                fifo.process(DeltaFifo::pop, process).wait().unwrap();
            }
        }
    });
    on_popped.recv_timeout(PATIENCE).unwrap();
    go_on.send(()).unwrap();
    on_popped.recv_timeout(PATIENCE).unwrap();
    // The consumer has popped the last key, but not processed it yet. Another thread that locks the queue must wait
    // until the key is processed.
    let observer = thread::spawn(move || (fifo.lock().has_synced(), known.objects.lock().unwrap().len()));
    go_on.send(()).unwrap();
    assert_eq!(observer.join().unwrap(), (true, 2));
    consumer.join().unwrap();
}

#[test]
fn r17_queue_syncs_after_last_initial_item_is_processed() {
    let fifo = shared(atomic());
    let mut synced = pin!(fifo.synced());
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    fifo.lock().replace(things("a1 b1"), "1").unwrap();
    let taken = fifo.take(|fifo| fifo.pop_batch(1000)).wait().unwrap();
    assert!(taken.popped.is_in_initial_list);
    assert!(!fifo.lock().has_synced(), "the queue is unlocked, but the item is not processed");
    assert_eq!(synced.as_mut().poll(&mut context), Poll::Pending);
    drop(taken);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(synced.as_mut().poll(&mut context), Poll::Ready(true));
    assert!(fifo.lock().has_synced());
}

#[test]
fn synced_of_a_closed_queue_waits_for_taken_items() {
    let fifo = shared(atomic());
    fifo.lock().replace(things("a1"), "1").unwrap();
    let taken = fifo.take(|fifo| fifo.pop_batch(1000)).wait().unwrap();
    fifo.lock().close();
    let mut synced = pin!(fifo.synced());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(synced.as_mut().poll(&mut context), Poll::Pending);
    drop(taken);
    assert_eq!(synced.as_mut().poll(&mut context), Poll::Ready(true));
}

#[test]
fn r18_producer_waits_at_the_bound() {
    let fifo = shared(atomic());
    fifo.lock().add(thing("first", 0)).unwrap();
    let slow = fifo.take(RealFifo::pop).wait().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for value in 0..2000 {
        let mut room = pin!(fifo.room());
        // Poll twice, because the first poll may return `Pending` only to yield.
        let mut polls = (0..2).map(|_| room.as_mut().poll(&mut context));
        let Some(Poll::Ready(mut room)) = polls.find(Poll::is_ready) else { panic!("blocked at {value}") };
        room.add(thing("a", value)).unwrap();
    }
    let mut blocked = pin!(fifo.room());
    assert!(blocked.as_mut().poll(&mut context).is_pending());
    drop(slow);
    assert!(blocked.as_mut().poll(&mut context).is_pending(), "no item has been taken since");
    drop(fifo.take(RealFifo::pop).wait().unwrap());
    assert!(blocked.as_mut().poll(&mut context).is_ready());

    fifo.lock().add(thing("a", 2000)).unwrap();
    assert!(pin!(fifo.room()).poll(&mut context).is_pending());
    fifo.lock().close();
    assert!(pin!(fifo.room()).poll(&mut context).is_ready(), "a closed queue always has room");
}

fn check_that_it_ends(test: impl FnOnce() + Send + 'static) {
    let (done, end) = unbounded();
    let thread = thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    if end.recv_timeout(PATIENCE).is_err_and(|error| error.is_timeout()) {
        panic!("the test deadlocks");
    }
    thread.join().unwrap();
}

#[test]
fn waiting_producer_gets_room() {
    let fifo = SharedFifo::new(atomic(), SharedFifoConfig { bound: 1, ..SharedFifoConfig::default() });
    fifo.lock().add(thing("a", 0)).unwrap();
    check_that_it_ends(move || {
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(fifo.room());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(fifo.take(RealFifo::pop).wait().unwrap());
        let Poll::Ready(mut room) = waiting.as_mut().poll(&mut context) else { panic!("there is room") };
        // Dropping a future after it is ready must also work, because executors do this.
        drop(waiting);
        room.add(thing("b", 1)).unwrap();
    });
}

#[test]
fn wait_can_be_dropped_while_the_queue_is_locked() {
    let fifo = shared(atomic());
    check_that_it_ends(move || {
        let woken = Arc::new(Count::default());
        let waker = Waker::from(woken.clone());
        let mut waiting = Box::pin(fifo.take(RealFifo::pop));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let mut guard = fifo.lock();
        drop(waiting);
        guard.add(thing("a", 1)).unwrap();
        drop(guard);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "the dropped waiter is not woken");
    });
}

#[test]
fn only_one_consumer_takes_at_a_time() {
    let fifo = shared(atomic());
    for value in [1, 2, 3] {
        fifo.lock().add(thing("a", value)).unwrap();
    }
    fifo.lock().close();
    let mut context = Context::from_waker(Waker::noop());
    let first = fifo.take(RealFifo::pop).wait().unwrap();
    assert_eq!(text(&first.popped), "A a1");
    let mut second = pin!(fifo.take(RealFifo::pop));
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(first);
    let Poll::Ready(Ok(second)) = second.as_mut().poll(&mut context) else { panic!("the first consumer is done") };
    assert_eq!(text(&second.popped), "A a2");
    drop(second);
    assert_eq!(text(&fifo.take(RealFifo::pop).wait().unwrap().popped), "A a3");
    assert!(matches!(fifo.take(RealFifo::pop).wait(), Err(FifoClosed)));
}

#[test]
fn take_panics_for_a_queue_with_known_objects() {
    let fifo = shared(fifo_with(&Known::default()));
    let result = catch_unwind(AssertUnwindSafe(|| drop(fifo.take(DeltaFifo::pop))));
    let message = *result.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("must stay locked"), "{message}");
}

#[test]
fn dropped_wait_takes_nothing_and_passes_wakeup_on() {
    let fifo = shared(atomic());
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    {
        let mut dropped = pin!(fifo.take(RealFifo::pop));
        assert!(dropped.as_mut().poll(&mut context).is_pending());
        assert!(dropped.as_mut().poll(&mut context).is_pending());
    }
    let mut waiting = pin!(fifo.take(RealFifo::pop));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    fifo.lock().add(thing("a", 1)).unwrap();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "reads and dropped waiters cause no wake-up");
    assert_eq!(fifo.lock().len(), 1);
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}

#[test]
fn synced_wakes_after_the_first_list_or_at_close() {
    let known = Known::default();
    let fifo = Arc::new(shared(fifo_with(&known)));
    let waiter = |fifo: &Arc<SharedFifo<Deltas>>| {
        let (fifo, known) = (fifo.clone(), known.clone());
        thread::spawn(move || (fifo.synced().wait(), known.objects.lock().unwrap().len()))
    };
    let waiting = waiter(&fifo);
    fifo.lock().replace(things("a1 b1 c1"), "1").unwrap();
    for _ in 0..3 {
        fifo.process(DeltaFifo::pop, |_, popped| known.apply(&popped)).wait().unwrap();
    }
    assert_eq!(waiting.join().unwrap(), (true, 3));

    let never = Arc::new(shared(fifo_with(&known)));
    let waiting = waiter(&never);
    never.lock().close();
    assert!(!waiting.join().unwrap().0);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<(usize, usize)>>);

impl FifoMetrics for Log {
    fn queued(&self, items: usize) {
        self.0.lock().unwrap().0 = items;
    }

    fn processed(&self, took: Duration) {
        assert!(took < PATIENCE);
        self.0.lock().unwrap().1 += 1;
    }
}

#[test]
fn r16_metrics_report_depth_and_processing_time() {
    let (log, known) = (Log::default(), Known::default());
    let config = || SharedFifoConfig { metrics: Some(Box::new(log.clone())), ..SharedFifoConfig::default() };
    let check = |expected| assert_eq!(*log.0.lock().unwrap(), expected);
    let real = RealFifoConfig { known_objects: Some(Box::new(known.clone())), ..RealFifoConfig::default() };
    let fifo = SharedFifo::new(RealFifo::new(key_of, real), config());
    fifo.lock().add(thing("old", 1)).unwrap();
    check((1, 0));
    fifo.lock().replace(things("foo1 bar1"), "1").unwrap();
    check((4, 0));
    fifo.process(RealFifo::pop, |_, _| ()).wait().unwrap();
    check((3, 1));
    fifo.process(|fifo| fifo.pop_batch(1000), |_, _| ()).wait().unwrap();
    check((0, 2));
    assert!(fifo.lock().is_empty());
    check((0, 2));

    let fifo = SharedFifo::new(atomic(), config());
    fifo.room().wait().replace(things("foo1 bar1"), "1").unwrap();
    let taken = fifo.take(RealFifo::pop).wait().unwrap();
    check((0, 2));
    fifo.lock().add(thing("foo", 2)).unwrap();
    check((1, 2));
    drop(taken);
    check((1, 3));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("no wake-up");
    }
}

#[test]
fn all_waiters_wake_when_one_waker_panics() {
    let (fifo, count) = (shared(fifo()), Arc::new(Count::default()));
    let (bad, good) = (Waker::from(Arc::new(Panics)), Waker::from(Arc::clone(&count)));
    let mut waits: Vec<_> = (0..4).map(|_| Box::pin(fifo.synced())).collect();
    for (wait, waker) in waits.iter_mut().zip([&bad, &good, &bad, &good]) {
        assert!(wait.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| fifo.lock().add(thing("foo", 1)).unwrap())).is_err());
    assert_eq!((count.0.load(Ordering::Relaxed), fifo.lock().len()), (2, 1));
}

struct BadMetrics;

impl FifoMetrics for BadMetrics {
    fn queued(&self, _: usize) {
        panic!("no gauge");
    }

    fn processed(&self, _: Duration) {
        panic!("no histogram");
    }
}

#[test]
fn panicking_metrics_wake_everyone_and_do_not_abort() {
    let config = SharedFifoConfig { metrics: Some(Box::new(BadMetrics)), ..SharedFifoConfig::default() };
    let (fifo, count) = (SharedFifo::new(fifo(), config), Arc::new(Count::default()));
    let waker = Waker::from(Arc::clone(&count));
    let mut waits = pin!(fifo.synced());
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| fifo.lock().add(thing("foo", 1)).unwrap())).is_err());
    assert_eq!((count.0.load(Ordering::Relaxed), fifo.lock().len()), (1, 1));
    let processed = catch_unwind(AssertUnwindSafe(|| {
        fifo.process(DeltaFifo::pop, |_, _| panic!("a bug in the consumer")).wait().map(|(): ()| ())
    }));
    assert_eq!(processed.unwrap_err().downcast_ref::<&str>(), Some(&"a bug in the consumer"));
    assert!(fifo.lock().is_empty());
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic_any(Self);
    }
}

struct PanicsTwice;

impl Wake for PanicsTwice {
    fn wake(self: Arc<Self>) {
        panic_any(PanicsWhenDropped);
    }
}

/// Runs `test` twice, with a panicking waker and with panicking metrics. The queue contains the object `a1`.
fn with_panicking_bystanders(test: fn(&SharedFifo<Real>)) {
    let metrics = SharedFifoConfig { metrics: Some(Box::new(BadMetrics)), ..SharedFifoConfig::default() };
    for config in [SharedFifoConfig::default(), metrics] {
        let mut real = atomic();
        real.replace(things("a1"), "1").unwrap();
        let fifo = SharedFifo::new(real, config);
        let mut synced = pin!(fifo.synced());
        let waker = Waker::from(Arc::new(PanicsTwice));
        assert!(synced.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        test(&fifo);
    }
}

/// The waiters are woken while the thread is already unwinding.
#[test]
fn wakers_can_panic_after_a_panic_of_pop() {
    let fifo = shared(atomic());
    let mut synced = pin!(fifo.synced());
    let waker = Waker::from(Arc::new(PanicsTwice));
    assert!(synced.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let pop = |_: &mut Real| -> Option<()> { panic!("a bug in pop") };
    let taken = catch_unwind(AssertUnwindSafe(|| fifo.take(pop).wait().is_ok()));
    assert_eq!(taken.unwrap_err().downcast_ref::<&str>(), Some(&"a bug in pop"));
    assert!(fifo.lock().is_empty());
}

#[test]
fn take_returns_items_despite_a_panic_elsewhere() {
    with_panicking_bystanders(|fifo| {
        let taken = fifo.take(|fifo| fifo.pop_batch(1000)).wait().unwrap();
        assert_eq!(taken.popped.items.len(), 1);
        let _of_metrics = catch_unwind(AssertUnwindSafe(|| drop(taken)));
        assert!(fifo.lock().has_synced());
        let _of_metrics = catch_unwind(AssertUnwindSafe(|| fifo.lock().close()));
        let mut again = pin!(fifo.take(RealFifo::pop));
        let again = again.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(again, Poll::Ready(Err(FifoClosed))), "no items are claimed any more");
    });
}

#[test]
fn process_returns_its_result_despite_a_panic_elsewhere() {
    with_panicking_bystanders(|fifo| {
        assert_eq!(fifo.process(RealFifo::pop, |_, _| "processed").wait(), Ok("processed"));
        assert!(fifo.lock().has_synced());
    });
}

#[test]
fn pop_function_that_filters_wakes_the_waiters() {
    let config = SharedFifoConfig { bound: 2, ..SharedFifoConfig::default() };
    let (fifo, count) = (SharedFifo::new(atomic(), config), Arc::new(Count::default()));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    fifo.lock().add(thing("a", 1)).unwrap();
    fifo.lock().add(thing("b", 1)).unwrap();
    let mut room = pin!(fifo.room());
    assert!(room.as_mut().poll(&mut context).is_pending());
    let mut taken = pin!(fifo.take(|fifo| fifo.pop().filter(|popped| text(popped) == "A b1")));
    assert!(taken.as_mut().poll(&mut context).is_pending());
    assert_eq!(count.0.load(Ordering::Relaxed), 2, "there is room, and the consumer must look at the next item");
    let Poll::Ready(Ok(taken)) = taken.as_mut().poll(&mut context) else { panic!("the second item matches") };
    assert_eq!(text(&taken.popped), "A b1");
    assert!(room.as_mut().poll(&mut context).is_ready());
}

#[test]
fn pop_function_that_panics_wakes_the_waiters() {
    let config = SharedFifoConfig { bound: 1, ..SharedFifoConfig::default() };
    let (fifo, count) = (SharedFifo::new(atomic(), config), Arc::new(Count::default()));
    let waker = Waker::from(Arc::clone(&count));
    fifo.lock().add(thing("a", 1)).unwrap();
    let mut room = pin!(fifo.room());
    assert!(room.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let pop = |fifo: &mut Real| -> Option<()> { panic!("a bug after {:?}", fifo.pop().is_some()) };
    assert!(catch_unwind(AssertUnwindSafe(|| fifo.take(pop).wait().map(drop))).is_err());
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
}

#[test]
fn popping_an_empty_queue_wakes_synced_only_once() {
    let (fifo, count) = (shared(atomic()), Arc::new(Count::default()));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    fifo.lock().replace(things("a1"), "1").unwrap();
    assert!(fifo.lock().pop().is_some());
    let (mut synced, mut taken) = (pin!(fifo.synced()), pin!(fifo.take(RealFifo::pop)));
    assert!(synced.as_mut().poll(&mut context).is_pending());
    assert!(taken.as_mut().poll(&mut context).is_pending());
    assert_eq!(count.0.load(Ordering::Relaxed), 2, "the popped item counts as processed, and both waits are woken");
    assert!(synced.as_mut().poll(&mut context).is_ready());
    assert!(taken.as_mut().poll(&mut context).is_pending());
    assert_eq!(count.0.load(Ordering::Relaxed), 2, "nothing has changed");
}

#[test]
fn thread_can_lock_the_queue_after_processing() {
    let fifo = Arc::new(shared(fifo()));
    for panics in [false, true] {
        fifo.lock().add(thing("foo", 1)).unwrap();
        let process = || fifo.process(DeltaFifo::pop, |_, _| assert!(!panics, "a bug in the consumer")).wait();
        assert_eq!(catch_unwind(AssertUnwindSafe(process)).is_err(), panics);
        let (holds, held) = unbounded();
        let holder = thread::spawn({
            let fifo = Arc::clone(&fifo);
            move || {
                let guard = fifo.lock();
                holds.send(()).unwrap();
                (0..1000).for_each(|_| thread::yield_now());
                drop(guard);
            }
        });
        held.recv_timeout(PATIENCE).unwrap();
        assert!(fifo.lock().is_empty());
        holder.join().unwrap();
    }
}
