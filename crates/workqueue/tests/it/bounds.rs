//! What one step may cost, and whom it wakes.

use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{QueueConfig, WorkQueue};

use crate::gate::{Bar, gate};
use crate::watch::Wakes;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue<K: Eq + Send + 'static>() -> (WorkQueue<K, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (WorkQueue::new(QueueConfig::new(clock.clone())), clock)
}

/// Each look queues at most 16, and hands out the one that came due first.
#[test]
fn a_mass_of_keys_that_come_due_is_queued_a_few_at_a_time() {
    let (queue, clock) = queue();
    for key in 0..1000u64 {
        queue.add_after(key, SECOND + Duration::from_nanos(key));
    }
    clock.advance(2 * SECOND);
    let queued = || queue.snapshot().iter().filter(|state| state.dirty).count();
    assert_eq!(queued(), 0, "a picture is no look");
    assert_eq!(*queue.try_get().unwrap(), 0);
    assert_eq!(queued(), 15);
    queue.add(5000);
    assert_eq!(queued(), 16, "an add does not do the work of others");
    assert_eq!(queue.counts().queued, 1000, "who counts sees all");
    let rest: Vec<_> = std::iter::from_fn(|| queue.try_get().ok().map(|item| *item)).collect();
    assert_eq!(rest, (1..16).chain([5000]).chain(16..1000).collect::<Vec<_>>());
}

/// A key whose first copy waits, and each of which is counted.
#[derive(Debug)]
struct Copied {
    number: u32,
    copies: Arc<AtomicUsize>,
    bar: Arc<Mutex<Option<Bar>>>,
}

impl Clone for Copied {
    fn clone(&self) -> Self {
        if let Some(bar) = self.bar.lock().unwrap().take() {
            bar.wait();
        }
        self.copies.fetch_add(1, Ordering::SeqCst);
        Self { number: self.number, copies: Arc::clone(&self.copies), bar: Arc::clone(&self.bar) }
    }
}

impl PartialEq for Copied {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Copied {}

impl Hash for Copied {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// Who adds a key meanwhile gets a turn: it is in the picture.
#[test]
fn a_picture_is_copied_a_few_keys_at_a_time() {
    let (queue, _clock) = queue();
    let ((gate, bar), copies) = (gate(), Arc::<AtomicUsize>::default());
    let bar = Arc::new(Mutex::new(Some(bar)));
    let key = |number| Copied { number, copies: Arc::clone(&copies), bar: Arc::clone(&bar) };
    (0..200).for_each(|number| queue.add(key(number)));
    let states = gate.hold_by(
        || queue.snapshot(),
        || {
            queue.add(key(200));
            gate.open();
        },
    );
    assert_eq!((states.len(), copies.load(Ordering::SeqCst)), (201, 201));
}

/// Records of failures do not outlast their time, whether there are more failures or not.
#[test]
fn expired_failures_are_forgotten_while_somebody_waits() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.keep_failures = Some(SECOND);
    let queue = WorkQueue::new(config);
    for key in 0..1000 {
        queue.add_rate_limited(key);
    }
    clock.advance(SECOND);
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    assert_eq!(queue.counts().idle, 1000);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut get = pin!(queue.get());
    assert!(get.as_mut().poll(&mut cx).is_pending());
    clock.advance(2 * SECOND);
    assert_eq!(wakes.count(), 1, "who waits for a key keeps that time too");
    assert!(get.as_mut().poll(&mut cx).is_pending());
    assert!(queue.snapshot().is_empty());
}

/// What a look fires need not be keys to hand out: failures that expire, or keys that are in flight. Then it looks on.
#[test]
fn what_is_due_is_not_hidden_by_what_else_is() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.keep_failures = Some(SECOND);
    let queue = WorkQueue::new(config);
    (0..100).for_each(|key| _ = queue.add_rate_limited(key));
    clock.advance(MS * 5);
    while let Ok(item) = queue.try_get() {
        item.done();
    }
    (200..300).for_each(|key| queue.add(key));
    let held: Vec<_> = std::iter::from_fn(|| queue.try_get().ok()).collect();
    (200..300).for_each(|key| _ = queue.add_after(key, SECOND));
    queue.add_after(1000, 2 * SECOND);
    clock.advance(2 * SECOND);
    assert_eq!(queue.try_get().map(|item| *item), Ok(1000));
    assert_eq!((queue.counts().idle, queue.counts().redirtied, held.len()), (0, 100, 100));
}

/// One is woken, however many keys come, and the step in which it takes its key wakes the next.
#[test]
fn one_waiter_at_a_time_is_woken() {
    let (queue, _clock) = queue();
    let wakes = [(); 3].map(|()| Arc::new(Wakes::default()));
    let wakers = wakes.clone().map(Waker::from);
    let mut gets = [(); 3].map(|()| Box::pin(queue.get()));
    for (get, waker) in gets.iter_mut().zip(&wakers) {
        assert!(get.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    let woken = || [0, 1, 2].map(|get: usize| wakes[get].count());
    (0..10).for_each(|key| queue.add(key));
    assert_eq!(woken(), [1, 0, 0], "the one who came first");
    for (get, expected) in [(0, [1, 1, 0]), (1, [1, 1, 1])] {
        let polled = gets[get].as_mut().poll(&mut Context::from_waker(&wakers[get]));
        assert!(matches!(polled, Poll::Ready(Some(_))));
        assert_eq!(woken(), expected);
    }
}

/// Somebody else took the key: the waiter that was woken for it waits on, and before all who came later.
#[test]
fn who_waits_on_keeps_the_place() {
    let (queue, _clock) = queue();
    let wakes = [(); 2].map(|()| Arc::new(Wakes::default()));
    let wakers = wakes.clone().map(Waker::from);
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(queue.get()));
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    queue.add(1);
    queue.try_get().unwrap().done();
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    queue.add(2);
    assert_eq!([wakes[0].count(), wakes[1].count()], [2, 0]);
    let Poll::Ready(Some(_)) = first.as_mut().poll(&mut Context::from_waker(&wakers[0])) else { panic!("its turn") };
}

/// A waiter that was woken may not get to run, because its executor is busy with something else.
#[test]
fn a_waiter_that_does_not_come_does_not_hold_up_the_others() {
    let (queue, clock) = queue();
    let wakes = [(); 2].map(|()| Arc::new(Wakes::default()));
    let wakers = wakes.clone().map(Waker::from);
    let [mut stuck, mut other] = [(); 2].map(|()| Box::pin(queue.get()));
    assert!(stuck.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(other.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    queue.add(1);
    clock.advance(MS / 2);
    queue.add(2);
    assert_eq!([wakes[0].count(), wakes[1].count()], [1, 0], "it is given a millisecond");
    clock.advance(MS);
    queue.add(3);
    assert_eq!([wakes[0].count(), wakes[1].count()], [1, 1]);
    let Poll::Ready(Some(item)) = other.as_mut().poll(&mut Context::from_waker(&wakers[1])) else { panic!("a key") };
    assert_eq!(*item, 1);
}

/// A task may keep the future of a get for long and not poll it, though it was woken. The others keep the time, as soon as anything
/// happens.
#[test]
fn a_woken_get_that_does_not_come_is_not_waited_for() {
    let (queue, clock) = queue();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let (mut kept, mut other) = (pin!(queue.get()), pin!(queue.get()));
    assert!(kept.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add(1);
    assert_eq!(queue.try_get().map(|item| *item), Ok(1));
    clock.advance(2 * MS);
    queue.add_after(2, SECOND);
    assert_eq!(wakes.count(), 1, "somebody has to keep the time");
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    clock.advance(SECOND);
    assert_eq!(wakes.count(), 2);
    assert!(matches!(other.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Some(item)) if *item == 2));
}

/// Whoever is to keep the time is woken once, though there is ever more to be early for before it comes.
#[test]
fn one_is_woken_to_keep_the_time() {
    let (queue, clock) = queue();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut gets = [(); 3].map(|()| Box::pin(queue.get()));
    for get in &mut gets {
        assert!(get.as_mut().poll(&mut cx).is_pending());
    }
    clock.advance(2 * MS);
    for key in 0..10 {
        queue.add_after(key, SECOND - MS * key);
    }
    assert_eq!(wakes.count(), 1);
}
