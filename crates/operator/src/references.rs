//! References from the reconciled object to objects of other kinds.

use std::sync::atomic::{AtomicU64, Ordering};

use pintle_controller::Handler;
use pintle_informer::{ResourceEvent, SharedInformer, UnknownIndex};
use pintle_meta::{Object, ObjectKey, Resource, ResourceScope, Scope};

use crate::caches::Cached;

/// A function that maps an object to a list, such as `|site: &Website| site.spec.secret.clone()`. The list is any type
/// that implements [`IntoIterator`], such as an [`Option`] or a [`Vec`].
///
/// All functions with such a signature implement this trait. The trait keeps the type of the list out of the generic
/// parameters of [`references`](crate::ControllerBuilder::references) and [`watches`](crate::ControllerBuilder::watches).
pub trait ListFn<T>: Fn(&T) -> Self::List + Send + Sync + 'static {
    /// The returned list.
    type List: IntoIterator;
}

impl<T, F, List> ListFn<T> for F
where
    F: Fn(&T) -> List + Send + Sync + 'static,
    List: IntoIterator,
{
    type List = List;
}

/// A reference to another object: the name of an object, or the [`ObjectKey`] of an object in any namespace.
pub trait Reference: sealed::Sealed {
    #[doc(hidden)]
    const HAS_NAMESPACE: bool;

    /// Returns the key of the referenced object. A name without a namespace refers to an object in the namespace
    /// `namespace`.
    #[doc(hidden)]
    fn key(self, namespace: &str) -> ObjectKey;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for String {}
    impl Sealed for pintle_meta::ObjectKey {}
}

impl Reference for String {
    const HAS_NAMESPACE: bool = false;

    fn key(self, namespace: &str) -> ObjectKey {
        ObjectKey::new(namespace, &self)
    }
}

impl Reference for ObjectKey {
    const HAS_NAMESPACE: bool = true;

    fn key(self, _: &str) -> ObjectKey {
        self
    }
}

/// Returns the problem of a reference from `K` to `T` that does not identify an object, if any.
pub(crate) fn problem<K, T, List>(_: &impl ListFn<K, List = List>) -> Option<String>
where
    K: Resource,
    T: Resource,
    List: IntoIterator<Item: Reference>,
{
    let lacks_namespace = K::Scope::SCOPE == Scope::Cluster && T::Scope::SCOPE == Scope::Namespaced;
    (lacks_namespace && !<List::Item as Reference>::HAS_NAMESPACE).then(|| {
        let (from, to) = (K::KIND, T::KIND);
        format!(
            "it references {to} by name, but {from} is cluster-scoped, so the namespace of the {to} is unknown; return an \
             `ObjectKey` instead of a name"
        )
    })
}

/// A handler that reconciles all objects that refer to the object of the event.
pub(crate) struct EnqueueReferrers<K: Object> {
    referrers: SharedInformer<K>,
    index: String,
}

impl<K: Resource> EnqueueReferrers<K> {
    /// Adds an index that finds the objects of type `K` by their references to objects of type `T`.
    pub(crate) fn new<T: Resource>(
        referrers: &Cached<K>,
        references: impl ListFn<K, List: IntoIterator<Item: Reference>>,
    ) -> Self {
        let keys = move |object: &K| {
            let namespace = match T::Scope::SCOPE {
                Scope::Namespaced => object.namespace().unwrap_or_default(),
                Scope::Cluster => "",
            };
            references(object).into_iter().map(|reference| reference.key(namespace).to_string()).collect::<Vec<_>>()
        };
        // Controllers share informers, so each function needs an index with its own name. The index stays until the
        // informer is dropped.
        static INDICES: AtomicU64 = AtomicU64::new(0);
        let index = format!("pintle-operator/references/{}", INDICES.fetch_add(1, Ordering::Relaxed));
        referrers.add_index(&index, keys);
        Self { referrers: referrers.informer.clone(), index }
    }
}

impl<K: Object, T: Object> Handler<T> for EnqueueReferrers<K> {
    fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
        let snapshot = self.referrers.lister().snapshot();
        match snapshot.index_keys(&self.index, event.key().as_str()) {
            Ok(referrers) => referrers.into_iter().for_each(enqueue),
            // The function has panicked on an object before the index existed, so each object can be a referrer.
            Err(UnknownIndex { .. }) => snapshot.iter().for_each(|object| enqueue(object.key())),
        }
    }
}
