//! A queue of changes for a slow listener.

use std::hash::Hash;

use crate::keyed::{KeyHash, Place};
use crate::line::Line;

/// A queue of changes for a listener that can be slower than the producer.
///
/// Queued changes to the same key are merged. The queue has at most one entry per key. The key must belong to an
/// existing object or to an object that the listener knows. With [ordered delivery](Delivery::Ordered), up to `bound`
/// more changes can be queued. With every [`Delivery`], a listener that applies all changes in order ends up with the
/// same objects as the producer.
///
/// The queue pops keys in the order of their first change. A key keeps its position while more changes are merged. If
/// an object is added and deleted between two pops, the listener receives neither change, except with ordered delivery.
///
/// If an object is deleted and another object with the same key is created, the queue delivers two changes. The first
/// `pop` returns the deletion, with the last observed state of the deleted object. The next `pop` returns the addition
/// of the other object.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{Change, CoalescingFifo, Delivery};
///
/// // Objects with a uid and a phase.
/// let mut fifo = CoalescingFifo::new(|a: &(u32, &str), b| a.0 == b.0, Delivery::Coalesced);
/// fifo.updated("a", (1, "Pending"), (1, "Running"));
/// fifo.added("b", (2, "Pending"), false);
/// fifo.updated("a", (1, "Running"), (1, "Succeeded"));
/// fifo.deleted("b", (2, "Pending"), (2, "Pending"), true);
///
/// let change = Change::Updated { old: Some((1, "Pending")), new: (1, "Succeeded") };
/// assert_eq!(fifo.pop(), Some(("a", change)));
/// assert_eq!(fifo.pop(), None, "b was added and deleted between two pops");
/// ```
#[derive(Debug)]
pub struct CoalescingFifo<K, T> {
    line: Line<K, Waiting<T>>,
    delivery: Delivery,
    same_identity: fn(&T, &T) -> bool,
    initial: usize,
    joined: u64,
}

/// Determines how a [`CoalescingFifo`] merges queued changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Merges all changes to a key into one change, from the last state that the listener has received to the newest
    /// state. While an update is queued, the queue keeps both states in memory.
    #[default]
    Coalesced,
    /// Merges changes like `Coalesced`, but an update does not contain the old state. The queue therefore keeps no old
    /// objects in memory, except for the last states of deleted objects.
    Newest,
    /// Delivers each change separately and in order, across all keys. When `bound` changes are queued, a new change is
    /// merged into the last queued change of its key. The listener then receives the merged change before changes to
    /// other keys that were queued earlier. [`joined`](CoalescingFifo::joined) counts the merged changes.
    Ordered {
        /// The number of queued changes from which on new changes are merged. The queue can exceed this bound, because
        /// a key without a queued change always gets its own entry.
        bound: usize,
    },
}

/// The result of [`CoalescingFifo::overtake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken<T> {
    /// The newest state of the object, or `None` if it was deleted.
    pub newest: Option<T>,
    /// The queued state that the listener will no longer receive, if any.
    pub untold: Option<T>,
}

/// A change to one key, as delivered by a [`CoalescingFifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The object is new to the listener.
    Added {
        /// The newest state of the object.
        object: T,
        /// Whether the object existed before the listener was added.
        is_initial: bool,
    },
    /// An object that the listener knows has changed, or a resync delivers the object again.
    Updated {
        /// The state that the listener knows. `None` with [`Delivery::Newest`], because the queue then keeps only the
        /// newest state.
        old: Option<T>,
        /// The newest state of the object.
        new: T,
    },
    /// The object was deleted.
    Deleted {
        /// The last observed state of the object. The listener may not have received this state before.
        object: T,
        /// Whether `object` is the object's state at its deletion. If `false`, the producer missed the deletion and
        /// inferred it later, so `object` may be stale.
        final_state_known: bool,
    },
}

#[derive(Debug)]
enum Waiting<T> {
    Added {
        object: T,
        is_initial: bool,
    },
    Updated {
        old: Option<T>,
        new: T,
    },
    Deleted {
        last: T,
        final_state_known: bool,
    },
    /// The object that the listener knows was deleted, and another object with the same key was created.
    Recreated {
        last: T,
        final_state_known: bool,
        object: T,
    },
}

impl<K: Clone + Eq + Hash, T: Clone> CoalescingFifo<K, T> {
    /// Creates an empty queue.
    ///
    /// `same_identity` returns `true` if two states with the same key belong to the same object. If an update changes
    /// the identity, the producer missed the deletion of the old object. The queue then delivers that deletion, too.
    pub fn new(same_identity: fn(&T, &T) -> bool, delivery: Delivery) -> Self {
        Self { line: Line::new(), delivery, same_identity, initial: 0, joined: 0 }
    }

    /// Queues the addition of an object. `is_initial` is `true` if the object existed before the listener was added. If
    /// the listener will no longer receive a queued state, returns that state, as [`updated`](Self::updated) does.
    pub fn added(&mut self, key: K, object: T, is_initial: bool) -> Option<T> {
        self.present(key, object, |_, object| Waiting::Added { object, is_initial })
    }

    /// Queues an update of an object. If the listener will no longer receive a queued state, returns that state. A
    /// caller that holds a lock can then drop the state after releasing the lock. The call can drop its arguments, but
    /// it drops no queued objects.
    pub fn updated(&mut self, key: K, old: T, new: T) -> Option<T> {
        self.present(key, new, |fifo, new| {
            if (fifo.same_identity)(&old, &new) {
                fifo.update(old, new)
            } else {
                Waiting::Recreated { last: old, final_state_known: false, object: new }
            }
        })
    }

    /// Queues the deletion of an object. `known` is the state before the deletion, and `last` is the last observed
    /// state. If an addition of the key is queued, the queue drops both changes, and the listener receives no event for
    /// the object. If the listener will no longer receive a queued state, returns that state, as
    /// [`updated`](Self::updated) does.
    pub fn deleted(&mut self, key: K, known: T, last: T, final_state_known: bool) -> Option<T> {
        let hash = self.line.hash(&key);
        let ended = |known: &T, same_identity: fn(&T, &T) -> bool| match same_identity(known, &last) {
            true => Waiting::Deleted { last: last.clone(), final_state_known },
            // `last` belongs to another object. The producer missed the earlier deletion of the listener's object.
            false => Waiting::Deleted { last: known.clone(), final_state_known: false },
        };
        let Some(place) = self.place_to_join(hash, &key) else {
            self.line.push_back(hash, key, ended(&known, self.same_identity));
            return None;
        };
        let end = match &self.line[place] {
            Waiting::Added { .. } => {
                self.remove(place);
                return None;
            }
            Waiting::Updated { new, .. } => ended(new, self.same_identity),
            // The deleted object is the recreated one. The listener never received its addition.
            Waiting::Recreated { last, final_state_known, .. } => {
                Waiting::Deleted { last: last.clone(), final_state_known: *final_state_known }
            }
            Waiting::Deleted { final_state_known: true, .. } => return None,
            Waiting::Deleted { .. } => ended(&known, self.same_identity),
        };
        std::mem::replace(&mut self.line[place], end).known()
    }

    /// Queues a resync of an unchanged object. Does nothing if a change to the object's key is queued.
    pub fn sync(&mut self, key: K, object: T) {
        let hash = self.line.hash(&key);
        if self.line.find(hash, &key).is_none() {
            let reminder = self.update(object.clone(), object);
            self.line.push_back(hash, key, reminder);
        }
    }

    /// Removes the queued change of `key` and returns the object's newest state. Call this method before you deliver
    /// this key's object as an initial object, and deliver the returned state instead. If the queued change also adds
    /// another object with the same key, that addition stays queued. Returns `None` if no change of `key` is queued, or
    /// with [ordered delivery](Delivery::Ordered).
    pub fn overtake(&mut self, key: &K) -> Option<Overtaken<T>> {
        if matches!(self.delivery, Delivery::Ordered { .. }) {
            return None;
        }
        let place = self.line.find(self.line.hash(key), key)?;
        match &self.line[place] {
            Waiting::Added { .. } => None,
            Waiting::Recreated { last, object, .. } => {
                let (untold, object) = (last.clone(), object.clone());
                self.line[place] = Waiting::Added { object, is_initial: false };
                Some(Overtaken { newest: None, untold: Some(untold) })
            }
            Waiting::Updated { .. } | Waiting::Deleted { .. } => match self.remove(place)?.1 {
                Waiting::Updated { old, new } => Some(Overtaken { newest: Some(new), untold: old }),
                Waiting::Deleted { last, .. } => Some(Overtaken { newest: None, untold: Some(last) }),
                _ => None,
            },
        }
    }

    /// Removes and returns the oldest change. Returns `None` if the queue is empty.
    pub fn pop(&mut self) -> Option<(K, Change<T>)> {
        let (place, key) = self.line.front()?;
        if let Waiting::Recreated { last, final_state_known, object } = &self.line[place] {
            let (key, object) = (key.clone(), object.clone());
            let change = Change::Deleted { object: last.clone(), final_state_known: *final_state_known };
            self.line[place] = Waiting::Added { object, is_initial: false };
            return Some((key, change));
        }
        let (key, waiting) = self.remove(place)?;
        let change = match waiting {
            Waiting::Added { object, is_initial } => Change::Added { object, is_initial },
            Waiting::Updated { old, new } => Change::Updated { old, new },
            Waiting::Deleted { last: object, final_state_known }
            | Waiting::Recreated { last: object, final_state_known, .. } => {
                Change::Deleted { object, final_state_known }
            }
        };
        Some((key, change))
    }

    /// Returns the number of queued entries. An entry can produce two changes: the deletion of one object, and the addition of another
    /// object with the same key.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns `true` if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns the number of queued additions with `is_initial`.
    pub fn initial_len(&self) -> usize {
        self.initial
    }

    /// Returns the number of changes that were merged into another change since the queue was created.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Queues the state `new` of `key`. If no change of `key` is queued, calls `first` to create the entry.
    fn present(&mut self, key: K, new: T, first: impl FnOnce(&Self, T) -> Waiting<T>) -> Option<T> {
        let hash = self.line.hash(&key);
        let Some(place) = self.place_to_join(hash, &key) else {
            let first = first(self, new);
            self.initial += usize::from(first.is_initial());
            self.line.push_back(hash, key, first);
            return None;
        };
        let same_identity = self.same_identity;
        let waiting = &mut self.line[place];
        let (last, final_state_known) = match waiting {
            Waiting::Added { object: last, .. } | Waiting::Recreated { object: last, .. } => {
                *last = new;
                return None;
            }
            Waiting::Updated { new: last, .. } if same_identity(last, &new) => {
                *last = new;
                return None;
            }
            Waiting::Updated { new: last, .. } => (last.clone(), false),
            Waiting::Deleted { last, final_state_known } => (last.clone(), *final_state_known),
        };
        std::mem::replace(waiting, Waiting::Recreated { last, final_state_known, object: new }).known()
    }

    fn update(&self, old: T, new: T) -> Waiting<T> {
        Waiting::Updated { old: (self.delivery != Delivery::Newest).then_some(old), new }
    }

    /// Returns the entry into which a change of `key` must be merged, or `None` if the change needs its own entry.
    fn place_to_join(&mut self, hash: KeyHash, key: &K) -> Option<Place> {
        let place = self.line.find(hash, key)?;
        if let Delivery::Ordered { bound } = self.delivery
            && self.line.len() < bound
        {
            self.line.unlist(place);
            return None;
        }
        self.joined += 1;
        Some(place)
    }

    fn remove(&mut self, place: Place) -> Option<(K, Waiting<T>)> {
        let (key, waiting) = self.line.remove(place)?;
        self.initial -= usize::from(waiting.is_initial());
        Some((key, waiting))
    }
}

impl<T> Waiting<T> {
    fn known(self) -> Option<T> {
        match self {
            Self::Updated { old, .. } => old,
            _ => None,
        }
    }

    fn is_initial(&self) -> bool {
        matches!(self, Self::Added { is_initial: true, .. })
    }
}
