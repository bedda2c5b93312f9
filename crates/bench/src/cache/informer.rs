//! A Pintle informer with a handler that counts objects.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pintle_informer::{
    HandlerGuard, InformerConfig, Projection, ReflectorConfig, ResourceEvent, ResourceEventHandler, SharedInformer,
    Subscription,
};
use pintle_meta::{ClientConfig, NamespaceScope, Object, Resource};
use pintle_restreq::{Api, RestClient};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::Setting;

#[derive(Clone, Copy)]
pub(super) enum Kept {
    All,
    /// Keeps all fields except managed fields, like an informer by default.
    Unmanaged,
    /// Keeps all fields except managed fields and annotations.
    Stripped,
}

impl Kept {
    fn projection(self) -> Projection {
        match self {
            Self::All => Projection::whole(),
            Self::Unmanaged => Projection::default(),
            Self::Stripped => Projection::default().without(&["metadata", "annotations"]),
        }
    }
}

pub(super) trait Kind: Object + Resource<Scope = NamespaceScope> + DeserializeOwned {}

impl<T: Object + Resource<Scope = NamespaceScope> + DeserializeOwned> Kind for T {}

/// A handler's work for each new state of an object.
#[derive(Clone, Copy)]
pub(super) enum Handling {
    Metadata,
    /// Reads a field of the object, which may decode the object.
    Object,
}

pub(super) fn informer<T: Kind>(setting: &Setting, kept: Kept, streaming_list: bool) -> SharedInformer<T> {
    let client =
        RestClient::new(ClientConfig::new(setting.server.unwrap_or_default())).expect("the server has an address");
    let config = InformerConfig {
        reflector: ReflectorConfig { streaming_list, ..ReflectorConfig::default() },
        projection: kept.projection(),
        ..InformerConfig::default()
    };
    SharedInformer::new(Api::<T>::all(client), config)
}

/// A handler that counts objects until it has received the newest state of `wanted` distinct objects.
pub(super) struct Counter {
    /// The newest resource version of the objects. An object with this or a later resource version is in
    /// its newest state.
    newest: u64,
    wanted: usize,
    handling: Handling,
    counts: Arc<Counts>,
    done: watch::Sender<Option<Instant>>,
}

#[derive(Default)]
struct Counts {
    adds: AtomicUsize,
    updates: AtomicUsize,
    newest: AtomicUsize,
}

pub(super) struct Counted {
    counts: Arc<Counts>,
    done: watch::Receiver<Option<Instant>>,
    pub(super) guard: HandlerGuard,
}

impl Counter {
    /// Adds a handler that counts updates until `wanted` objects have reached resource version `newest`.
    pub(super) fn add<T: Object>(
        subscription: Subscription<T>,
        newest: u64,
        wanted: usize,
        handling: Handling,
    ) -> Counted {
        let (counts, done) = (Arc::<Counts>::default(), watch::Sender::new(None));
        let (shared, is_done) = (counts.clone(), done.subscribe());
        let guard = subscription.handle(Self { newest, wanted, handling, counts, done });
        Counted { counts: shared, done: is_done, guard }
    }

    fn updated(&self, resource_version: &str) {
        self.counts.updates.fetch_add(1, Ordering::Relaxed);
        if resource_version.parse().is_ok_and(|version: u64| version >= self.newest)
            && self.counts.newest.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted
        {
            self.done.send_replace(Some(Instant::now()));
        }
    }
}

impl<T: Object> ResourceEventHandler<T> for Counter {
    fn on_add(&self, _: &Arc<T>, _: bool) {
        self.counts.adds.fetch_add(1, Ordering::Relaxed);
    }

    fn on_update(&self, _: &Arc<T>, new: &Arc<T>) {
        self.updated(new.resource_version());
    }

    fn on_delete(&self, _: &Arc<T>, _: bool) {}

    /// Reads only the metadata if possible, which does not decode the object.
    fn on_event(&self, event: &ResourceEvent<T>) {
        match event {
            ResourceEvent::Added { .. } => _ = self.counts.adds.fetch_add(1, Ordering::Relaxed),
            ResourceEvent::Updated { new, .. } => {
                if let Handling::Object = self.handling {
                    black_box(&**new);
                }
                self.updated(new.resource_version());
            }
            ResourceEvent::Deleted { .. } => {}
        }
    }
}

impl Counted {
    /// Waits until the handler has received all wanted objects, and returns the time.
    pub(super) async fn done(&mut self) -> Instant {
        let done = self.done.wait_for(Option::is_some).await.expect("the handler exists");
        done.expect("the condition checked it")
    }

    pub(super) fn adds(&self) -> usize {
        self.counts.adds.load(Ordering::Relaxed)
    }

    pub(super) fn updates(&self) -> usize {
        self.counts.updates.load(Ordering::Relaxed)
    }
}
