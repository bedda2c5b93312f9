//! A queue of changes for a listener that may be slow.

use std::hash::Hash;

use crate::keyed::{KeyHash, Place};
use crate::line::Line;

/// A queue of changes for a listener that can be slower than the producer of the changes.
///
/// Queued changes of one key are merged. Therefore, the queue has at most one entry for each key of an existing object, or of an object
/// that the listener knows. With [ordered delivery](Delivery::Ordered), up to `bound` more changes can be queued. With every [`Delivery`],
/// a listener that applies all changes in order finally has the same objects as the producer.
///
/// Keys are popped in the order of their first change, and a key keeps its position while more changes are merged. An object that was added
/// and deleted between two pops is not delivered, except with ordered delivery.
///
/// If an object is deleted and another object is created with the same key, the queue delivers two changes. The first
/// change is the deletion, and contains the last observed state of the deleted object. The second change is the
/// addition, which the next `pop` returns.
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
    /// Merges the changes of one key into one change. The merged change leads from the last state that the listener has
    /// received to the newest state. A queued update keeps both states in memory.
    #[default]
    Coalesced,
    /// Works like `Coalesced`, but updates do not contain the old state. So the queue does not keep old objects in
    /// memory, except for the last states of deleted objects.
    Newest,
    /// Delivers each change separately and in order, even if the changes have different keys. If `bound` changes are
    /// queued, a new change is merged into the last queued change of its key. The listener then receives the merged
    /// change before changes of other keys that were queued earlier. [`joined`](CoalescingFifo::joined) counts these
    /// merges.
    Ordered {
        /// The maximum number of queued changes that are not merged. The number can exceed this bound, because a key without a queued
        /// change always gets a change of its own.
        bound: usize,
    },
}

/// The result of [`CoalescingFifo::overtake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken<T> {
    /// The newest state of the object, or `None` if it was deleted.
    pub newest: Option<T>,
    /// The queued state that the listener will no longer receive, if there is such a state.
    pub untold: Option<T>,
}

/// A change that a [`CoalescingFifo`] delivers for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The object is new to the listener.
    Added {
        /// The newest state of the object.
        object: T,
        /// Whether the object existed before the listener was added.
        is_initial: bool,
    },
    /// The object changed, or a resync delivers it again. The listener knows the object.
    Updated {
        /// The state that the listener knows. `None` if the setting of the queue is [`Delivery::Newest`], because the queue then keeps only
        /// the newest state.
        old: Option<T>,
        /// The newest state of the object.
        new: T,
    },
    /// The object was deleted.
    Deleted {
        /// The last observed state of the object. The listener may not have received this state before.
        object: T,
        /// Whether `object` is the state of the object at its deletion. If `false`, the deletion was inferred, and `object` may be stale.
        final_state_known: bool,
    },
}

/// The queued change of one key.
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
    /// `same_identity` returns whether two states with the same key belong to the same object. If an update changes the
    /// identity, the producer has missed a deletion, and the queue delivers that deletion.
    pub fn new(same_identity: fn(&T, &T) -> bool, delivery: Delivery) -> Self {
        Self { line: Line::new(), delivery, same_identity, initial: 0, joined: 0 }
    }

    /// Queues the addition of an object. `is_initial` is true if the object existed before the listener was added.
    /// Returns a queued state that the listener will no longer receive, as [`updated`](Self::updated) does.
    pub fn added(&mut self, key: K, object: T, is_initial: bool) -> Option<T> {
        self.present(key, object, |_, object| Waiting::Added { object, is_initial })
    }

    /// Queues an update of an object. If the listener will no longer receive a queued state, returns this state. A
    /// caller that holds a lock can drop the state later. The call can drop its arguments, but it does not drop any other objects.
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
    /// state. If an addition of the key is queued, the queue drops both the addition and the deletion, so the listener
    /// receives nothing. Returns a queued state that the listener will no longer receive, as [`updated`](Self::updated)
    /// does.
    pub fn deleted(&mut self, key: K, known: T, last: T, final_state_known: bool) -> Option<T> {
        let hash = self.line.hash(&key);
        let ended = |known: &T, same_identity: fn(&T, &T) -> bool| match same_identity(known, &last) {
            true => Waiting::Deleted { last: last.clone(), final_state_known },
            // The object that the listener knows was deleted earlier, but this deletion was not observed.
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
            // The deleted object is a newer one, and its addition was not delivered.
            Waiting::Recreated { last, final_state_known, .. } => {
                Waiting::Deleted { last: last.clone(), final_state_known: *final_state_known }
            }
            Waiting::Deleted { final_state_known: true, .. } => return None,
            Waiting::Deleted { .. } => ended(&known, self.same_identity),
        };
        std::mem::replace(&mut self.line[place], end).known()
    }

    /// Queues a resync of an unchanged object. Does nothing if a change of the object's key is queued.
    pub fn sync(&mut self, key: K, object: T) {
        let hash = self.line.hash(&key);
        if self.line.find(hash, &key).is_none() {
            let reminder = self.update(object.clone(), object);
            self.line.push_back(hash, key, reminder);
        }
    }

    /// Removes the queued change of a key. Call this method before you deliver the object of this key as an initial
    /// object. Returns the newest state of the object. The caller must deliver the returned state instead of the
    /// initial object. If the queued change also adds another object with the same key, the addition stays queued.
    /// Returns `None` if no change of the key is queued, or if the queue has [ordered delivery](Delivery::Ordered).
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

    /// Returns the number of queued entries. An entry can produce two changes: the deletion of an object, and the addition of another
    /// object with the same key.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns the number of queued additions of objects that existed before the listener was added.
    pub fn initial_len(&self) -> usize {
        self.initial
    }

    /// Returns the number of changes that were merged into another change since the creation of the queue.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Queues the state `new` of a key. If no change of the key is queued, the function calls `first` to create the entry.
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

    /// Returns the entry of the key if the change must be merged into this entry. Returns `None` if the change needs its own entry.
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
    /// Returns the object in the state that the listener knows.
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
