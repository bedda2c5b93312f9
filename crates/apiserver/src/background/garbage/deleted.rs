//! Remembers deleted custom resources, because their state cannot be read after their definition is deleted.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_json::Json;
use pintle_storage::{ResourceKey, Stored};

/// The deleted custom resources that still have dependents, like the `absentOwnerCache` of kube-controller-manager.
#[derive(Debug, Default)]
pub(super) struct DeletedOwners {
    /// The kinds of custom resources in the observed definitions, by store name.
    kinds: HashMap<ResourceKey, Arc<CustomKind>>,
    owners: HashMap<String, DeletedOwner>,
}

#[derive(Debug)]
struct CustomKind {
    served_versions: Vec<String>,
    kind: String,
}

#[derive(Debug)]
struct DeletedOwner {
    kind: Arc<CustomKind>,
    namespace: String,
    name: String,
}

impl DeletedOwners {
    /// Records the kind of a definition that was created or changed, or forgets the kind of a deleted definition.
    pub(super) fn record_definition(&mut self, definition: &Stored, exists: bool) {
        let definition =
            definition.only(&["spec.group", "spec.names.plural", "spec.versions", "status.acceptedNames.kind"]);
        let resource = pintle_apiextensions::resource(&definition);
        let store = pintle_apiextensions::stored_as(&resource.group, &resource.resource);
        let store: ResourceKey = store.to_string().into();
        if !exists {
            self.kinds.remove(&store);
            return;
        }
        let served = definition.list("/spec/versions").filter(|version| version.is_true("/served"));
        let kind = CustomKind {
            served_versions: served.map(|version| format!("{}/{}", resource.group, version.text("/name"))).collect(),
            kind: definition.text("/status/acceptedNames/kind").to_owned(),
        };
        self.kinds.insert(store, Arc::new(kind));
    }

    /// Records a deleted object. Ignores built-in resources, whose kinds are always served.
    pub(super) fn add(&mut self, resource: &ResourceKey, object: &Stored) {
        if let Some(kind) = self.kinds.get(resource) {
            let (namespace, name) = (object.namespace().into_owned(), object.name().into_owned());
            self.owners.insert(object.uid().into_owned(), DeletedOwner { kind: kind.clone(), namespace, name });
        }
    }

    /// Forgets the deletion of an object that exists. A restore removes and recreates an object with the same UID.
    pub(super) fn forget(&mut self, object: &Stored) {
        if !self.owners.is_empty() {
            self.owners.remove(&*object.uid());
        }
    }

    /// Forgets all objects except for the objects whose UIDs satisfy `is_kept`.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.owners.retain(|uid, _| is_kept(uid));
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.owners.remove(uid);
    }

    /// Returns `true` if an object in `namespace` has an owner reference to a deleted object. An owner reference must match the deleted
    /// object in all fields, not only in the UID. A real cluster keeps the dependents if any other field of the owner reference differs.
    pub(super) fn contains(&self, reference: &Json, namespace: &str) -> bool {
        self.owners.get(reference.text("/uid")).is_some_and(|owner| {
            owner.kind.served_versions.iter().any(|version| version == reference.text("/apiVersion"))
                && owner.kind.kind == reference.text("/kind")
                && owner.name == reference.text("/name")
                && (owner.namespace.is_empty() || owner.namespace == namespace)
        })
    }
}
