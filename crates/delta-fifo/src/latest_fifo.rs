//! A queue that keeps the latest object of each key.

use std::fmt;
use std::hash::Hash;

use crate::config::KeyFunc;
use crate::error::{KeyError, StoreError};
use crate::line::Line;
use crate::progress::Progress;
use crate::store::Store;

/// A queue that keeps the latest object of each key, like client-go's `FIFO`.
///
/// The consumer pops each key once, with its latest object. Deleting an object removes it from the queue, so the
/// consumer receives no deletions. The queue pops keys in FIFO order. Replacing the object of a queued key does not
/// change the position of the key.
///
/// The queue takes no lock and never waits. To share the queue between threads or tasks, use a
/// [`SharedFifo`](crate::SharedFifo). The queue contains at most one object per key.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::LatestFifo;
///
/// let mut fifo = LatestFifo::new(|&(name, _): &(&'static str, u32)| Ok(name));
/// fifo.add(("a", 1))?;
/// fifo.add(("b", 1))?;
/// fifo.add(("c", 1))?;
/// fifo.update(("a", 2))?;
/// fifo.delete(("b", 1))?;
///
/// let rest: Vec<_> = std::iter::from_fn(|| fifo.pop()).map(|latest| latest.object).collect();
/// assert_eq!(rest, [("a", 2), ("c", 1)]);
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct LatestFifo<K, T> {
    key_func: KeyFunc<K, T>,
    line: Line<K, Waiting<T>>,
    progress: Progress,
}

struct Waiting<T> {
    object: T,
    /// Whether the object belongs to the first list. The queue has synced when all objects of the first list are processed
    /// or deleted.
    is_initial: bool,
}

/// An object popped from a [`LatestFifo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest<K, T> {
    /// The key of the object.
    pub key: K,
    /// The latest state of the object.
    pub object: T,
    /// Whether the key was part of the first list.
    pub is_in_initial_list: bool,
}

impl<K: Clone + Eq + Hash, T: Clone> LatestFifo<K, T> {
    /// Creates an empty queue. `key_func` returns an object's key, and must always return the same key for the same object.
    pub fn new(key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static) -> Self {
        Self { key_func: Box::new(key_func), line: Line::new(), progress: Progress::default() }
    }

    /// Queues an object, replacing any queued object with the same key.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if the object has no key, and leaves the queue unchanged.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        let key = (self.key_func)(&object)?;
        self.progress.changed();
        self.put(key, object, false);
        Ok(())
    }

    /// Queues an object, exactly like [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.add(object)
    }

    /// Queues an object, unless an object with the same key is already queued. Use this method to requeue an object
    /// that could not be processed.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn add_if_not_present(&mut self, object: T) -> Result<(), StoreError> {
        match self.line.place_of(&(self.key_func)(&object)?) {
            Some(_) => Ok(()),
            None => self.add(object),
        }
    }

    /// Removes the queued object with the key of `object`, if any.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn delete(&mut self, object: T) -> Result<(), StoreError> {
        let key = (self.key_func)(&object)?;
        self.progress.changed();
        if let Some((_, waiting)) = self.line.place_of(&key).and_then(|place| self.line.remove(place))
            && waiting.is_initial
        {
            self.progress.dropped();
        }
        Ok(())
    }

    /// Replaces all queued objects with `objects`, in list order. Until the queue has synced, each new list counts as
    /// the first list.
    ///
    /// This queue ignores `resource_version`, which other stores use.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if an object has no key, and leaves the queue unchanged.
    pub fn replace(&mut self, objects: Vec<T>, _resource_version: &str) -> Result<(), StoreError> {
        let with_key = |object| Ok(((self.key_func)(&object)?, object));
        let objects = objects.into_iter().map(with_key).collect::<Result<Vec<(K, T)>, KeyError>>()?;
        self.line = Line::new();
        let is_initial = !self.progress.has_synced();
        for (key, object) in objects {
            self.put(key, object, is_initial);
        }
        self.progress.replaced(self.line.len());
        Ok(())
    }

    /// Removes and returns the oldest object, or `None` if the queue is empty. `pop` also marks the previously popped
    /// object as [processed](Self::processed).
    pub fn pop(&mut self) -> Option<Latest<K, T>> {
        self.progress.processed();
        let (key, Waiting { object, .. }) = self.line.pop_front()?;
        Some(Latest { key, object, is_in_initial_list: self.progress.popped(1) })
    }

    /// Marks the objects that were popped so far as processed.
    pub fn processed(&mut self) {
        self.progress.processed();
    }

    /// Returns `true` if the consumer has processed the first list. Objects that are deleted before they are popped
    /// also count as processed. A change before the first call to `replace` also marks the queue as synced.
    pub fn has_synced(&self) -> bool {
        self.progress.has_synced()
    }

    /// Closes the queue. The remaining items can still be popped, and new items can still be queued.
    pub fn close(&mut self) {
        self.progress.close();
    }

    /// Returns `true` if the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.progress.is_closed()
    }

    /// Returns the queued objects, in pop order.
    pub fn list(&self) -> Vec<T> {
        self.line.iter().map(|(.., waiting)| waiting.object.clone()).collect()
    }

    /// Returns the queued keys, in pop order.
    pub fn list_keys(&self) -> Vec<K> {
        self.line.iter().map(|(_, key, _)| key.clone()).collect()
    }

    /// Returns the queued object with key `key`.
    pub fn get_by_key(&self, key: &K) -> Option<&T> {
        Some(&self.line[self.line.place_of(key)?].object)
    }

    /// Returns the number of queued objects.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns `true` if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(crate) fn has_known_objects(&self) -> bool {
        false
    }

    fn put(&mut self, key: K, object: T, is_initial: bool) {
        let hash = self.line.hash(&key);
        match self.line.find(hash, &key) {
            Some(place) => self.line[place].object = object,
            None => _ = self.line.push_back(hash, key, Waiting { object, is_initial }),
        }
    }
}

/// `resync` has no effect, because every queued object will be delivered.
impl<K: Clone + Eq + Hash, T: Clone> Store<K, T> for LatestFifo<K, T> {
    type Entry = T;

    fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.add(object)
    }

    fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.update(object)
    }

    fn delete(&mut self, object: T) -> Result<(), StoreError> {
        self.delete(object)
    }

    fn replace(&mut self, objects: Vec<T>, resource_version: &str) -> Result<(), StoreError> {
        self.replace(objects, resource_version)
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn list(&self) -> Vec<T> {
        self.list()
    }

    fn list_keys(&self) -> Vec<K> {
        self.list_keys()
    }

    fn get(&self, object: &T) -> Result<Option<T>, KeyError> {
        Ok(self.get_by_key(&(self.key_func)(object)?).cloned())
    }

    fn get_by_key(&self, key: &K) -> Option<T> {
        self.get_by_key(key).cloned()
    }
}

impl<K: fmt::Debug, T> fmt::Debug for LatestFifo<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue: Vec<&K> = self.line.iter().map(|(_, key, _)| key).collect();
        f.debug_struct("LatestFifo").field("queue", &queue).field("progress", &self.progress).finish_non_exhaustive()
    }
}
