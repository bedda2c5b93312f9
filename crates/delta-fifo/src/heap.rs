//! A priority queue of objects by key.

use std::fmt;
use std::hash::Hash;

use crate::config::KeyFunc;
use crate::error::{KeyError, StoreError};
use crate::keyed::{Keyed, Place};

/// A priority queue that pops the smallest object first, like client-go's `Heap`.
///
/// The heap contains at most one object per key. Equal objects are popped in an arbitrary order. If a comparison
/// panics, the heap stays consistent and the current operation has no effect, except that [`bulk_add`](Self::bulk_add)
/// keeps the objects that it added before the panic.
///
/// The heap takes no lock and never waits. To share the heap between threads or tasks, use a
/// [`SharedFifo`](crate::SharedFifo).
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::Heap;
///
/// // Jobs with a name and a time.
/// let mut jobs = Heap::new(|&(name, _): &(&'static str, u32)| Ok(name), |left, right| left.1 < right.1);
/// jobs.add(("late", 20))?;
/// jobs.add(("early", 10))?;
/// jobs.add(("late", 5))?;
/// assert_eq!(jobs.pop(), Some(("late", 5)));
/// assert_eq!(jobs.pop(), Some(("early", 10)));
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct Heap<K, T> {
    key_func: KeyFunc<K, T>,
    less: Less<T>,
    items: Keyed<K, Entry<T>>,
    /// The indices of all items as a binary heap, in which no item is less than its parent.
    order: Vec<Place>,
    closed: bool,
}

type Less<T> = Box<dyn Fn(&T, &T) -> bool + Send + Sync>;

struct Entry<T> {
    object: T,
    at: usize,
}

impl<K: Clone + Eq + Hash, T: Clone> Heap<K, T> {
    /// Creates an empty heap. `key_func` returns an object's key. `less(a, b)` returns `true` if the heap must pop `a`
    /// before `b`. `key_func` and `less` must always return the same result for the same objects.
    pub fn new(
        key_func: impl Fn(&T) -> Result<K, KeyError> + Send + Sync + 'static,
        less: impl Fn(&T, &T) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (key_func, less) = (Box::new(key_func), Box::new(less));
        Self { key_func, less, items: Keyed::new(), order: Vec::new(), closed: false }
    }

    /// Adds an object, replacing any object with the same key.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Key`] if the object has no key, and [`StoreError::Closed`] if the heap is closed.
    pub fn add(&mut self, object: T) -> Result<(), StoreError> {
        self.bulk_add(vec![object])
    }

    /// Adds all objects. If one object is rejected, no objects are added.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn bulk_add(&mut self, objects: Vec<T>) -> Result<(), StoreError> {
        for (key, object) in self.with_keys(objects)? {
            let hash = self.items.hash(&key);
            match self.items.find(hash, &key) {
                Some(place) => {
                    let at = self.items[place].at;
                    let to = self.target(at, &object, self.order.len());
                    self.items[place].object = object;
                    self.sift(at, to);
                }
                None => {
                    let at = self.order.len();
                    let to = self.target(at, &object, at + 1);
                    self.order.push(self.items.insert(hash, key, Entry { object, at }));
                    self.sift(at, to);
                }
            }
        }
        Ok(())
    }

    /// Adds an object, unless the heap already contains an object with the same key.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add).
    pub fn add_if_not_present(&mut self, object: T) -> Result<(), StoreError> {
        match self.place_of(&(self.key_func)(&object)?) {
            Some(_) if !self.closed => Ok(()),
            _ => self.add(object),
        }
    }

    /// Removes and returns the object with the key of `object`, or `None` if there is no such object.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if `object` has no key.
    pub fn delete(&mut self, object: &T) -> Result<Option<T>, KeyError> {
        let place = self.place_of(&(self.key_func)(object)?);
        Ok(place.and_then(|place| self.remove(self.items[place].at)))
    }

    /// Removes and returns the smallest object, or `None` if the heap is empty.
    pub fn pop(&mut self) -> Option<T> {
        self.remove(0)
    }

    /// Returns the smallest object.
    pub fn peek(&self) -> Option<&T> {
        Some(&self.items[*self.order.first()?].object)
    }

    /// Returns the object with the key of `object`.
    ///
    /// # Errors
    ///
    /// Returns the key function's error if `object` has no key.
    pub fn get(&self, object: &T) -> Result<Option<&T>, KeyError> {
        Ok(self.get_by_key(&(self.key_func)(object)?))
    }

    /// Returns the object with key `key`.
    pub fn get_by_key(&self, key: &K) -> Option<&T> {
        Some(&self.items[self.place_of(key)?].object)
    }

    /// Returns all objects, in no particular order.
    pub fn list(&self) -> Vec<T> {
        self.order.iter().map(|place| self.items[*place].object.clone()).collect()
    }

    /// Returns all keys, in no particular order.
    pub fn list_keys(&self) -> Vec<K> {
        self.order.iter().filter_map(|place| Some(self.items.get(*place)?.0.clone())).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns `true` if the heap is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Closes the heap. A closed heap rejects new objects, but the remaining objects can still be popped.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns `true` if the heap is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn with_keys(&self, objects: Vec<T>) -> Result<Vec<(K, T)>, StoreError> {
        if self.closed {
            return Err(StoreError::Closed);
        }
        let with_key = |object| Ok(((self.key_func)(&object)?, object));
        objects.into_iter().map(with_key).collect()
    }

    fn place_of(&self, key: &K) -> Option<Place> {
        self.items.find(self.items.hash(key), key)
    }

    fn remove(&mut self, at: usize) -> Option<T> {
        let last = self.order.len().checked_sub(1)?;
        let to = if at == last { at } else { self.target(at, self.object(last), last) };
        self.swap(at, last);
        let place = self.order.pop()?;
        let (_, entry) = self.items.remove(place)?;
        self.sift(at, to);
        Some(entry.object)
    }

    /// Returns the index at which `object` belongs if it replaces the heap's item at `at`. Considers only the first
    /// `len` items. The heap stays consistent if `less` panics, because this method does not change the heap.
    fn target(&self, at: usize, object: &T, len: usize) -> usize {
        let mut to = at;
        while to > 0 && (self.less)(object, self.object((to - 1) / 2)) {
            to = (to - 1) / 2;
        }
        if to < at {
            return to;
        }
        loop {
            let children = [2 * to + 1, 2 * to + 2].into_iter().filter(|child| *child < len);
            let least = children.reduce(
                |left, right| {
                    if (self.less)(self.object(right), self.object(left)) { right } else { left }
                },
            );
            let Some(least) = least.filter(|least| (self.less)(self.object(*least), object)) else { return to };
            to = least;
        }
    }

    /// Moves an item up or down the heap's tree, from `at` to `to`.
    fn sift(&mut self, mut at: usize, to: usize) {
        while to < at {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        while at < to {
            // The child of `at` on the path to `to`.
            let levels = (to + 1).ilog2() - (at + 1).ilog2();
            let next = ((to + 1) >> (levels - 1)) - 1;
            self.swap(at, next);
            at = next;
        }
    }

    fn object(&self, at: usize) -> &T {
        &self.items[self.order[at]].object
    }

    fn swap(&mut self, left: usize, right: usize) {
        self.order.swap(left, right);
        for at in [left, right] {
            self.items[self.order[at]].at = at;
        }
    }
}

impl<K, T> fmt::Debug for Heap<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("len", &self.order.len()).field("closed", &self.closed).finish_non_exhaustive()
    }
}
