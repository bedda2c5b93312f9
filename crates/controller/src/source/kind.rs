//! The objects of an informer as a source.

use std::fmt;
use std::sync::Arc;

use pintle_informer::{InformerState, ResourceEvent, SharedInformer};
use pintle_meta::{ApiResource, Object};
use pintle_workqueue::AddOptions;

use super::{Feed, Source};
use crate::handler::Handler;
use crate::panic::catch;
use crate::predicate::Predicate;
use crate::{LOW_PRIORITY, Requests, predicate};

/// The objects of an informer, as a source: all of them, or those events that a [`Predicate`] lets pass.
///
/// A `&SharedInformer` turns into one wherever one is asked for.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Kind, predicate::GenerationChanged};
/// use pintle_informer::{InformerConfig, ResourceEvent, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
///
/// let resource = ApiResource::new("apps/v1", "Deployment", "deployments", Scope::Namespaced);
/// let objects = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
/// let deployments = SharedInformer::new(objects, InformerConfig::default());
///
/// let kind = Kind::of(&deployments)
///     .when(GenerationChanged)
///     .when(|event: &ResourceEvent<PartialObject>| event.object().metadata.namespace != "kube-system");
/// assert_eq!(kind.resource().kind, "Deployment");
/// ```
pub struct Kind<T: Object> {
    informer: SharedInformer<T>,
    predicate: Option<Arc<dyn Predicate<T>>>,
}

impl<T: Object> Kind<T> {
    /// All events of `informer`.
    pub fn of(informer: &SharedInformer<T>) -> Self {
        Self { informer: informer.clone(), predicate: None }
    }

    /// Only the events that `predicate` lets pass, and those before it.
    #[must_use]
    pub fn when(self, predicate: impl Predicate<T>) -> Self {
        let predicate: Arc<dyn Predicate<T>> = match self.predicate {
            None => Arc::new(predicate),
            Some(before) => Arc::new(predicate::and(move |event: &ResourceEvent<T>| before.allows(event), predicate)),
        };
        Self { predicate: Some(predicate), ..self }
    }

    /// What the objects are.
    pub fn resource(&self) -> &ApiResource {
        self.informer.resource()
    }

    /// The informer.
    pub fn informer(&self) -> &SharedInformer<T> {
        &self.informer
    }
}

impl<T: Object> From<&SharedInformer<T>> for Kind<T> {
    fn from(informer: &SharedInformer<T>) -> Self {
        Self::of(informer)
    }
}

impl<T: Object> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("informer", &self.informer).finish_non_exhaustive()
    }
}

/// A [`Kind`] and what its events mean.
pub(crate) struct KindSource<T: Object, H> {
    pub(crate) kind: Kind<T>,
    pub(crate) handler: Arc<H>,
}

impl<T: Object, H: Handler<T>> Source for KindSource<T, H> {
    fn name(&self) -> &str {
        self.kind.informer.name()
    }

    fn warm_up(&self) {
        self.kind.informer.start();
    }

    fn problem(&self) -> Option<String> {
        match self.kind.informer.state() {
            InformerState::Stopped { cause } => Some(format!("the informer has stopped: {cause}")),
            _ if self.kind.informer.has_synced() => None,
            InformerState::Degraded { cause, .. } => Some(cause.to_string()),
            _ => Some("the first list is not complete".into()),
        }
    }

    fn start(&self, requests: Requests) -> Feed {
        self.kind.informer.start();
        let mut events = self.kind.informer.subscribe();
        let mut sync = events.sync_handle();
        let informer = self.kind.informer.clone();
        let synced = Box::pin(async move { informer.wait_for_sync().await.is_ok() && sync.synced().await });
        let predicate = self.kind.predicate.clone();
        let handler = self.handler.clone();
        let name = self.name().to_owned();
        let run = Box::pin(async move {
            while let Some(event) = events.next().await {
                // What a user's function does to one event must not cost all others.
                let handled = catch(|| {
                    if predicate.as_ref().is_none_or(|predicate| predicate.allows(&event)) {
                        let options = AddOptions { priority: priority(&event), ..AddOptions::default() };
                        handler.handle(&event, &mut |key| requests.add_with(key, options));
                    }
                });
                if let Err(panic) = handled {
                    tracing::error!(
                        source = name,
                        ?event,
                        panic,
                        "a predicate or handler panicked; the event is skipped"
                    );
                }
                tokio::task::coop::consume_budget().await;
            }
        });
        Feed { synced, run }
    }
}

/// Nothing has happened to an object of a first list, or of a resync: what has may go first.
fn priority<T>(event: &ResourceEvent<T>) -> i32 {
    match event {
        ResourceEvent::Added { is_initial: true, .. } => LOW_PRIORITY,
        ResourceEvent::Updated { old, new } if Arc::ptr_eq(old, new) => LOW_PRIORITY,
        _ => 0,
    }
}
