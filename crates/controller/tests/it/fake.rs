//! A resource in memory: what a reflector lists and watches.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_informer::{InformerConfig, SharedInformer};
use pintle_meta::{
    ApiError, Encoded, List, ListMeta, ListOptions, Object, ObjectKey, ObjectMeta, ObjectSource, OwnerReference,
    Reason, Status, WatchEvent, WatchOptions,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Site {
    pub(crate) metadata: ObjectMeta,
}
pintle_meta::resource!(Site, "example.com/v1", "Site", "sites", Namespaced);

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Child {
    pub(crate) metadata: ObjectMeta,
}
pintle_meta::resource!(Child, "example.com/v1", "Child", "children", Namespaced);

/// An object whose metadata a server may write.
pub(crate) trait Stored: Object + Clone + Serialize + DeserializeOwned {
    fn meta(&mut self) -> &mut ObjectMeta;
    fn named(name: &str) -> Self;
}

impl Stored for Site {
    fn meta(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn named(name: &str) -> Self {
        Self { metadata: ObjectMeta::new("ns", name) }
    }
}

impl Stored for Child {
    fn meta(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn named(name: &str) -> Self {
        Self { metadata: ObjectMeta::new("ns", name) }
    }
}

impl Child {
    pub(crate) fn of(owner: &Site, name: &str) -> Self {
        let mut child = Self::named(name);
        child.metadata.owner_references.push(OwnerReference::controller_of(owner));
        child
    }
}

/// The objects of one resource. Clones are handles.
#[derive(Debug)]
pub(crate) struct Collection<T>(Arc<Mutex<Inner<T>>>);

#[derive(Debug)]
struct Inner<T> {
    objects: BTreeMap<ObjectKey, T>,
    version: u64,
    watchers: Vec<mpsc::UnboundedSender<Result<WatchEvent<T>, ApiError>>>,
    trouble: Trouble,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    None,
    /// Requests are answered with 403.
    Forbidden,
    /// Requests are never answered.
    Silent,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Stored> Collection<T> {
    pub(crate) fn new() -> Self {
        let (objects, watchers) = (BTreeMap::new(), Vec::new());
        Self(Arc::new(Mutex::new(Inner { objects, version: 1, watchers, trouble: Trouble::None })))
    }

    /// One that holds objects of these names.
    pub(crate) fn of(names: &[&str]) -> Self {
        let collection = Self::new();
        names.iter().for_each(|name| drop(collection.put(T::named(name))));
        collection
    }

    pub(crate) fn informer(&self) -> SharedInformer<T> {
        SharedInformer::new(Encoded(self.clone()), InformerConfig { seed: Some(7), ..InformerConfig::default() })
    }

    /// Creates or replaces an object. A new one gets a uid.
    pub(crate) fn put(&self, mut object: T) -> T {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        let version = inner.version.to_string();
        let key = object.key();
        let known = inner.objects.get(&key).map(|known| known.uid().to_owned());
        object.meta().uid = known.clone().unwrap_or_else(|| format!("uid-{version}"));
        object.meta().resource_version = version;
        inner.objects.insert(key, object.clone());
        let event = if known.is_some() { WatchEvent::Modified } else { WatchEvent::Added };
        inner.tell(&event(object.clone()));
        object
    }

    pub(crate) fn touch(&self, name: &str) {
        let object = self.0.lock().unwrap().objects[&ObjectKey::new("ns", name)].clone();
        self.put(object);
    }

    pub(crate) fn delete(&self, name: &str) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        let version = inner.version.to_string();
        let mut object = inner.objects.remove(&ObjectKey::new("ns", name)).unwrap();
        object.meta().resource_version = version;
        inner.tell(&WatchEvent::Deleted(object));
    }

    /// Deletes an object while all watches are down, and expires them, so that only a new list can tell.
    pub(crate) fn delete_unseen(&self, name: &str) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        inner.objects.remove(&ObjectKey::new("ns", name)).unwrap();
        let expired = Status::failure(410, Reason::Expired, "too old");
        inner.tell(&WatchEvent::Error(Box::new(expired)));
        inner.watchers.clear();
    }

    pub(crate) fn trouble(&self, trouble: Trouble) {
        self.0.lock().unwrap().trouble = trouble;
    }

    async fn in_trouble(&self) -> Result<(), ApiError> {
        let trouble = self.0.lock().unwrap().trouble;
        match trouble {
            Trouble::None => Ok(()),
            Trouble::Forbidden => Err(Status::failure(403, Reason::Forbidden, "you may not list this").into()),
            Trouble::Silent => pending().await,
        }
    }
}

impl<T: Clone> Inner<T> {
    fn tell(&mut self, event: &WatchEvent<T>) {
        self.watchers.retain(|watcher| watcher.send(Ok(event.clone())).is_ok());
    }
}

impl<T: Stored> ObjectSource for Collection<T> {
    type Object = T;
    type Events = Events<T>;

    async fn list(&self, _: &ListOptions) -> Result<List<T>, ApiError> {
        self.in_trouble().await?;
        let inner = self.0.lock().unwrap();
        let metadata = ListMeta { resource_version: inner.version.to_string(), ..ListMeta::default() };
        Ok(List { types: Default::default(), metadata, items: inner.objects.values().cloned().collect() })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Events<T>, ApiError> {
        self.in_trouble().await?;
        let mut inner = self.0.lock().unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        if options.send_initial_events || options.resource_version != inner.version.to_string() {
            return Err(Status::failure(410, Reason::Expired, "only from now on").into());
        }
        inner.watchers.push(sender);
        Ok(Events(events))
    }
}

#[derive(Debug)]
pub(crate) struct Events<T>(mpsc::UnboundedReceiver<Result<WatchEvent<T>, ApiError>>);

impl<T> Stream for Events<T> {
    type Item = Result<WatchEvent<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
