//! Informers as sources.

use std::any::Any;
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_informer::{InformerState, ResourceEvent, SharedInformer, Subscription, SyncHandle};
use pintle_meta::__private::Mutex;
use pintle_meta::{ApiResource, Object};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{Feed, Source};
use crate::attempts::OwnWrite;
use crate::config::LOW_PRIORITY;
use crate::handler::{EnqueueObject, EnqueueOwner, Handler};
use crate::history::{CauseReason, EventChange};
use crate::key::{RequestKey, object_key};
use crate::panic::{catch, caught};
use crate::predicate;
use crate::predicate::Predicate;
use crate::requests::Requests;

/// A source that adds keys for the objects of an informer, optionally filtered by [`Predicate`]s.
///
/// `&SharedInformer` implements `Into<Kind>`.
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
    /// Creates a source for all events of `informer`.
    pub fn of(informer: &SharedInformer<T>) -> Self {
        Self { informer: informer.clone(), predicate: None }
    }

    /// Adds a predicate. The source uses only the events that all its predicates accept.
    #[must_use]
    pub fn when(self, predicate: impl Predicate<T>) -> Self {
        let predicate: Arc<dyn Predicate<T>> = match self.predicate {
            None => Arc::new(predicate),
            Some(before) => Arc::new(predicate::and(move |event: &ResourceEvent<T>| before.allows(event), predicate)),
        };
        Self { predicate: Some(predicate), ..self }
    }

    /// Returns the resource of the objects.
    pub fn resource(&self) -> &ApiResource {
        self.informer.resource()
    }

    /// Returns the informer of this source.
    pub fn informer(&self) -> &SharedInformer<T> {
        &self.informer
    }
}

impl<T: Object> From<&SharedInformer<T>> for Kind<T> {
    fn from(informer: &SharedInformer<T>) -> Self {
        Self::of(informer)
    }
}

pintle_meta::debug_struct!(Kind<T: Object> { informer, .. });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The controller reconciles the objects themselves, so their keys are the controller's keys.
    Main,
    /// The reconciler probably writes the objects.
    Written,
    /// The reconciler probably only reads the objects.
    Watched,
}

impl Relation {
    /// Returns the relation between the controller and a source with this handler. If the handler returns an object's
    /// own key or the keys of its owners, the reconciler probably writes the objects.
    pub(crate) fn of<H: 'static>(handler: &H) -> Self {
        let handler: &dyn Any = handler;
        if handler.is::<EnqueueObject>() || handler.is::<EnqueueOwner>() { Self::Written } else { Self::Watched }
    }

    fn own_write<T: Object>(self, event: &ResourceEvent<T>) -> OwnWrite {
        match self {
            Self::Main if is_urgent(event) => OwnWrite::Impossible,
            Self::Watched if priority(event) != LOW_PRIORITY => OwnWrite::Unlikely,
            _ => OwnWrite::Possible,
        }
    }
}

pub(crate) struct KindSource<T: Object, K, H> {
    kind: Kind<T>,
    handler: Arc<H>,
    relation: Relation,
    requests: OnceLock<Requests<K>>,
    pump: Mutex<Option<Pump>>,
}

/// Reads one subscription during and between runs, so that no deletion is missed while no replica leads.
struct Pump {
    task: AbortOnDropHandle<Result<(), String>>,
    ended: watch::Receiver<Option<Result<(), String>>>,
    sync: SyncHandle,
    /// Whether the pump has received an event. A run that starts afterwards also needs a new subscription, because it
    /// has missed the earlier events.
    has_read: Arc<AtomicBool>,
}

/// The time after which a source whose lists or watches fail is reported as not ready.
const UNREADY_AFTER: Duration = Duration::from_secs(120);

impl<T: Object, K: RequestKey, H: Handler<T, K>> KindSource<T, K, H> {
    pub(crate) fn new(kind: Kind<T>, handler: H, relation: Relation) -> Self {
        let (requests, pump) = (OnceLock::new(), Mutex::new(None));
        Self { kind, handler: Arc::new(handler), relation, requests, pump }
    }

    /// Passes the pump to `with`. If the informer and the pump's task are not running, starts them first.
    fn pump<R>(&self, with: impl FnOnce(&Pump) -> R) -> R {
        self.kind.informer.start();
        // No user code runs while this lock is held.
        let mut pump = self.pump.lock();
        pump.take_if(|pump| pump.task.is_finished());
        with(pump.get_or_insert_with(|| self.start_pump()))
    }

    fn start_pump(&self) -> Pump {
        let mut events = self.kind.informer.subscribe();
        let (sync, has_read) = (events.sync_handle(), Arc::new(AtomicBool::new(false)));
        let (sender, ended) = watch::channel(None);
        let (mapper, reads) = (self.mapper(), has_read.clone());
        let run = async move {
            while let Some(event) = events.next().await {
                // Set the flag before mapping the event, so that a run that starts later sees the flag.
                reads.store(true, Ordering::SeqCst);
                if mapper.requests.is_open() {
                    mapper.map(&event);
                } else {
                    mapper.keep(&event);
                }
                tokio::task::coop::consume_budget().await;
            }
        };
        let task = async move {
            let result = caught(run).await;
            sender.send_replace(Some(result.clone()));
            result
        };
        Pump { task: AbortOnDropHandle::new(tokio::spawn(task)), ended, sync, has_read }
    }

    fn mapper(&self) -> Mapper<T, K, H> {
        Mapper {
            source: self.kind.informer.name().into(),
            predicate: self.kind.predicate.clone(),
            handler: self.handler.clone(),
            relation: self.relation,
            requests: self.requests.get_or_init(|| Requests::new(self.kind.informer.name(), None)).clone(),
        }
    }
}

impl<T: Object, K: RequestKey, H: Handler<T, K>> Source<K> for KindSource<T, K, H> {
    fn name(&self) -> &str {
        self.kind.informer.name()
    }

    fn attach(&self, requests: &Requests<K>) {
        // `set` cannot fail, because `attach` is called only once.
        _ = self.requests.set(requests.clone());
    }

    fn warm_up(&self) {
        self.pump(|_| ());
    }

    fn problem(&self) -> Option<String> {
        let has_synced = self.kind.informer.has_synced();
        match self.kind.informer.state() {
            InformerState::Stopped { cause } => Some(format!("the informer has stopped: {cause}")),
            InformerState::Degraded { cause, since, .. } if has_synced => {
                let lasts = Instant::now().into_std().saturating_duration_since(since);
                (lasts >= UNREADY_AFTER).then(|| format!("not up to date for {} s: {cause}", lasts.as_secs()))
            }
            _ if has_synced => None,
            InformerState::Degraded { cause, .. } => Some(cause.to_string()),
            _ => Some("the first list is not complete".into()),
        }
    }

    fn start(&self, _: Requests<K>) -> Feed {
        let (mut ended, mut sync, has_read) =
            self.pump(|pump| (pump.ended.clone(), pump.sync.clone(), pump.has_read.load(Ordering::SeqCst)));
        // If the pump has already read events, a new subscription replays the existing objects for this run. The pump
        // delivers all later changes.
        let mut replay = has_read.then(|| self.kind.informer.subscribe());
        let mut replay_sync = replay.as_ref().map(Subscription::sync_handle);
        let mut replayed = replay_sync.clone();
        let informer = self.kind.informer.clone();
        let synced = Box::pin(async move {
            informer.wait_for_sync().await.is_ok() && sync.synced().await && is_through(&mut replay_sync).await
        });
        let mapper = self.mapper();
        let run = Box::pin(async move {
            while let Some(events) = &mut replay {
                tokio::select! {
                    biased;
                    _ = is_through(&mut replayed) => replay = None,
                    event = events.next() => match event {
                        Some(event @ ResourceEvent::Added { is_initial: true, .. }) => mapper.map(&event),
                        Some(_) => {}
                        None => replay = None,
                    }
                }
                tokio::task::coop::consume_budget().await;
            }
            let panic = match ended.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().and_then(Result::err),
                // An error means that the source was dropped.
                Err(_) => None,
            };
            if let Some(panic) = panic {
                resume_unwind(Box::new(panic));
            }
        });
        Feed { synced, run }
    }
}

/// Waits until the subscription has delivered its initial objects.
async fn is_through(replay: &mut Option<SyncHandle>) -> bool {
    match replay {
        Some(sync) => sync.synced().await,
        None => true,
    }
}

struct Mapper<T, K, H> {
    source: Arc<str>,
    predicate: Option<Arc<dyn Predicate<T>>>,
    handler: Arc<H>,
    relation: Relation,
    requests: Requests<K>,
}

impl<T: Object, K: RequestKey, H: Handler<T, K>> Mapper<T, K, H> {
    fn map(&self, event: &ResourceEvent<T>) {
        let (priority, own_write) = (priority(event), self.relation.own_write(event));
        self.guarded(event, || {
            if self.allows(event) {
                self.handler.handle(event, &mut |key| {
                    let reason = self.reason(event, &key);
                    self.requests.change(key, reason, priority, own_write);
                });
            }
        });
    }

    /// Keeps the keys of an event that the next run cannot find by listing objects. The kept keys belong to deleted
    /// objects, or the handler returned them only for the old state of an updated object.
    fn keep(&self, event: &ResourceEvent<T>) {
        let is_kept = match event {
            ResourceEvent::Added { .. } => false,
            ResourceEvent::Updated { old, new } => !old.is_same(new),
            ResourceEvent::Deleted { .. } => true,
        };
        if !is_kept {
            return;
        }
        self.guarded(event, || {
            if !self.allows(event) {
                return;
            }
            let mut found = HashSet::new();
            if let ResourceEvent::Updated { new, .. } = event {
                let added = ResourceEvent::Added { object: new.clone(), is_initial: true };
                if self.allows(&added) {
                    self.handler.handle(&added, &mut |key| _ = found.insert(key));
                }
            }
            self.handler.handle(event, &mut |key| {
                if !found.contains(&key) {
                    let reason = self.reason(event, &key);
                    self.requests.keep_event(key, reason);
                }
            });
        });
    }

    fn reason(&self, event: &ResourceEvent<T>, key: &K) -> CauseReason {
        let change = match event {
            ResourceEvent::Added { is_initial: true, .. } => EventChange::Listed,
            ResourceEvent::Added { .. } => EventChange::Added,
            ResourceEvent::Updated { old, new } if old.is_same(new) => EventChange::Resynced,
            ResourceEvent::Updated { .. } => EventChange::Updated,
            ResourceEvent::Deleted { .. } => EventChange::Deleted,
        };
        let resource_version = event.object().resource_version().to_owned();
        let object = match object_key(key) {
            // Clone the key, which is cheap because clones share its text.
            Some(key) if self.relation == Relation::Main => key.clone(),
            _ => event.object().key(),
        };
        CauseReason::Event { source: self.source.clone(), change, object, resource_version, writer: event.writer() }
    }

    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self.predicate.as_ref().is_none_or(|predicate| predicate.allows(event))
    }

    /// Calls `call` and catches panics of user code, so that a panic affects only one event.
    fn guarded(&self, event: &ResourceEvent<T>, call: impl FnOnce()) {
        if let Err(panic) = catch(call) {
            let source = &*self.source;
            tracing::error!(source, ?event, panic, "a predicate or handler panicked; the event is skipped");
        }
    }
}

/// Returns the priority for the keys of an event. Objects of an initial list or a resync have a lower priority, because
/// they may not have changed.
fn priority<T>(event: &ResourceEvent<T>) -> i32 {
    match event {
        ResourceEvent::Added { is_initial: true, .. } => LOW_PRIORITY,
        ResourceEvent::Updated { old, new } if old.is_same(new) => LOW_PRIORITY,
        _ => 0,
    }
}

/// Returns `true` if an event of the reconciled object ends the object's backoff immediately. Urgent events are
/// creations, deletions and spec changes, because the reconciler usually does not cause them.
fn is_urgent<T: Object>(event: &ResourceEvent<T>) -> bool {
    match event {
        ResourceEvent::Added { is_initial, .. } => !is_initial,
        ResourceEvent::Updated { old, new } => {
            let (old, new) = (old.metadata(), new.metadata());
            old.generation() != new.generation() || old.is_terminating() != new.is_terminating()
        }
        ResourceEvent::Deleted { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::{DynamicObject, ObjectKey, ObjectMeta};

    use super::*;
    use crate::EnqueueMapped;

    fn object(name: &str, groups: &[&str]) -> Arc<DynamicObject> {
        let mut metadata = ObjectMeta::new("ns", name);
        metadata.labels = groups.iter().map(|group| ((*group).to_owned(), String::new())).collect();
        Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
    }

    /// A standby does not store keys of existing objects, because the next run finds these keys by listing the objects.
    #[test]
    fn standby_keeps_no_keys_of_existing_objects() {
        let by_group = EnqueueMapped::new(|object: &DynamicObject| {
            object.metadata.labels.keys().map(|group| ObjectKey::new("ns", group)).collect::<Vec<_>>()
        });
        let requests = Requests::new("c", None);
        let mapper = Mapper {
            source: "source".into(),
            predicate: None,
            handler: Arc::new(by_group),
            relation: Relation::Watched,
            requests: requests.clone(),
        };
        let kept = |event: ResourceEvent<DynamicObject>| {
            mapper.keep(&event);
            let kept = requests.take_kept().into_iter();
            kept.map(|(key, _)| key.name().to_owned()).collect::<Vec<_>>()
        };
        let (old, new) = (object("x", &["a", "b"]), object("x", &["b", "c"]));
        assert!(kept(ResourceEvent::Added { object: new.clone().into(), is_initial: false }).is_empty());
        assert!(kept(ResourceEvent::Updated { old: new.clone().into(), new: new.clone().into() }).is_empty());
        assert_eq!(kept(ResourceEvent::Updated { old: old.into(), new: new.clone().into() }), ["a"]);
        assert_eq!(kept(ResourceEvent::Deleted { object: new.into(), final_state_known: true }), ["b", "c"]);
    }
}
