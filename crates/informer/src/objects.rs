//! Lists of cached objects.

use std::ops::Index;
use std::sync::Arc;

use crate::iter::Iter;
use crate::listed::Listed;
use crate::store::Pages;
use crate::stored::Stored;

/// An immutable list of a cache's objects at one moment, in no particular order.
/// [`Lister::list`](crate::Lister::list) returns this type.
///
/// A list shares the cache's pages, so creating or cloning a list of 100,000 objects takes a few microseconds. Reads
/// take no lock. If objects are [decoded on read](crate#when-objects-are-decoded), an iterator decodes each object when
/// it reaches the object.
///
/// A list keeps its objects in memory, even if the cache has replaced or deleted them. While the list exists, the first
/// write to each page of 64 objects copies the references in that page. Use a list for a single task and then drop it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_informer::Cache;
/// use pintle_meta::{Object, ObjectMeta, PartialObject};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let pods: Cache<PartialObject> = Cache::new();
///     pods.upsert(Arc::new(PartialObject { metadata: ObjectMeta::new("team-a", "web"), ..PartialObject::default() }))?;
///     let all = pods.list();
///     assert_eq!((all.len(), all[0].metadata.name.as_str()), (1, "web"));
///     for pod in &all {
///         println!("{}", pod.key());
///     }
///     let shared: Vec<Arc<PartialObject>> = all.into_iter().collect();
///     assert_eq!(shared.len(), 1);
///     Ok(())
/// }
/// ```
pub struct Objects<T>(Arc<Listed<T>>);

impl<T> Objects<T> {
    pub(crate) fn new(pages: Pages<Stored<T>>, unreadable: Vec<usize>) -> Self {
        Self(Arc::new(Listed::new(pages, unreadable)))
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an iterator over the objects.
    pub fn iter(&self) -> Iter<T> {
        self.clone().into_iter()
    }

    /// Calls `each` with every object. This method is the fastest way to read all objects, because the `Arc`s of
    /// decoded objects are not cloned.
    pub fn for_each(&self, mut each: impl FnMut(&Arc<T>)) {
        let mut slot = 0;
        while let Some(object) = self.0.next(&mut slot) {
            object.look(&mut each);
        }
    }

    /// Returns the object at `index`, or `None` if `index` is out of bounds.
    ///
    /// If this call decodes the object, the decoded object stays in memory until the list is dropped.
    pub fn get(&self, index: usize) -> Option<&Arc<T>> {
        self.0.get(index)
    }
}

/// # Panics
///
/// Panics if the index is out of bounds. Access by index also panics if the object's `Deserialize` implementation
/// rejects a state that it accepted before.
impl<T> Index<usize> for Objects<T> {
    type Output = Arc<T>;

    fn index(&self, index: usize) -> &Arc<T> {
        let len = self.len();
        match self.get(index) {
            Some(object) => object,
            None => panic!("no object at index {index} of a list of {len} objects"),
        }
    }
}

impl<T> Clone for Objects<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pintle_meta::debug_struct!(Objects<T> |self| { len = self.len(), .. });

impl<T> IntoIterator for Objects<T> {
    type Item = Arc<T>;
    type IntoIter = Iter<T>;

    fn into_iter(self) -> Iter<T> {
        Iter::of_list(self.0)
    }
}

impl<T> IntoIterator for &Objects<T> {
    type Item = Arc<T>;
    type IntoIter = Iter<T>;

    fn into_iter(self) -> Iter<T> {
        self.iter()
    }
}
