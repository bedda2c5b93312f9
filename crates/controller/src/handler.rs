//! Which keys to reconcile after an event.

use std::fmt;

use pintle_informer::{Event, Lister};
use pintle_meta::{ApiResource, Metadata, Object, ObjectKey, Resource};

/// Turns an event into keys to reconcile: controller-runtime's `EventHandler`.
pub trait Handler<T>: Send + Sync + 'static {
    /// Calls `enqueue` with each key. It should be quick: the events of the source wait for it.
    fn handle(&self, event: &Event<T>, enqueue: &mut dyn FnMut(ObjectKey));
}

/// The key of the object itself: controller-runtime's `EnqueueRequestForObject`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnqueueObject;

impl<T: Object> Handler<T> for EnqueueObject {
    fn handle(&self, event: &Event<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
        enqueue(event.key());
    }
}

/// The keys of the object's owners of one kind: controller-runtime's `EnqueueRequestForOwner`.
///
/// Owners are matched by group and kind, so that a new version of the owner's API changes nothing. An update yields the owners
/// before and after.
pub struct EnqueueOwner {
    group: String,
    kind: String,
    is_namespaced: bool,
    controllers_only: bool,
    /// The uid of the owner that is in the cache by that key, if there is one.
    known_uid: Option<UidOf>,
}

type UidOf = Box<dyn Fn(&ObjectKey) -> Option<String> + Send + Sync>;

impl EnqueueOwner {
    /// Owners of kind `O` that manage the object.
    pub fn of<O: Resource>() -> Self {
        Self::of_resource(&O::api_resource())
    }

    /// Owners of a kind that is known at run time.
    pub fn of_resource(owner: &ApiResource) -> Self {
        Self {
            group: owner.group_version.group.clone(),
            kind: owner.kind.clone(),
            is_namespaced: owner.scope == pintle_meta::Scope::Namespaced,
            controllers_only: true,
            known_uid: None,
        }
    }

    /// Those owners too that do not manage the object.
    #[must_use]
    pub fn all_owners(mut self) -> Self {
        self.controllers_only = false;
        self
    }

    /// Passes over references to an owner that is gone, and in whose place another of the same name stands. An owner that
    /// `owners` does not have is enqueued: it may be about to appear, or have something left to clean up.
    #[must_use]
    pub fn among<O: Object>(mut self, owners: Lister<O>) -> Self {
        self.known_uid = Some(Box::new(move |key| Some(owners.get(key)?.uid().to_owned())));
        self
    }

    fn owners_of(&self, dependent: &dyn Metadata, enqueue: &mut dyn FnMut(ObjectKey)) {
        for owner in dependent.owners() {
            let matches = owner.kind == self.kind && owner.group() == self.group;
            if !matches || (self.controllers_only && !owner.controller) {
                continue;
            }
            let namespace = if self.is_namespaced { dependent.namespace() } else { "" };
            let key = ObjectKey::new(namespace, owner.name);
            let known = self.known_uid.as_ref().and_then(|known| known(&key));
            if known.is_none_or(|uid| uid == owner.uid) {
                enqueue(key);
            }
        }
    }
}

impl<T: Object> Handler<T> for EnqueueOwner {
    fn handle(&self, event: &Event<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
        if let Event::Updated { old, .. } = event {
            self.owners_of(old.metadata(), enqueue);
        }
        self.owners_of(event.object().metadata(), enqueue);
    }
}

impl fmt::Debug for EnqueueOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueOwner")
            .field("group", &self.group)
            .field("kind", &self.kind)
            .field("controllers_only", &self.controllers_only)
            .finish_non_exhaustive()
    }
}

/// Whatever keys a function names: controller-runtime's `EnqueueRequestsFromMapFunc`. An update yields those of the old state
/// and those of the new.
#[derive(Clone, Copy, Debug)]
pub struct EnqueueMapped<F>(F);

impl<F> EnqueueMapped<F> {
    /// The keys that `map` names for an object.
    pub fn new<T, I>(map: F) -> Self
    where
        F: Fn(&T) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectKey>,
    {
        Self(map)
    }
}

impl<T, F, I> Handler<T> for EnqueueMapped<F>
where
    F: Fn(&T) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = ObjectKey>,
{
    fn handle(&self, event: &Event<T>, enqueue: &mut dyn FnMut(ObjectKey)) {
        if let Event::Updated { old, .. } = event {
            (self.0)(old).into_iter().for_each(&mut *enqueue);
        }
        (self.0)(event.object()).into_iter().for_each(enqueue);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_informer::Indexer;
    use pintle_meta::{DynamicObject, ObjectMeta, OwnerReference, Scope};

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

    fn keys(handler: &impl Handler<DynamicObject>, event: &Event<DynamicObject>) -> Vec<String> {
        let mut keys = Vec::new();
        handler.handle(event, &mut |key| keys.push(key.to_string()));
        keys
    }

    fn added(object: Arc<DynamicObject>) -> Event<DynamicObject> {
        Event::Added { object, is_initial: false }
    }

    fn sites(scope: Scope) -> ApiResource {
        ApiResource::new("example.com/v1", "Website", "websites", scope)
    }

    #[test]
    fn an_owner_is_matched_by_group_and_kind_in_any_version() {
        let object = added(dependent(vec![
            owner("example.com/v1beta1", "Website", "old-version", true),
            owner("example.com/v1", "Website", "no-controller", false),
            owner("other.com/v1", "Website", "other-group", true),
            owner("example.com/v1", "Webshop", "other-kind", true),
        ]));
        let handler = EnqueueOwner::of_resource(&sites(Scope::Namespaced));
        assert_eq!(keys(&handler, &object), ["ns/old-version"]);
        assert_eq!(keys(&handler.all_owners(), &object), ["ns/old-version", "ns/no-controller"]);
        assert_eq!(keys(&EnqueueOwner::of_resource(&sites(Scope::Cluster)), &object), ["old-version"]);
    }

    #[test]
    fn an_object_that_changes_hands_yields_both_owners() {
        let owned_by = |name| dependent(vec![owner("example.com/v1", "Website", name, true)]);
        let event = Event::Updated { old: owned_by("a"), new: owned_by("b") };
        assert_eq!(keys(&EnqueueOwner::of_resource(&sites(Scope::Namespaced)), &event), ["ns/a", "ns/b"]);
    }

    #[test]
    fn a_reference_to_a_former_owner_of_the_name_is_passed_over() {
        let owners = Arc::new(Indexer::<DynamicObject>::new());
        let with_uid = |uid: &str| {
            let metadata = ObjectMeta { uid: uid.into(), ..ObjectMeta::new("ns", "site") };
            Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
        };
        let handler = EnqueueOwner::of_resource(&sites(Scope::Namespaced)).among(Lister::new(owners.clone()));
        let event = added(dependent(vec![owner("example.com/v1", "Website", "site", true)]));
        assert_eq!(keys(&handler, &event), ["ns/site"], "nobody knows that owner yet");
        owners.upsert(with_uid("uid-of-site"));
        assert_eq!(keys(&handler, &event), ["ns/site"]);
        owners.upsert(with_uid("another"));
        assert!(keys(&handler, &event).is_empty());
    }

    #[test]
    fn a_function_is_asked_about_the_old_state_and_the_new() {
        let names = |object: &DynamicObject| {
            let names = object.metadata.finalizers.iter();
            names.map(|name| ObjectKey::new("ns", name)).collect::<Vec<_>>()
        };
        let with = |name: &str| {
            let metadata = ObjectMeta { finalizers: vec![name.into()], ..ObjectMeta::default() };
            Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
        };
        let event = Event::Updated { old: with("a"), new: with("b") };
        assert_eq!(keys(&EnqueueMapped::new(names), &event), ["ns/a", "ns/b"]);
    }
}
