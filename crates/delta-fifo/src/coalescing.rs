//! The queue that keeps one change a key.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A queue that holds at most one change a key: from the state that its consumer knows to the state that is true now.
///
/// It is for a consumer that wants the present rather than the history: changes of one key that meet in the queue become one
/// change, from the oldest state that the consumer knows to the newest. So however slow the consumer is, the queue never
/// holds more entries than there are keys that the consumer knows or that exist. An object that came and went while the
/// consumer did not look is never delivered.
///
/// Keys come out in the order in which they first changed; a key keeps its place while further changes join it.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{Change, CoalescingFifo};
///
/// // Objects with a uid and a phase.
/// let mut fifo = CoalescingFifo::new(|a: &(u32, &str), b| a.0 == b.0);
/// fifo.updated("a", (1, "Pending"), (1, "Running"));
/// fifo.added("b", (2, "Pending"), false);
/// fifo.updated("a", (1, "Running"), (1, "Succeeded"));
/// fifo.deleted("b", (2, "Pending"), (2, "Pending"), true);
///
/// let change = Change::Updated { old: (1, "Pending"), new: (1, "Succeeded") };
/// assert_eq!(fifo.pop(), Some(("a", change)));
/// assert_eq!(fifo.pop(), None, "b came and went unseen");
/// ```
#[derive(Debug)]
pub struct CoalescingFifo<K, T> {
    slots: HashMap<K, Slot<T>>,
    /// Places in the queue. Ordered by number, so that an entry in the middle can go when its change cancels out.
    order: BTreeMap<u64, K>,
    next_place: u64,
    initial: usize,
    same_identity: fn(&T, &T) -> bool,
}

/// What a [`CoalescingFifo`] delivers for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The consumer did not know the key.
    Added {
        /// The newest state.
        object: T,
        /// Whether it was there before the consumer was.
        is_initial: bool,
    },
    /// The consumer knew the key in another state, or in this one and is only reminded of it.
    Updated {
        /// The state that the consumer knew.
        old: T,
        /// The newest state.
        new: T,
    },
    /// The key is gone.
    Deleted {
        /// The last state that was seen.
        object: T,
        /// Whether it was deleted in that state. If not, the deletion was inferred, and `object` may be stale.
        final_state_known: bool,
    },
}

#[derive(Debug)]
struct Slot<T> {
    place: u64,
    /// The state that the consumer knows, if any.
    told: Option<T>,
    now: Now<T>,
    is_initial: bool,
}

#[derive(Debug)]
enum Now<T> {
    Present(T),
    Gone { last: T, final_state_known: bool },
}

impl<K: Clone + Eq + Hash, T: Clone> CoalescingFifo<K, T> {
    /// An empty queue.
    ///
    /// `same_identity` says whether two states of one key are states of one object. If they are not, because a deletion and a
    /// creation met in the queue, the consumer gets both instead of one update.
    pub fn new(same_identity: fn(&T, &T) -> bool) -> Self {
        Self { slots: HashMap::new(), order: BTreeMap::new(), next_place: 0, initial: 0, same_identity }
    }

    /// Queues that the key is there now and was not before. `is_initial`: it was there before the consumer was.
    pub fn added(&mut self, key: K, object: T, is_initial: bool) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.now = Now::Present(object);
            return;
        }
        self.push(key, None, Now::Present(object), is_initial);
    }

    /// Queues that the key went from one state to another.
    pub fn updated(&mut self, key: K, old: T, new: T) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.now = Now::Present(new);
            return;
        }
        self.push(key, Some(old), Now::Present(new), false);
    }

    /// Queues that the key is gone. `last` is the last state that was seen, `known` the one that the consumer knows unless a
    /// change of this key waits. If the consumer does not know the key, whatever waits for it is dropped.
    pub fn deleted(&mut self, key: K, known: T, last: T, final_state_known: bool) {
        let Some(slot) = self.slots.get_mut(&key) else {
            return self.push(key, Some(known), Now::Gone { last, final_state_known }, false);
        };
        if slot.told.is_some() {
            slot.now = Now::Gone { last, final_state_known };
        } else {
            self.remove(&key);
        }
    }

    /// Reminds the consumer of a key that did not change. Does nothing if a change of that key waits.
    pub fn sync(&mut self, key: K, object: T) {
        if !self.slots.contains_key(&key) {
            self.push(key, Some(object.clone()), Now::Present(object), false);
        }
    }

    /// Takes out the change of the key that has waited longest. None: nothing waits.
    pub fn pop(&mut self) -> Option<(K, Change<T>)> {
        let key = self.order.values().next()?.clone();
        let slot = self.slots.get_mut(&key)?;
        if let (Some(told), Now::Present(now)) = (&slot.told, &slot.now)
            && !(self.same_identity)(told, now)
        {
            // Another object took the name: the old one's end comes first, the new one's beginning is next in line.
            let object = told.clone();
            slot.told = None;
            return Some((key, Change::Deleted { object, final_state_known: false }));
        }
        let slot = self.remove(&key)?;
        let change = match (slot.told, slot.now) {
            (None, Now::Present(object)) => Change::Added { object, is_initial: slot.is_initial },
            (Some(old), Now::Present(new)) => Change::Updated { old, new },
            (Some(told), Now::Gone { last, final_state_known }) => match (self.same_identity)(&told, &last) {
                true => Change::Deleted { object: last, final_state_known },
                false => Change::Deleted { object: told, final_state_known: false },
            },
            (None, Now::Gone { last, final_state_known }) => Change::Deleted { object: last, final_state_known },
        };
        Some((key, change))
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many of the waiting keys were there before the consumer was.
    pub fn initial_len(&self) -> usize {
        self.initial
    }

    fn push(&mut self, key: K, told: Option<T>, now: Now<T>, is_initial: bool) {
        let place = self.next_place;
        self.next_place += 1;
        self.initial += usize::from(is_initial);
        self.order.insert(place, key.clone());
        self.slots.insert(key, Slot { place, told, now, is_initial });
    }

    fn remove(&mut self, key: &K) -> Option<Slot<T>> {
        let slot = self.slots.remove(key)?;
        self.order.remove(&slot.place);
        self.initial -= usize::from(slot.is_initial);
        Some(slot)
    }
}
