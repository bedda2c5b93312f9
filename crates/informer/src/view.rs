//! Snapshots of several caches, taken at the same moment.

use std::any::Any;
use std::sync::Arc;

use pintle_meta::Object;

use self::sealed::Hold;
use crate::lister::Lister;
use crate::snapshot::Snapshot;
use crate::store::Held;

/// Snapshots of several caches, taken at the same moment. None of the caches changes while the snapshots are taken.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_informer::{Cache, Lister, View};
/// use pintle_meta::{ObjectMeta, PartialObject};
///
/// let (pods, nodes) = (Arc::new(Cache::<PartialObject>::new()), Arc::new(Cache::<PartialObject>::new()));
/// let (all_pods, all_nodes) = (Lister::new(pods.clone()), Lister::new(nodes.clone()));
/// let node = PartialObject { metadata: ObjectMeta::new("", "n1"), ..PartialObject::default() };
/// nodes.replace(vec![Arc::new(node)], "7");
///
/// let view = View::new(&[&all_pods, &all_nodes]);
/// nodes.replace(Vec::new(), "8");
/// assert_eq!(view.of(&all_nodes).map(|nodes| nodes.len()), Some(1));
/// assert_eq!(view.resource_versions(), ["", "7"]);
/// ```
pub struct View {
    snapshots: Vec<(usize, Box<dyn Any + Send + Sync>)>,
    resource_versions: Vec<String>,
}

impl View {
    /// Takes a snapshot of each cache. Writers of the caches wait until the snapshots are taken. Readers of the caches
    /// do not wait.
    pub fn new(caches: &[&dyn Viewed]) -> Self {
        let mut held = Vec::with_capacity(caches.len());
        let mut order: Vec<(usize, &&dyn Viewed)> = caches.iter().enumerate().collect();
        // Lock the caches in a fixed order to prevent deadlocks between two views. Lock a cache that occurs several
        // times only once.
        order.sort_by_key(|(_, cache)| cache.address());
        for (at, cache) in order {
            let is_again = held.last().is_some_and(|(_, address, _)| *address == cache.address());
            let moment = (!is_again).then(|| cache.hold());
            held.push((at, cache.address(), moment));
        }
        let mut view = Self { snapshots: Vec::new(), resource_versions: vec![String::new(); caches.len()] };
        let mut version = String::new();
        for (at, address, moment) in held {
            if let Some(moment) = moment {
                let snapshot;
                (snapshot, version) = moment.take();
                view.snapshots.push((address, snapshot));
            }
            view.resource_versions[at].clone_from(&version);
        }
        view
    }

    /// Returns the snapshot of the lister's cache, or `None` if the cache is not part of the view.
    pub fn of<T: Object>(&self, lister: &Lister<T>) -> Option<Snapshot<T>> {
        let (_, snapshot) = self.snapshots.iter().find(|(address, _)| *address == lister.address())?;
        snapshot.downcast_ref::<Snapshot<T>>().cloned()
    }

    /// Returns the revision of each cache, in the same order as the argument of [`new`](Self::new).
    pub fn resource_versions(&self) -> &[String] {
        &self.resource_versions
    }
}

pintle_meta::debug_struct!(View { resource_versions, .. });

/// A cache that can be part of a [`View`]. Each [`Lister`] implements this trait.
pub trait Viewed: sealed::Hold {}

impl<T: Object> Viewed for Lister<T> {}

mod sealed {
    use super::{Any, Arc, Held, Lister, Object, Snapshot};
    use crate::index::Index;
    use crate::stored::Stored;

    /// Locks a cache to prevent commits from becoming visible.
    pub trait Hold {
        fn address(&self) -> usize;

        fn hold(&self) -> Box<dyn Moment + '_>;
    }

    /// A locked cache.
    pub trait Moment {
        fn take(self: Box<Self>) -> (Box<dyn Any + Send + Sync>, String);
    }

    impl<T: Object> Hold for Lister<T> {
        fn address(&self) -> usize {
            Arc::as_ptr(&self.cache().store).addr()
        }

        fn hold(&self) -> Box<dyn Moment + '_> {
            let indices = self.cache().indices();
            Box::new(Moments { held: self.cache().store.hold(), indices })
        }
    }

    struct Moments<'a, T> {
        held: Held<'a, Stored<T>>,
        indices: Arc<Vec<Index<T>>>,
    }

    impl<T: Object> Moment for Moments<'_, T> {
        fn take(self: Box<Self>) -> (Box<dyn Any + Send + Sync>, String) {
            let (pin, version) = self.held.pin(str::to_owned);
            (Box::new(Snapshot::new(pin, self.indices, version.clone())), version)
        }
    }
}
