//! Where adds are left that found the queue taken.

use std::collections::VecDeque;
use std::mem;

use crate::engine::{Added, Engine};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Adds that found the queue taken.
///
/// While the inbox is open, an add does not wait for the lock of the queue: it leaves its key here, under a lock that is held for
/// a moment only, and whoever locks the queue next makes the add before doing anything else. So nobody can tell. Where many
/// threads add and many take, the queue stays in the cache of one processor for many steps, and those who add do not sleep.
///
/// It is never open if it matters when exactly an add is made: for metrics, and for an order that needs the time.
///
/// # How no key is left lying
///
/// Those who wait in `get` do not lock the queue. So the inbox is closed before anybody begins to wait, and emptied then: an
/// add that came before that is seen by the waiter, and one that comes after it has to lock the queue, and wakes the waiter.
/// It stays closed once the queue is shutting down, which has to refuse adds.
pub(super) struct Inbox<K> {
    content: Mutex<Content<K>>,
    /// Whether there is anything. Written under the lock of `content`, or that of the queue; whoever reads it without sees what
    /// has been left by the same thread, and by those whom it has heard of since.
    any: AtomicBool,
}

struct Content<K> {
    open: bool,
    adds: VecDeque<Late<K>>,
    /// [`Late::make`]: a pointer, since not all who lock the queue know how keys are compared.
    make: Option<Make<K>>,
}

type Make<K> = fn(Late<K>, &mut Engine<K>, u64) -> (Added, Option<K>);

/// An add that is accepted and not yet made.
pub(super) struct Late<K> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) priority: i32,
}

/// How many adds there may be. Who finds no room waits for the queue, so nobody is late by more than some ten microseconds of
/// others' adds.
const ROOM: usize = if cfg!(pintle_shuttle) { 2 } else { 256 };

impl<K> Inbox<K> {
    pub(super) fn new(open: bool) -> Self {
        let content = Content { open, adds: VecDeque::new(), make: None };
        Self { content: Mutex::new(content), any: AtomicBool::new(false) }
    }

    pub(super) fn set_open(&self, open: bool) {
        self.content.lock().open = open;
    }

    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Makes all adds that have been left. Gives back the keys that there is no use for, if it matters when they are dropped.
    ///
    /// `arrivals` are those that are on their way: none, but for those behind one that panicked.
    #[cold]
    pub(super) fn empty(&self, arrivals: &mut VecDeque<Late<K>>, engine: &mut Engine<K>, now: u64) -> Vec<K> {
        let mut content = self.content.lock();
        if arrivals.is_empty() {
            mem::swap(arrivals, &mut content.adds);
        } else {
            arrivals.append(&mut content.adds);
        }
        self.any.store(false, Ordering::Relaxed);
        let make = content.make;
        drop(content);

        let mut unused = Vec::new();
        let rest = Rest { arrivals, any: &self.any };
        while let (Some(add), Some(make)) = (rest.arrivals.pop_front(), make) {
            let (_, key) = make(add, engine, now);
            if mem::needs_drop::<K>() {
                unused.extend(key);
            }
        }
        unused
    }
}

impl<K: Eq> Inbox<K> {
    /// Leaves an add, or gives it back if there is no room or the inbox is closed.
    pub(super) fn leave(&self, add: Late<K>) -> Result<(), Late<K>> {
        let mut content = self.content.lock();
        if !content.open || content.adds.len() >= ROOM {
            return Err(add);
        }
        content.adds.push_back(add);
        content.make = Some(Late::make);
        self.any.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl<K: Eq> Late<K> {
    /// Makes the add. Gives back the key if there is no use for it.
    pub(super) fn make(self, engine: &mut Engine<K>, now: u64) -> (Added, Option<K>) {
        engine.add(self.hash, self.key, self.priority, now)
    }
}

/// Sees to it that a panic in the `Eq` of a key concerns no other add.
struct Rest<'a, K> {
    arrivals: &'a mut VecDeque<Late<K>>,
    any: &'a AtomicBool,
}

impl<K> Drop for Rest<'_, K> {
    fn drop(&mut self) {
        if !self.arrivals.is_empty() {
            self.any.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(pintle_shuttle)))]
mod tests {
    use std::cell::Cell;
    use std::hash::{Hash, Hasher};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::rc::Rc;
    use std::sync::{Arc, Weak};
    use std::task::{Context, Wake, Waker};
    use std::time::Duration;

    use pintle_ratelimit::{Clock, StdClock, ThreadTimer};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Queue, Shared, ShutdownMode};
    use super::*;
    use crate::config::QueueConfig;
    use crate::order::Priority;

    /// Adds as somebody does who finds the queue taken.
    fn add_late<K: Hash + Eq, C: Clock>(queue: &Queue<K, C>, key: K) -> Added {
        let _taken = queue.shared.state.try_lock();
        queue.add(key)
    }

    fn is_open<C: Clock>(queue: &Queue<u32, C>) -> bool {
        queue.shared.inbox.content.lock().open
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u32),
        AddLate(u32),
        Get,
        Done(usize),
        Count,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (0..12u32).prop_map(Step::Add),
            4 => (0..12u32).prop_map(Step::AddLate),
            2 => Just(Step::Get),
            2 => any::<usize>().prop_map(Step::Done),
            1 => Just(Step::Count),
        ]
    }

    proptest! {
        /// Two queues go through the same; one of them is always free.
        #[test]
        fn nobody_can_tell_a_late_add(steps in vec(step(), 1..100)) {
            let (free, taken): (Queue<u32>, Queue<u32>) = (Queue::default(), Queue::default());
            let mut held = Vec::new();
            for step in steps {
                match step {
                    Step::Add(key) => prop_assert_eq!(free.add(key), taken.add(key)),
                    Step::AddLate(key) => {
                        free.add(key);
                        prop_assert_eq!(add_late(&taken, key), Added::Accepted);
                    }
                    Step::Get => match (free.try_get(), taken.try_get()) {
                        (Ok(one), Ok(other)) => {
                            prop_assert_eq!(*one, *other);
                            held.push((one, other));
                        }
                        (one, other) => prop_assert!(one.is_err() && other.is_err()),
                    },
                    Step::Done(at) if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                    Step::Done(_) => {}
                    Step::Count => prop_assert_eq!(free.counts(), taken.counts()),
                }
            }
        }
    }

    #[test]
    fn it_is_closed_while_somebody_waits() {
        let queue: Queue<u32, ThreadTimer> = Queue::default();
        let mut get = Box::pin(queue.get());
        assert!(get.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!is_open(&queue));
        queue.add(1);
        assert!(is_open(&queue), "the one who waited is woken");
        let mut other = pin!(queue.get());
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(get.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!is_open(&queue));
        drop(get);
        assert!(is_open(&queue), "the one who waited is gone");
    }

    #[test]
    fn a_shutdown_refuses_no_add_that_was_accepted() {
        let queue: Queue<u32> = Queue::default();
        assert_eq!(add_late(&queue, 1), Added::Accepted);
        let drain = queue.shut_down(ShutdownMode::FinishInFlight);
        assert!(!is_open(&queue));
        let report = drain.wait();
        assert_eq!((report.queued, report.refused), (vec![1], 0));
    }

    #[test]
    fn it_is_closed_if_the_time_of_an_add_matters() {
        let config =
            QueueConfig { order: Box::new(Priority::with_ageing(Duration::from_secs(1))), ..Default::default() };
        let queue: Queue<u32> = Queue::new(config);
        assert!(!is_open(&queue));
    }

    #[test]
    fn it_has_room_for_so_many() {
        let queue: Queue<u32> = Queue::default();
        (0..ROOM as u32).for_each(|key| assert_eq!(add_late(&queue, key), Added::Accepted));
        let add = Late { hash: 0, key: 0, priority: 0 };
        assert!(queue.shared.inbox.leave(add).is_err());
        assert_eq!(queue.len(), ROOM);
    }

    thread_local! {
        static PANICS: Cell<bool> = const { Cell::new(false) };
    }

    #[derive(Clone)]
    struct Touchy(u32);

    impl PartialEq for Touchy {
        fn eq(&self, other: &Self) -> bool {
            assert!(!PANICS.get(), "touchy");
            self.0 == other.0
        }
    }

    impl Eq for Touchy {}

    impl Hash for Touchy {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn a_panic_in_eq_concerns_no_other_add() {
        let queue: Queue<Touchy> = Queue::default();
        queue.add(Touchy(1));
        for key in [1, 2, 3] {
            add_late(&queue, Touchy(key));
        }
        PANICS.set(true);
        assert!(catch_unwind(AssertUnwindSafe(|| queue.len())).is_err());
        PANICS.set(false);
        assert_eq!(queue.len(), 3);
    }

    #[test]
    fn a_panic_in_eq_keeps_no_worker_from_being_done() {
        let queue: Queue<Touchy> = Queue::default();
        queue.add(Touchy(1));
        let item = queue.blocking_get().unwrap_or_else(|| unreachable!("one is queued"));
        for key in [1, 2] {
            add_late(&queue, Touchy(key));
        }
        PANICS.set(true);
        drop(item);
        PANICS.set(false);
        let counts = queue.counts();
        assert_eq!((counts.in_flight, counts.queued), (0, 1));
    }

    /// A `get` that was woken and is dropped has to pass that on.
    #[test]
    fn a_panic_in_eq_keeps_no_waiter_from_leaving() {
        let queue: Queue<Touchy, ThreadTimer> = Queue::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut woken = Box::pin(queue.get());
        assert!(woken.as_mut().poll(&mut context).is_pending());
        queue.add(Touchy(1));
        add_late(&queue, Touchy(1));
        PANICS.set(true);
        drop(woken);
        PANICS.set(false);
        drop(queue.try_get());
        let (told, waker) = Told::new();
        let mut other = pin!(queue.get());
        assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        queue.add(Touchy(2));
        assert!(told.0.load(Ordering::Relaxed), "the one who left counts as woken");
    }

    #[derive(Default)]
    struct Told(AtomicBool);

    impl Told {
        fn new() -> (Arc<Self>, Waker) {
            let told = Arc::new(Self::default());
            (Arc::clone(&told), Waker::from(told))
        }
    }

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    struct Counted {
        queue: Weak<Shared<Counted, StdClock>>,
        drops: Rc<Cell<usize>>,
    }

    impl PartialEq for Counted {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.drops.set(self.drops.get() + 1);
            if let Some(queue) = self.queue.upgrade() {
                assert!(queue.state.try_lock().is_some(), "dropped under the lock");
            }
        }
    }

    #[test]
    fn keys_that_nobody_needs_are_dropped_outside_of_the_lock() {
        let drops = Rc::new(Cell::new(0));
        let queue: Queue<Counted> = Queue::default();
        let key = || Counted { queue: Arc::downgrade(&queue.shared), drops: Rc::clone(&drops) };
        queue.add(key());
        (0..3).for_each(|_| assert_eq!(add_late(&queue, key()), Added::Accepted));
        assert_eq!(drops.get(), 0);
        assert_eq!((queue.len(), drops.get()), (1, 3));
    }
}
