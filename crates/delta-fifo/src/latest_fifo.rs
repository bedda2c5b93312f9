//! The queue that keeps the latest state of each key.

use std::fmt;
use std::hash::Hash;

use crate::config::KeyFunc;
use crate::line::Line;
use crate::progress::Progress;
use crate::{KeyError, Store, StoreError};

/// A queue that keeps one object a key, the latest: client-go's plain `FIFO`.
///
/// Its consumer gets each key once, with the state in which it is then. What is deleted before its turn never comes; so this is for a
/// consumer who need not know of deletions. Keys come out in the order in which they went in, and a key keeps its place when it
/// changes.
///
/// It is a plain struct: it takes no lock and never waits. [`SharedFifo`](crate::SharedFifo) puts it between threads or tasks. It
/// never holds more than one object a key.
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
    /// Whether it is one of the first list, which is not complete before it is popped or gone.
    is_initial: bool,
}

/// What a [`LatestFifo`] gives its consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest<K, T> {
    /// The key of the object.
    pub key: K,
    /// The object as it is now.
    pub object: T,
    /// Whether the key belongs to the first list.
    pub is_in_initial_list: bool,
}

impl<K: Clone + Eq + Hash, T: Clone> LatestFifo<K, T> {
    /// Creates an empty queue. `key_func` returns the key of an object and must always return the same key for the same object.
    pub fn new(key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static) -> Self {
        Self { key_func: Box::new(key_func), line: Line::new(), progress: Progress::default() }
    }

    /// Queues an object, or puts it in the place of the one that waits for its key.
    ///
    /// # Errors
    ///
    /// [`StoreError::Key`] if it has no key. Then the queue is as if it had not been called.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        let key = (self.key_func)(&object)?;
        self.progress.changed();
        self.put(key, object, false);
        Ok(())
    }

    /// The same as [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Result<(), StoreError> {
        self.add(object)
    }

    /// Queues an object, unless one waits for its key: to put something back that could not be processed.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
    pub fn add_if_not_present(&mut self, object: T) -> Result<(), StoreError> {
        match self.line.place_of(&(self.key_func)(&object)?) {
            Some(_) => Ok(()),
            None => self.add(object),
        }
    }

    /// Takes back what waits for the key of `object`, if something does.
    ///
    /// # Errors
    ///
    /// The same errors as [`add`](Self::add).
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

    /// Puts these in the place of all that waits, in the order of the list. Until a list has been processed as a whole, the newest
    /// list counts as the first.
    ///
    /// The resourceVersion is for other stores.
    ///
    /// # Errors
    ///
    /// [`StoreError::Key`] if one of them has no key. Then nothing changes.
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

    /// Takes out the object whose key has waited longest. The call also says that the one before has been
    /// [processed](Self::processed). None: nothing waits.
    pub fn pop(&mut self) -> Option<Latest<K, T>> {
        self.progress.processed();
        let (key, Waiting { object, .. }) = self.line.pop_front()?;
        Some(Latest { key, object, is_in_initial_list: self.progress.popped(1) })
    }

    /// Marks the popped items as processed.
    pub fn processed(&mut self) {
        self.progress.processed();
    }

    /// Whether the first list has been processed, if it came before anything else; what was deleted before its turn need not be. If
    /// something else came first, it is true from then on.
    pub fn has_synced(&self) -> bool {
        self.progress.has_synced()
    }

    /// Closes the queue. Queued items can still be popped, and later additions are still queued.
    pub fn close(&mut self) {
        self.progress.close();
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.progress.is_closed()
    }

    /// The queued objects, in their order.
    pub fn list(&self) -> Vec<T> {
        self.line.iter().map(|(.., waiting)| waiting.object.clone()).collect()
    }

    /// The queued keys, in their order.
    pub fn list_keys(&self) -> Vec<K> {
        self.line.iter().map(|(_, key, _)| key.clone()).collect()
    }

    /// The object that waits for a key.
    pub fn get_by_key(&self, key: &K) -> Option<&T> {
        Some(&self.line[self.line.place_of(key)?].object)
    }

    /// Returns the number of queued objects.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// It does not.
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

/// A resync has nothing to do: what is queued is delivered anyway.
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
