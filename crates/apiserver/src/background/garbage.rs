//! Owner references: dependents go when their last owner has gone, before it (foreground), or are set free (orphan).
//!
//! Only dependents are kept track of, by the uids of their owners; owners are looked up in the store when it matters, so that
//! objects without owner references cost nothing here.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{GroupVersion, PropagationPolicy};
use serde_json::Value;
use tokio::time::Instant;

use super::options;
use crate::api::Api;
use crate::db::key;
use crate::failure::Outcome;
use crate::kinds::{Kind, Registry};
use crate::manager::Manager;
use crate::request::options::DeleteOptions;
use crate::rest::{Change as Write, Place};
use crate::store::{Change, ChangeKind, Key, Range, ResourceKey, Stored};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const MANAGER: &str = "kube-controller-manager";
/// When what could not be done is tried again; longer each time.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An object by its place in the store.
type At = (ResourceKey, Key);

#[derive(Debug, Default)]
pub(super) struct Collector {
    /// The dependents of each owner, by the owner's uid.
    dependents: HashMap<String, BTreeSet<At>>,
    queue: VecDeque<At>,
    queued: HashSet<At>,
    /// What could not be done, and when it is tried again.
    failed: HashSet<At>,
    again: Option<(Instant, Duration)>,
}

/// What has become of the owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Lives,
    /// It waits for this very dependent to go.
    Waits,
    Gone,
    /// Its kind is not known: nothing can be said.
    Unknown,
}

impl Collector {
    pub(super) fn look_anew(&mut self, api: &Api) {
        *self = Self::default();
        let kinds = api.kinds();
        let stores: BTreeSet<String> = kinds.kinds().map(|kind| kind.store.to_string()).collect();
        for resource in stores {
            let resource: ResourceKey = resource.into();
            let objects: Vec<_> = api.db.read(|store| {
                let range = Range::namespace(None);
                store.range(&resource, &range).map(|(key, stored)| (key.clone(), stored.clone())).collect()
            });
            for (key, stored) in objects {
                self.note(&(resource.clone(), key), None, Some(stored.value()));
            }
        }
    }

    pub(super) fn observe(&mut self, change: &Change) {
        let at = (change.resource.clone(), change.key.clone());
        let new = (change.kind != ChangeKind::Deleted).then(|| change.new.value());
        self.note(&at, change.old.as_deref().map(Stored::value), new);
        if change.kind == ChangeKind::Deleted {
            let uid = uid(change.new.value());
            for dependent in self.dependents.get(uid).into_iter().flatten().cloned().collect::<Vec<_>>() {
                self.enqueue(dependent);
            }
            // Whoever waited for it may go on.
            self.enqueue_owners(change.new.value());
        }
    }

    fn note(&mut self, at: &At, old: Option<&Arc<Value>>, new: Option<&Arc<Value>>) {
        let owners = |object: Option<&Arc<Value>>| -> BTreeSet<String> {
            let references = object.into_iter().flat_map(|object| references(object));
            references.map(|reference| text(reference, "uid").to_owned()).collect()
        };
        let (before, after) = (owners(old), owners(new));
        for gone in before.difference(&after) {
            if let Some(dependents) = self.dependents.get_mut(gone) {
                dependents.remove(at);
                if dependents.is_empty() {
                    self.dependents.remove(gone);
                }
            }
        }
        for added in after.difference(&before) {
            self.dependents.entry(added.clone()).or_default().insert(at.clone());
        }
        let Some(new) = new else { return };
        let waits = is_deleting(new) && finalizers(new).any(|name| name == ORPHAN || name == FOREGROUND);
        if waits || !after.is_empty() {
            self.enqueue(at.clone());
        }
        if let Some(old) = old
            && !references(old).eq(references(new))
        {
            self.enqueue_owners(old);
        }
    }

    fn enqueue(&mut self, at: At) {
        if self.queued.insert(at.clone()) {
            self.queue.push_back(at);
        }
    }

    /// The owners themselves are not tracked: their place follows from the reference, if it is right.
    fn enqueue_owners(&mut self, object: &Value) {
        for reference in references(object) {
            let group = text(reference, "apiVersion").parse::<GroupVersion>().unwrap_or_default().group;
            let name = text(reference, "name");
            let namespace = text(&object["metadata"], "namespace");
            self.enqueue((format!("?{group}/{}", text(reference, "kind")).into(), key(namespace, name).into()));
        }
    }

    /// Looks at every object that is due. Answers when what could not be done is tried again: each time after twice as long.
    pub(super) async fn work(&mut self, api: &Arc<Api>) -> Option<Instant> {
        if self.again.is_some_and(|(due, _)| due <= Instant::now()) {
            for at in std::mem::take(&mut self.failed) {
                self.enqueue(at);
            }
        }
        while let Some(at) = self.queue.pop_front() {
            self.queued.remove(&at);
            self.look_at(api, at);
            tokio::task::yield_now().await;
        }
        let now = Instant::now();
        self.again = match self.again {
            _ if self.failed.is_empty() => None,
            Some((due, pause)) if due > now => Some((due, pause)),
            before => {
                let pause = before.map_or(AGAIN, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
                Some((now + pause, pause))
            }
        };
        self.again.map(|(due, _)| due)
    }

    fn look_at(&mut self, api: &Arc<Api>, at: At) {
        let kinds = api.kinds();
        let Some((kind, (resource, key))) = resolve(api, &kinds, at.clone()) else { return };
        let Some(stored) = api.db.get(&resource, &key) else { return };
        let object = stored.value();
        let metadata = &object["metadata"];
        let place = Place::new(kind.clone(), text(metadata, "namespace"), text(metadata, "name"));
        let outcome = if is_deleting(object) {
            if finalizers(object).any(|name| name == ORPHAN) {
                self.set_dependents_free(api, &place, object)
            } else if finalizers(object).any(|name| name == FOREGROUND) {
                self.await_dependents(api, &place, object)
            } else {
                Ok(())
            }
        } else {
            self.follow_owners(api, &kinds, &place, object)
        };
        if let Err(failure) = outcome {
            tracing::debug!(%key, message = failure.status.message, "an object could not be collected");
            self.failed.insert(at);
        }
    }

    fn dependents_of(&self, api: &Api, object: &Value) -> Vec<(At, Arc<Value>)> {
        let places = self.dependents.get(uid(object)).into_iter().flatten();
        places.filter_map(|at| Some((at.clone(), api.db.get(&at.0, &at.1)?.value().clone()))).collect()
    }

    /// Takes the owner out of its dependents' references, then its finalizer away.
    fn set_dependents_free(&mut self, api: &Arc<Api>, place: &Place, owner: &Value) -> Outcome<()> {
        let kinds = api.kinds();
        let mut outcome = Ok(());
        for ((resource, _), dependent) in self.dependents_of(api, owner) {
            let Some(kind) = kind_of_store(&kinds, &resource) else { continue };
            let metadata = &dependent["metadata"];
            let place = Place::new(kind.clone(), text(metadata, "namespace"), text(metadata, "name"));
            // One that cannot be written binds none of the others.
            let freed = drop_references(api, &place, &|reference| text(reference, "uid") == uid(owner));
            outcome = outcome.and(freed);
        }
        outcome?;
        drop_finalizer(api, place, ORPHAN)
    }

    /// An owner that waits goes once no dependent blocks it.
    fn await_dependents(&mut self, api: &Arc<Api>, place: &Place, owner: &Value) -> Outcome<()> {
        let dependents = self.dependents_of(api, owner);
        let blocks = |dependent: &Value| {
            let mut of_owner = references(dependent).filter(|reference| text(reference, "uid") == uid(owner));
            of_owner.any(|reference| reference["blockOwnerDeletion"] == true)
        };
        let blocking = dependents.iter().any(|(_, dependent)| blocks(dependent));
        for (at, dependent) in &dependents {
            if !is_deleting(dependent) {
                self.enqueue(at.clone());
            }
        }
        if blocking { Ok(()) } else { drop_finalizer(api, place, FOREGROUND) }
    }

    /// Deletes an object without living owners; drops references to those that are gone, if others live.
    fn follow_owners(&mut self, api: &Arc<Api>, kinds: &Registry, place: &Place, object: &Value) -> Outcome<()> {
        if place.kind.kind == "Event" && place.kind.store.resource == "events" {
            return Ok(());
        }
        let owners: Vec<_> = references(object).map(|reference| owner(api, kinds, place, reference)).collect();
        if owners.is_empty() || owners.contains(&Owner::Unknown) {
            return Ok(());
        }
        let waits = owners.contains(&Owner::Waits);
        if owners.contains(&Owner::Lives) {
            if waits || owners.contains(&Owner::Gone) {
                let dead: HashSet<String> = references(object)
                    .zip(&owners)
                    .filter(|(_, owner)| **owner != Owner::Lives)
                    .map(|(reference, _)| text(reference, "uid").to_owned())
                    .collect();
                drop_references(api, place, &|reference| dead.contains(text(reference, "uid")))?;
            }
            return Ok(());
        }
        let dependents = self.dependents_of(api, object);
        let policy = match waits && !dependents.is_empty() {
            true => {
                let circle = dependents.iter().any(|(_, dependent)| is_deleting(dependent));
                if circle {
                    unblock(api, place)?;
                }
                PropagationPolicy::Foreground
            }
            false if finalizers(object).any(|name| name == ORPHAN) => PropagationPolicy::Orphan,
            false if finalizers(object).any(|name| name == FOREGROUND) => PropagationPolicy::Foreground,
            false => PropagationPolicy::Background,
        };
        let options =
            DeleteOptions { propagation: Some(policy), uid: Some(uid(object).to_owned()), ..DeleteOptions::default() };
        match api.delete(place, &options) {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        }
    }
}

/// The kind that a place in the store, or a reference to an owner, belongs to.
fn resolve(api: &Api, kinds: &Registry, (resource, key): At) -> Option<(Arc<Kind>, At)> {
    let Some(group_kind) = resource.strip_prefix('?') else {
        return Some((kind_of_store(kinds, &resource)?.clone(), (resource, key)));
    };
    let (group, name) = group_kind.split_once('/')?;
    let kind = kinds.group_kind(group, name)?;
    let store: ResourceKey = kind.store.to_string().into();
    let key = match kind.namespaced() {
        true => key,
        false => key.rsplit('/').next().unwrap_or_default().into(),
    };
    api.db.get(&store, &key)?;
    Some((kind.clone(), (store, key)))
}

fn kind_of_store<'a>(kinds: &'a Registry, resource: &str) -> Option<&'a Arc<Kind>> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    kinds.store(&crate::kinds::GroupResource::new(group, plural))
}

/// What has become of an owner.
fn owner(api: &Api, kinds: &Registry, dependent: &Place, reference: &Value) -> Owner {
    let Ok(version) = text(reference, "apiVersion").parse::<GroupVersion>() else { return Owner::Unknown };
    let Some(kind) = kinds.kind(&version.group, &version.version, text(reference, "kind")) else {
        return Owner::Unknown;
    };
    let namespace = match (kind.namespaced(), dependent.kind.namespaced()) {
        (true, false) => return Owner::Unknown,
        (true, true) => dependent.namespace.as_str(),
        (false, _) => "",
    };
    let found = api.db.get(&kind.store.to_string(), &key(namespace, text(reference, "name")));
    let Some(found) = found.filter(|found| uid(found.value()) == text(reference, "uid")) else { return Owner::Gone };
    let waiting = is_deleting(found.value()) && finalizers(found.value()).any(|name| name == FOREGROUND);
    match waiting && reference["blockOwnerDeletion"] == true {
        true => Owner::Waits,
        false => Owner::Lives,
    }
}

fn drop_references(api: &Arc<Api>, place: &Place, is_dead: &dyn Fn(&Value) -> bool) -> Outcome<()> {
    patch(api, place, &|metadata| {
        let references = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let living: Vec<Value> = references.into_iter().filter(|reference| !is_dead(reference)).collect();
        set_or_remove(metadata, "ownerReferences", living);
    })
}

/// Lets a circle of references that block each other go.
fn unblock(api: &Arc<Api>, place: &Place) -> Outcome<()> {
    patch(api, place, &|metadata| {
        for reference in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
            reference["blockOwnerDeletion"] = false.into();
        }
    })
}

fn drop_finalizer(api: &Arc<Api>, place: &Place, finalizer: &str) -> Outcome<()> {
    patch(api, place, &|metadata| {
        let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<Value> = finalizers.into_iter().filter(|name| *name != finalizer).collect();
        set_or_remove(metadata, "finalizers", others);
    })
}

fn set_or_remove(metadata: &mut Value, name: &str, list: Vec<Value>) {
    match metadata.as_object_mut() {
        Some(metadata) if list.is_empty() => {
            metadata.remove(name);
        }
        _ => metadata[name] = list.into(),
    }
}

/// Changes an object's metadata; one that is gone is left so.
fn patch(api: &Arc<Api>, place: &Place, change: &dyn Fn(&mut Value)) -> Outcome<()> {
    let make = |live: Option<&Value>| {
        let mut new = live.cloned().unwrap_or_default();
        change(&mut new["metadata"]);
        Ok(new)
    };
    let options = options();
    let manager = Manager::new(&options, MANAGER, api.clock.now_text());
    match api.update(place, &Write::Patch { make: &make, apply: false }, &manager) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"], "uid")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
