//! A queue of changes for a slow listener.

use std::hash::Hash;

use crate::keyed::{KeyHash, Place};
use crate::line::Line;

/// A queue of changes for a listener that can be slower than the producer.
///
/// The queue merges queued changes to the same key, so it has at most one entry per key. An object that is added and
/// deleted before the listener receives it has no entry. With [ordered delivery](Delivery::Ordered), the queue can
/// contain up to `bound` additional changes. With every [`Delivery`], a listener that applies all changes in order ends
/// up with the same objects as the producer.
///
/// The queue pops keys in the order of their first change. Merging another change does not move the key to the end of
/// the queue. If an object is added and deleted between two pops, the listener receives neither change, except with
/// ordered delivery.
///
/// If an object is updated and deleted between two pops, the listener first receives an update to the last state, and
/// then the deletion. The update contains the state that the listener knows, so a listener that groups objects by a
/// field can remove the object from its old group. With [`Delivery::Newest`], the listener receives only the deletion.
///
/// If an object is deleted and another object with the same key is created, the listener first receives the deletion,
/// with the last observed state of the deleted object, and then the addition of the new object.
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
    joined: u64,
}

/// Determines how a [`CoalescingFifo`] merges queued changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Merges all updates of an object into one update, from the last state that the listener has received to the newest
    /// state. The queue keeps up to three states of a key in memory.
    #[default]
    Coalesced,
    /// Merges changes like `Coalesced`, but an update does not contain the old state. The queue keeps old objects in
    /// memory only for deletions.
    Newest,
    /// Delivers each change separately and in order, across all keys. When `bound` changes are queued, a new change is
    /// merged into the last queued change of its key. The listener can therefore receive a merged change before older
    /// changes to other keys. [`joined`](CoalescingFifo::joined) counts the merged changes.
    Ordered {
        /// The number of queued changes at which the queue starts to merge new changes. The queue can exceed `bound`,
        /// because the first queued change of a key always gets a separate entry.
        bound: usize,
    },
}

/// The result of [`CoalescingFifo::overtake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken<T> {
    /// The newest state of the object, or `None` if it was deleted.
    pub newest: Option<T>,
    /// The last state of a deleted object, or the older state of a queued update, if any. The listener will not receive
    /// this state.
    pub undelivered: Option<T>,
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
    /// The listener already knows the object, and the object changed or a resync delivers it again.
    Updated {
        /// The previous state that the listener received, or `None` with [`Delivery::Newest`], which keeps only the
        /// newest state.
        old: Option<T>,
        /// The newest state of the object.
        new: T,
    },
    /// The object was deleted.
    Deleted {
        /// The last observed state of the object. The listener may not have received this state before.
        object: T,
        /// Whether `object` is the final state of the deleted object. If `false`, the producer missed the deletion and
        /// detected it later, so `object` may be stale.
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
    Deleted(Deletion<T>),
    /// The object that the listener knows was deleted, and another object with the same key was created.
    Recreated {
        /// Boxed, because few objects are recreated, and the variant would make all entries larger.
        deletion: Box<Deletion<T>>,
        object: T,
    },
}

#[derive(Clone, Debug)]
struct Deletion<T> {
    /// The state that the listener knows, if an update to another state was queued before the deletion.
    known: Option<T>,
    last: T,
    final_state_known: bool,
}

impl<K: Clone + Eq + Hash, T: Clone> CoalescingFifo<K, T> {
    /// Creates an empty queue.
    ///
    /// `same_identity` returns `true` if two states with the same key belong to the same object. If an update changes
    /// the identity, the producer missed the deletion of the old object, so the queue also delivers a deletion.
    pub fn new(same_identity: fn(&T, &T) -> bool, delivery: Delivery) -> Self {
        Self { line: Line::new(), delivery, same_identity, joined: 0 }
    }

    /// Queues the addition of an object. `is_initial` is `true` if the object existed before the listener was added.
    pub fn added(&mut self, key: K, object: T, is_initial: bool) {
        self.present(key, object, |_, object| Waiting::Added { object, is_initial });
    }

    /// Queues an update of an object. This method may drop its arguments and the queued copy of `old`. A caller that
    /// must not drop an object under its lock must keep a clone of `old`.
    pub fn updated(&mut self, key: K, old: T, new: T) {
        self.present(key, new, |fifo, new| {
            if (fifo.same_identity)(&old, &new) {
                fifo.update(old, new)
            } else {
                let deletion = Deletion { known: None, last: old, final_state_known: false };
                Waiting::Recreated { deletion: deletion.into(), object: new }
            }
        });
    }

    /// Queues the deletion of an object. `known` is the state before the deletion, and `last` is the last observed
    /// state. If the object's addition is still queued, the queue removes the addition, and the listener receives no
    /// event for the object. This method may drop its arguments and the queued copy of `known`.
    pub fn deleted(&mut self, key: K, known: T, last: T, final_state_known: bool) {
        let hash = self.line.hash(&key);
        let same_identity = self.same_identity;
        let deletion = |newest: &T, known: Option<T>| {
            if same_identity(newest, &last) {
                Deletion { known, last: last.clone(), final_state_known }
            } else {
                // `last` belongs to another object, so the producer missed the deletion of the listener's last known
                // object.
                Deletion { known, last: newest.clone(), final_state_known: false }
            }
        };
        let Some(place) = self.place_to_join(hash, &key) else {
            self.line.push_back(hash, key, Waiting::Deleted(deletion(&known, None)));
            return;
        };
        let waiting = &mut self.line[place];
        *waiting = match waiting {
            Waiting::Added { .. } => {
                self.line.remove(place);
                return;
            }
            Waiting::Updated { old, new } => Waiting::Deleted(deletion(new, old.take())),
            // The recreated object was deleted before the listener received its addition.
            Waiting::Recreated { deletion, .. } => Waiting::Deleted((**deletion).clone()),
            Waiting::Deleted(Deletion { final_state_known: true, .. }) => return,
            Waiting::Deleted(earlier) => Waiting::Deleted(deletion(&known, earlier.known.take())),
        };
    }

    /// Queues a resync of an unchanged object, unless a change of the object is already queued.
    pub fn sync(&mut self, key: K, object: T) {
        let hash = self.line.hash(&key);
        if self.line.find(hash, &key).is_none() {
            let reminder = self.update(object.clone(), object);
            self.line.push_back(hash, key, reminder);
        }
    }

    /// Removes the queued change of `key` and returns the object's newest state. Before delivering the object of `key`
    /// as an initial object, call this method and deliver the returned state instead. If another object with the same
    /// key was created after a deletion, the addition of the new object stays queued. Returns `None` if no update or
    /// deletion of `key` is queued. With [ordered delivery](Delivery::Ordered), this method always returns `None`.
    pub fn overtake(&mut self, key: &K) -> Option<Overtaken<T>> {
        if matches!(self.delivery, Delivery::Ordered { .. }) {
            return None;
        }
        let place = self.line.find(self.line.hash(key), key)?;
        match &self.line[place] {
            Waiting::Added { .. } => None,
            Waiting::Recreated { deletion, object } => {
                let (undelivered, object) = (deletion.last.clone(), object.clone());
                self.line[place] = Waiting::Added { object, is_initial: false };
                Some(Overtaken { newest: None, undelivered: Some(undelivered) })
            }
            Waiting::Updated { .. } | Waiting::Deleted(_) => match self.line.remove(place)?.1 {
                Waiting::Updated { old, new } => Some(Overtaken { newest: Some(new), undelivered: old }),
                Waiting::Deleted(deletion) => Some(Overtaken { newest: None, undelivered: Some(deletion.last) }),
                _ => None,
            },
        }
    }

    /// Removes and returns the oldest change. Returns `None` if the queue is empty.
    pub fn pop(&mut self) -> Option<(K, Change<T>)> {
        let (place, _) = self.line.front()?;
        let deletion = match &mut self.line[place] {
            Waiting::Deleted(deletion) => Some(deletion),
            Waiting::Recreated { deletion, .. } => Some(&mut **deletion),
            _ => None,
        };
        if let Some(deletion) = deletion
            && let known @ Some(_) = deletion.known.take()
        {
            let change = Change::Updated { old: known, new: deletion.last.clone() };
            return Some((self.line.front()?.1.clone(), change));
        }
        if let Waiting::Recreated { deletion, object } = &self.line[place] {
            let (object, deletion) = (object.clone(), (**deletion).clone());
            self.line[place] = Waiting::Added { object, is_initial: false };
            return Some((self.line.front()?.1.clone(), deletion.into()));
        }
        let (key, waiting) = self.line.remove(place)?;
        let change = match waiting {
            Waiting::Added { object, is_initial } => Change::Added { object, is_initial },
            Waiting::Updated { old, new } => Change::Updated { old, new },
            Waiting::Deleted(deletion) => deletion.into(),
            Waiting::Recreated { deletion, .. } => (*deletion).into(),
        };
        Some((key, change))
    }

    /// Returns the number of queued entries. An entry can produce up to three changes: an update to the last state of
    /// an object, the deletion of this object, and the addition of another object with the same key.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns `true` if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns the number of changes that were merged into another change since the queue was created.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Queues `new` as the newest state of the object with key `key`. If no change of `key` is queued, calls `first` to
    /// create the entry.
    fn present(&mut self, key: K, new: T, first: impl FnOnce(&Self, T) -> Waiting<T>) {
        let hash = self.line.hash(&key);
        let Some(place) = self.place_to_join(hash, &key) else {
            let first = first(self, new);
            self.line.push_back(hash, key, first);
            return;
        };
        let same_identity = self.same_identity;
        let waiting = &mut self.line[place];
        let deletion = match waiting {
            Waiting::Added { object: last, .. } | Waiting::Recreated { object: last, .. } => {
                *last = new;
                return;
            }
            Waiting::Updated { new: last, .. } if same_identity(last, &new) => {
                *last = new;
                return;
            }
            Waiting::Updated { old, new: last } => {
                Deletion { known: old.take(), last: last.clone(), final_state_known: false }
            }
            Waiting::Deleted(deletion) => deletion.clone(),
        };
        *waiting = Waiting::Recreated { deletion: deletion.into(), object: new };
    }

    fn update(&self, old: T, new: T) -> Waiting<T> {
        Waiting::Updated { old: (self.delivery != Delivery::Newest).then_some(old), new }
    }

    /// Returns the entry into which a change of `key` must be merged, or `None` if the change needs a separate entry.
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
}

impl<T> From<Deletion<T>> for Change<T> {
    fn from(deletion: Deletion<T>) -> Self {
        Self::Deleted { object: deletion.last, final_state_known: deletion.final_state_known }
    }
}
