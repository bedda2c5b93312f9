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
    /// Records the kind that a definition declares, or forgets the kind if the definition was deleted.
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

    /// Records a deleted object. Ignores objects of built-in kinds, because built-in kinds are always served.
    pub(super) fn add(&mut self, resource: &ResourceKey, object: &Stored) {
        if let Some(kind) = self.kinds.get(resource) {
            let (namespace, name) = (object.namespace().into_owned(), object.name().into_owned());
            self.owners.insert(object.uid().into_owned(), DeletedOwner { kind: kind.clone(), namespace, name });
        }
    }

    /// Forgets the deletion of an object that exists again. A restore removes and recreates an object with the same
    /// UID.
    pub(super) fn forget(&mut self, object: &Stored) {
        if !self.owners.is_empty() {
            self.owners.remove(&*object.uid());
        }
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.owners.retain(|uid, _| is_kept(uid));
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.owners.remove(uid);
    }

    /// Returns `true` if an object in `namespace` has an owner reference to a deleted object. An owner reference
    /// matches only if all its fields equal the fields of the deleted object. In a real cluster, the UID alone is also
    /// not sufficient.
    pub(super) fn contains(&self, reference: &Json, namespace: &str) -> bool {
        self.owners.get(reference.text("/uid")).is_some_and(|owner| {
            owner.kind.served_versions.iter().any(|version| version == reference.text("/apiVersion"))
                && owner.kind.kind == reference.text("/kind")
                && owner.name == reference.text("/name")
                && (owner.namespace.is_empty() || owner.namespace == namespace)
        })
    }
}
