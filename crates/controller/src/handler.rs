//! Handlers, which map an event to the keys to reconcile.

use pintle_informer::ResourceEvent;
use pintle_meta::{ApiResource, Metadata, Object, ObjectKey, Scope};

/// Maps an event to the keys to reconcile, like controller-runtime's `EventHandler`. `K` is the key type: see
/// [`RequestKey`](crate::RequestKey). Functions of type `Fn(&ResourceEvent<T>, &mut dyn FnMut(K))` are also handlers.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_controller::Handler;
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::{Object, ObjectKey, ObjectMeta, PartialObject};
///
/// struct EnqueueNamespace;
///
/// impl<T: Object> Handler<T> for EnqueueNamespace {
///     fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
///         enqueue(ObjectKey::new("", event.object().namespace().unwrap_or_default()));
///     }
/// }
///
/// let pod = PartialObject { metadata: ObjectMeta::new("team-a", "web-1"), ..PartialObject::default() };
/// let event = ResourceEvent::Added { object: pod.into(), is_initial: false };
/// EnqueueNamespace.handle(&event, &mut |key| assert_eq!(key.as_str(), "team-a"));
/// ```
pub trait Handler<T, K = ObjectKey>: Send + Sync + 'static {
    /// Calls `enqueue` with each key to reconcile. The source waits for this method before it delivers its next event,
    /// so this method should be fast.
    fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(K));
}

impl<T, K, F> Handler<T, K> for F
where
    F: Fn(&ResourceEvent<T>, &mut dyn FnMut(K)) + Send + Sync + 'static,
{
    fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(K)) {
        self(event, enqueue);
    }
}

/// A handler that reconciles the object of the event, like controller-runtime's `EnqueueRequestForObject`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnqueueObject;

impl<T: Object> Handler<T> for EnqueueObject {
    fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
        enqueue(event.key());
    }
}

/// A handler that reconciles the owners of an object, like controller-runtime's `EnqueueRequestForOwner`. The handler
/// reconciles only owners of one kind.
///
/// The handler matches owner references by group, kind and name. The API version and the uid of an owner reference are
/// ignored. The uid is ignored because a re-created owner must also handle the dependents of the deleted owner. For an
/// update, the handler returns the owners from both the old and the new state of the object.
///
/// API servers do not validate the names in owner references, so the handler skips owners that cannot exist.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_controller::{EnqueueOwner, Handler};
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::{ApiResource, ObjectMeta, OwnerReference, PartialObject, Scope};
///
/// let mut metadata = ObjectMeta::new("team-a", "blog-7c9");
/// let (api_version, kind, name) = ("example.com/v1".into(), "Website".into(), "blog".into());
/// metadata.owner_references =
///     vec![OwnerReference { api_version, kind, name, controller: Some(true), ..OwnerReference::default() }];
/// let pod = PartialObject { metadata, ..PartialObject::default() };
///
/// let sites = ApiResource::new("example.com/v1", "Website", "websites", Scope::Namespaced);
/// let mut keys = Vec::new();
/// let event = ResourceEvent::Added { object: pod.into(), is_initial: false };
/// EnqueueOwner::new(&sites).handle(&event, &mut |key| keys.push(key.to_string()));
/// assert_eq!(keys, ["team-a/blog"]);
/// ```
#[derive(Clone, Debug)]
pub struct EnqueueOwner {
    /// The API group of the owners.
    pub group: String,
    /// The kind of the owners.
    pub kind: String,
    /// The scope of the owners. A namespaced owner is in the same namespace as its dependents.
    pub scope: Scope,
    /// Whether the handler ignores owner references that are not controller references (`controller: true`). The
    /// default is true.
    pub controllers_only: bool,
}

impl EnqueueOwner {
    /// Creates a handler for owners of kind `owner`. By default, the handler reconciles only the owner in the object's
    /// controller reference.
    pub fn new(owner: &ApiResource) -> Self {
        let ApiResource { group_version, kind, scope, .. } = owner.clone();
        Self { group: group_version.group, kind, scope, controllers_only: true }
    }

    fn owners_of(&self, dependent: &dyn Metadata, enqueue: &mut dyn FnMut(ObjectKey)) {
        let namespace = match self.scope {
            Scope::Namespaced => dependent.namespace(),
            Scope::Cluster => "",
        };
        for owner in dependent.owners() {
            let matches = owner.kind == self.kind && owner.group() == self.group;
            if matches && (owner.controller || !self.controllers_only) {
                let key = ObjectKey::new(namespace, owner.name);
                // API servers do not validate the name of an owner. A request with an impossible name always fails.
                if key.is_possible(self.scope) {
                    enqueue(key);
                }
            }
        }
    }
}

impl<T: Object> Handler<T> for EnqueueOwner {
    fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
        if let ResourceEvent::Updated { old, .. } = event {
            self.owners_of(old.metadata(), enqueue);
        }
        self.owners_of(event.object().metadata(), enqueue);
    }
}

/// A handler that reconciles the keys returned by a function, like controller-runtime's `EnqueueRequestsFromMapFunc`.
/// For an update, the function is called with the old object and with the new object. Keys can have any type: see
/// [`RequestKey`](crate::RequestKey).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_controller::{EnqueueMapped, Handler};
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::{ObjectKey, ObjectMeta, PartialObject};
///
/// let by_label = EnqueueMapped::new(|pod: &PartialObject| {
///     pod.metadata.labels.get("site").map(|site| ObjectKey::new(&pod.metadata.namespace, site))
/// });
///
/// let mut metadata = ObjectMeta::new("team-a", "web-1");
/// metadata.labels.insert("site".into(), "blog".into());
/// let pod = PartialObject { metadata, ..PartialObject::default() };
/// let mut keys = Vec::new();
/// let event = ResourceEvent::Added { object: pod.into(), is_initial: false };
/// by_label.handle(&event, &mut |key| keys.push(key.to_string()));
/// assert_eq!(keys, ["team-a/blog"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EnqueueMapped<F>(F);

impl<F> EnqueueMapped<F> {
    /// Creates a handler that calls `map` with the object of an event and reconciles the returned keys.
    pub fn new<T, I>(map: F) -> Self
    where
        F: Fn(&T) -> I + Send + Sync + 'static,
        I: IntoIterator,
    {
        Self(map)
    }
}

impl<T, K, F, I> Handler<T, K> for EnqueueMapped<F>
where
    F: Fn(&T) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = K>,
{
    fn handle(&self, event: &ResourceEvent<T>, enqueue: &mut dyn FnMut(K)) {
        if let ResourceEvent::Updated { old, .. } = event {
            (self.0)(old).into_iter().for_each(&mut *enqueue);
        }
        (self.0)(event.object()).into_iter().for_each(enqueue);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_meta::{DynamicObject, ObjectMeta, OwnerReference};

    use super::*;

    fn owner(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: format!("uid-of-{name}"),
            controller: Some(controller),
            block_owner_deletion: None,
        }
    }

    fn dependent(owners: Vec<OwnerReference>) -> Arc<DynamicObject> {
        let metadata = ObjectMeta { owner_references: owners, ..ObjectMeta::new("ns", "dependent") };
        Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
    }

    fn keys(handler: &impl Handler<DynamicObject>, event: &ResourceEvent<DynamicObject>) -> Vec<String> {
        let mut keys = Vec::new();
        handler.handle(event, &mut |key| keys.push(key.to_string()));
        keys
    }

    fn added(object: Arc<DynamicObject>) -> ResourceEvent<DynamicObject> {
        ResourceEvent::Added { object: object.into(), is_initial: false }
    }

    fn sites(scope: Scope) -> ApiResource {
        ApiResource::new("example.com/v1", "Website", "websites", scope)
    }

    #[test]
    fn owner_matches_by_group_and_kind_in_any_version() {
        let object = added(dependent(vec![
            owner("example.com/v1beta1", "Website", "old-version", true),
            owner("example.com/v1", "Website", "no-controller", false),
            owner("other.com/v1", "Website", "other-group", true),
            owner("example.com/v1", "Webshop", "other-kind", true),
        ]));
        let handler = EnqueueOwner::new(&sites(Scope::Namespaced));
        assert_eq!(keys(&handler, &object), ["ns/old-version"]);
        let all = EnqueueOwner { controllers_only: false, ..handler };
        assert_eq!(keys(&all, &object), ["ns/old-version", "ns/no-controller"]);
        assert_eq!(keys(&EnqueueOwner::new(&sites(Scope::Cluster)), &object), ["old-version"]);
    }

    #[test]
    fn impossible_owner_is_skipped() {
        let owners = ["", ".", "..", "a/b", "a%b", "a"].map(|name| owner("example.com/v1", "Website", name, true));
        let object = added(dependent(owners.clone().into()));
        assert_eq!(keys(&EnqueueOwner::new(&sites(Scope::Namespaced)), &object), ["ns/a"]);
        let metadata = ObjectMeta { owner_references: owners.into(), ..ObjectMeta::new("", "dependent") };
        let object = added(Arc::new(DynamicObject { metadata, ..DynamicObject::default() }));
        assert!(keys(&EnqueueOwner::new(&sites(Scope::Namespaced)), &object).is_empty(), "no namespace");
        assert_eq!(keys(&EnqueueOwner::new(&sites(Scope::Cluster)), &object), ["a"]);
    }

    #[test]
    fn update_of_the_owner_reference_yields_both_owners() {
        let owned_by = |name| dependent(vec![owner("example.com/v1", "Website", name, true)]);
        let event = ResourceEvent::Updated { old: owned_by("a").into(), new: owned_by("b").into() };
        assert_eq!(keys(&EnqueueOwner::new(&sites(Scope::Namespaced)), &event), ["ns/a", "ns/b"]);
    }

    #[test]
    fn mapper_sees_the_old_and_the_new_state() {
        let names = |object: &DynamicObject| {
            let names = object.metadata.finalizers.iter();
            names.map(|name| ObjectKey::new("ns", name)).collect::<Vec<_>>()
        };
        let with = |name: &str| {
            let metadata = ObjectMeta { finalizers: vec![name.into()], ..ObjectMeta::default() };
            Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
        };
        let event = ResourceEvent::Updated { old: with("a").into(), new: with("b").into() };
        assert_eq!(keys(&EnqueueMapped::new(names), &event), ["ns/a", "ns/b"]);
    }
}
