//! The queue of a listener that can be slow.

use std::hash::Hash;

use crate::keyed::{KeyHash, Place};
use crate::line::Line;

/// A queue of changes for a listener that can be slower than its producer.
///
/// Queued changes of one key are merged. The length is therefore bounded by the number of keys that exist or that the listener knows;
/// [ordered delivery](Delivery::Ordered) adds its own bound. With every [`Delivery`], a listener that applies all changes in order ends
/// in the state of the source.
///
/// Keys are popped in the order of their first change, and a key keeps its position while changes join it. An object that was added and
/// deleted between two pops is not delivered, unless changes are ordered.
///
/// The end of an object and the beginning of another of its name are two changes, even where they met: the end comes first, with the
/// last state that was seen, and the beginning is next in line.
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
/// assert_eq!(fifo.pop(), None, "b came and went unseen");
/// ```
#[derive(Debug)]
pub struct CoalescingFifo<K, T> {
    line: Line<K, Waiting<T>>,
    delivery: Delivery,
    same_identity: fn(&T, &T) -> bool,
    initial: usize,
    joined: u64,
}

/// How a [`CoalescingFifo`] merges queued changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Changes of one key become one, from the state that the listener knows to the newest. Of a key that waits with an update, both
    /// states stay in memory.
    #[default]
    Coalesced,
    /// The same, but for the state that the listener knows, which is not kept: an update has no old state. What waits keeps no object
    /// in memory that nobody else has, but for those that are gone and have to be told as gone.
    Newest,
    /// Each change by itself, in the order in which they came, across keys as well. Only once `bound` changes wait does a change join
    /// the last one that waits for its key, and so is told before what came between: [`joined`](CoalescingFifo::joined)
    /// counts how often.
    Ordered {
        /// So many changes are kept apart. A key of which none waits is still put in beyond.
        bound: usize,
    },
}

/// What [overtakes](CoalescingFifo::overtake) a change that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken<T> {
    /// The newest state of the object. None: it is gone.
    pub newest: Option<T>,
    /// The state that is not delivered to the listener, if the queue had one.
    pub untold: Option<T>,
}

/// A change that a [`CoalescingFifo`] delivers for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The listener did not know the key.
    Added {
        /// The newest state.
        object: T,
        /// Whether it was there before the listener was.
        is_initial: bool,
    },
    /// The listener knew the key in another state, or in this one and is only reminded of it.
    Updated {
        /// The state that the listener knew. None: the queue keeps [only the newest](Delivery::Newest).
        old: Option<T>,
        /// The newest state.
        new: T,
    },
    /// The key is gone.
    Deleted {
        /// The last observed state. It may not have been delivered to the listener.
        object: T,
        /// Whether it was deleted in that state. If not, the deletion was inferred, and `object` may be stale.
        final_state_known: bool,
    },
}

/// What waits for a key.
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
    /// The object that the listener knows is gone, and there is another.
    Recreated {
        last: T,
        final_state_known: bool,
        object: T,
    },
}

impl<K: Clone + Eq + Hash, T: Clone> CoalescingFifo<K, T> {
    /// An empty queue.
    ///
    /// `same_identity` says whether two states of one key are states of one object. Where an update goes from one to another, the
    /// deletion in between was not seen, and is told.
    pub fn new(same_identity: fn(&T, &T) -> bool, delivery: Delivery) -> Self {
        Self { line: Line::new(), delivery, same_identity, initial: 0, joined: 0 }
    }

    /// Queues that the key is there now and was not before. `is_initial`: it was there before the listener was. Gives what
    /// [`updated`](Self::updated) does.
    pub fn added(&mut self, key: K, object: T, is_initial: bool) -> Option<T> {
        self.present(key, object, |_, object| Waiting::Added { object, is_initial })
    }

    /// Queues that the key went from one state to another. Gives the state that the listener knows, if it will not be told of it any
    /// more: whoever holds the queue under a lock may drop it elsewhere. All else that the queue lets go of is what it was just given.
    pub fn updated(&mut self, key: K, old: T, new: T) -> Option<T> {
        self.present(key, new, |fifo, new| match (fifo.same_identity)(&old, &new) {
            true => fifo.update(old, new),
            false => Waiting::Recreated { last: old, final_state_known: false, object: new },
        })
    }

    /// Queues that the key is gone. `known` is the state in which it was known so far, `last` the last one that was seen. If the
    /// listener was not told of the key yet, what it would have been told is dropped. Gives what [`updated`](Self::updated) does.
    pub fn deleted(&mut self, key: K, known: T, last: T, final_state_known: bool) -> Option<T> {
        let hash = self.line.hash(&key);
        let ended = |known: &T, same_identity: fn(&T, &T) -> bool| match same_identity(known, &last) {
            true => Waiting::Deleted { last: last.clone(), final_state_known },
            // Of the object that was known, nobody saw the end.
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
            // The other one came and went unseen.
            Waiting::Recreated { last, final_state_known, .. } => {
                Waiting::Deleted { last: last.clone(), final_state_known: *final_state_known }
            }
            Waiting::Deleted { final_state_known: true, .. } => return None,
            Waiting::Deleted { .. } => ended(&known, self.same_identity),
        };
        std::mem::replace(&mut self.line[place], end).known()
    }

    /// Reminds the listener of a key that did not change. Does nothing if a change of that key waits.
    pub fn sync(&mut self, key: K, object: T) {
        let hash = self.line.hash(&key);
        if self.line.find(hash, &key).is_none() {
            let reminder = self.update(object.clone(), object);
            self.line.push_back(hash, key, reminder);
        }
    }

    /// What the listener is to be told of a key of which it is to hear for the first time, where a change from there on waits. That
    /// change is then done with, but for another object of that key, which will be added. None: no change of the key waits, or
    /// each is told by itself.
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

    /// Takes out the change that has waited longest. None: nothing waits.
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

    /// How many entries wait. One entry may become two changes: the end of an object, and the beginning of the next.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// How many of the waiting keys were there before the listener was.
    pub fn initial_len(&self) -> usize {
        self.initial
    }

    /// Returns how many changes were merged into another change since the creation of the queue.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Queues that the key is in a state. `first` says what that is for a listener for whom nothing of the key waits.
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

    /// The entry that a change of the key joins, if it is not to be one of its own.
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
    /// The state that the listener knows.
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
