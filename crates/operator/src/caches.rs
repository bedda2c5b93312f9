//! A controller's caches, by type.

use std::any::{Any, TypeId, type_name};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_cluster::Cluster;
use pintle_controller::ReconcileError;
use pintle_informer::{AddIndexError, InformerConfig, Overlay, OverlayConfig, SharedInformer};
use pintle_meta::{
    ApiResource, FieldSelector, LabelSelector, Metadata, Object, ObjectKey, Resource, ResourceScope, Scope,
};
use pintle_restreq::Api;
use serde::de::DeserializeOwned;

/// The name of the index that finds children by the uid of their owner.
const OWNERS: &str = "pintle-operator/owners";

pub(crate) struct Caches {
    controller: String,
    by_type: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    /// The type and the resource of each informer, by name of the informer. `None` if informers for different
    /// resources have the same name.
    resources: HashMap<String, Option<(TypeId, ApiResource)>>,
    contains: HashMap<TypeId, Contains>,
    /// The types whose changes cause a reconciliation of the object's owner.
    owned: HashSet<TypeId>,
}

type Contains = Box<dyn Fn(&ObjectKey) -> bool + Send + Sync>;

/// The cache for one kind, which also reflects the controller's own writes.
pub(crate) struct Cached<T: Object> {
    pub(crate) informer: SharedInformer<T>,
    pub(crate) objects: Overlay<T>,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
}

impl<T: Object> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self {
            informer: self.informer.clone(),
            objects: self.objects.clone(),
            namespace: self.namespace.clone(),
            labels: self.labels.clone(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The selected namespace for namespaced kinds, or `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// The selectors for the reconciled kind.
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// The names and the label selectors of other kinds.
    pub(crate) labels_of: HashMap<TypeId, (&'static str, LabelSelector)>,
}

impl Selection {
    pub(crate) fn others(&self) -> Self {
        Self { labels: LabelSelector::default(), fields: FieldSelector::default(), ..self.clone() }
    }
}

impl Caches {
    pub(crate) fn new(controller: &str) -> Self {
        Self {
            controller: controller.into(),
            by_type: HashMap::new(),
            resources: HashMap::new(),
            contains: HashMap::new(),
            owned: HashSet::new(),
        }
    }

    /// Returns the cache of `T`. The first call creates the cache and its informer.
    pub(crate) fn open<T: Resource + DeserializeOwned>(
        &mut self,
        cluster: &Cluster,
        selection: &Selection,
    ) -> Cached<T> {
        if let Ok(cached) = self.get::<T>() {
            return cached.clone();
        }
        let namespace = selection.namespace.clone().filter(|_| T::Scope::SCOPE == Scope::Namespaced);
        let api = match &namespace {
            Some(namespace) => Api::dynamic(cluster.client().clone(), T::api_resource(), Some(namespace))
                .expect("a namespaced resource accepts a namespace"),
            None => cluster.api::<T>(),
        };
        let mut config = InformerConfig::default();
        let labels =
            selection.labels_of.get(&TypeId::of::<T>()).map_or(&selection.labels, |(_, labels)| labels).clone();
        config.reflector.label_selector = labels.clone();
        config.reflector.field_selector = selection.fields.clone();
        let informer = cluster.informer_with(api, config);
        let resource = || (TypeId::of::<T>(), T::api_resource());
        let known = self.resources.entry(informer.name().into()).or_insert_with(|| Some(resource()));
        known.take_if(|known| *known != resource());
        let objects = Overlay::new(informer.lister(), OverlayConfig::default());
        let cached = Cached { informer, objects, namespace, labels };
        self.by_type.insert(TypeId::of::<T>(), Box::new(cached.clone()));
        let found = cached.clone();
        self.contains.insert(TypeId::of::<T>(), Box::new(move |key| found.get(key).is_some()));
        cached
    }

    /// Returns the type and the resource of the informer with the given name. Returns `None` if the informer's name is
    /// not unique.
    pub(crate) fn resource(&self, informer: &str) -> Option<&(TypeId, ApiResource)> {
        self.resources.get(informer)?.as_ref()
    }

    pub(crate) fn contains(&self, type_id: TypeId, key: &ObjectKey) -> bool {
        self.contains.get(&type_id).is_some_and(|contains| contains(key))
    }

    /// Returns the cache of `T`. If the cache of `T` does not exist, the error explains how to declare it.
    pub(crate) fn get<T: Object>(&self) -> Result<&Cached<T>, ReconcileError> {
        let cached = self.by_type.get(&TypeId::of::<T>()).and_then(|cached| cached.downcast_ref());
        cached.ok_or_else(|| {
            let name = short_name::<T>();
            let controller = &self.controller;
            ReconcileError::terminal(format!(
                "controller {controller:?} does not cache {name}: add `.owns::<{name}>()` to the controller if it creates these objects, \
                 or `.reads::<{name}>()` if it only reads them"
            ))
        })
    }

    pub(crate) fn own<T: Object>(&mut self, cached: &Cached<T>) {
        cached.index_owners();
        self.owned.insert(TypeId::of::<T>());
    }

    /// Returns the cache of the owned type `T`. If `T` is not declared as owned, the error explains how to declare it.
    /// The controller would not notice deleted children of a type that is not owned.
    pub(crate) fn get_owned<T: Object>(&self) -> Result<&Cached<T>, ReconcileError> {
        let cached = self.get::<T>()?;
        if !self.owned.contains(&TypeId::of::<T>()) {
            let (controller, name) = (&self.controller, short_name::<T>());
            return Err(ReconcileError::terminal(format!(
                "controller {controller:?} caches {name} but does not own it: add `.owns::<{name}>()` to the controller, \
                 or write the object with `apply_unowned`"
            )));
        }
        Ok(cached)
    }
}

fn short_name<T>() -> &'static str {
    type_name::<T>().rsplit("::").next().unwrap_or_default()
}

fn log_error(added: Result<(), AddIndexError>) {
    match added {
        Ok(()) | Err(AddIndexError::Exists { .. }) => {}
        Err(error) => tracing::error!(%error, "cannot index the cached objects"),
    }
}

impl<T: Object> Cached<T> {
    /// Indexes the objects by owner. Controllers that share an informer also share this index.
    fn index_owners(&self) {
        let owners = |child: &dyn Metadata| child.owners().iter().map(|owner| owner.uid.to_owned()).collect::<Vec<_>>();
        log_error(self.informer.add_metadata_index(OWNERS, owners));
    }

    /// Adds an index with a new name. Logs an error, for example if `values` panics for a cached object.
    pub(crate) fn add_index(&self, name: &str, values: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        log_error(self.informer.add_index(name, values));
    }

    pub(crate) fn owned_by(&self, uid: &str) -> Result<Vec<Arc<T>>, ReconcileError> {
        Ok(self.objects.by_index(OWNERS, uid)?)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.objects.get(key)
    }
}

pintle_meta::debug_struct!(Caches |self| { controller, kinds = self.by_type.len() });
