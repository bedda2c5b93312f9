//! Collects garbage. Background deletion deletes dependents after the deletion of their last owner. Foreground deletion
//! deletes the dependents first, and then the owner. The orphan policy removes owner references instead of deleting the
//! dependents.
//!
//! The collector tracks only objects with owner references, indexed by the UIDs of their owners. The collector reads
//! owners from the store, which can be ahead of the changes that the collector has observed. An owner with unobserved
//! changes may have untracked dependents, so the collector processes the owner later.
//!
//! The collector does not delete an object if the kind of the object or the kind of an owner is not served. When the
//! served kinds change, the collector checks the skipped objects again.

mod deleted;
mod owners;
mod release;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use pintle_apiextensions::DEFINITIONS;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::key;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_json::Json;
use pintle_kinds::{Kind, Kinds, RequestTarget};
use pintle_meta::{GroupVersion, PropagationPolicy};
use pintle_serving::offload;
use pintle_storage::{Change, ChangeKind, Key, ResourceKey, Stored};
use tokio::sync::watch;
use tokio::time::Instant;

use self::deleted::DeletedOwners;
use self::owners::{OwnerState, owner_state};
use self::release::{drop_finalizer, drop_references, has_finalizer, unblock};
use super::backoff::Backoff;
use super::reviews::{MAX_IN_FLIGHT, Reviews};
use super::{Controller, all};
use crate::registry::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Registry};

type Location = (ResourceKey, Key);

#[derive(Debug)]
pub(super) struct Collector {
    dependents: HashMap<String, BTreeSet<Location>>,
    deleted_owners: DeletedOwners,
    /// Maps the UID of each owner in foreground deletion to a dependent that blocks its deletion.
    blocked: HashMap<String, Location>,
    queue: VecDeque<Location>,
    queued: HashSet<Location>,
    /// Dependents with new owner references. The collector must check whether these owners are in other namespaces.
    unchecked: HashSet<Location>,
    /// Dependents with an owner whose kind is not served. Also contains owners that cannot orphan a dependent of an
    /// unserved kind.
    unserved: HashSet<Location>,
    failed: HashSet<Location>,
    backoff: Backoff,
    reviews: Reviews<Location>,
    kinds: Arc<Kinds>,
    definitions_revision: u64,
    /// The revision up to which the CustomResourceDefinition controller has updated the served kinds.
    served_revision: watch::Receiver<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processed {
    Done,
    /// The collector has not yet observed the last change to the object or one of its owners.
    TooEarly,
}

impl Controller for Collector {
    const RESOURCES: Option<&'static [&'static str]> = None;

    fn resync(&mut self, registry: &Registry) {
        let deleted_owners = std::mem::take(&mut self.deleted_owners);
        *self = Self { deleted_owners, kinds: registry.kinds(), ..Self::new(self.served_revision.clone()) };
        for (resource, key, stored) in registry.db.now().everything() {
            if &*resource == DEFINITIONS {
                self.record_definition(&stored, true);
            }
            self.deleted_owners.forget(&stored);
            self.record_change(&(resource, key), None, Some(&stored));
        }
        self.deleted_owners.retain(|uid| self.dependents.contains_key(uid));
    }

    fn observe(&mut self, change: &Change) -> bool {
        let at = (change.resource().clone(), change.key.clone());
        let new = (change.kind != ChangeKind::Deleted).then_some(&*change.new);
        if &**change.resource() == DEFINITIONS {
            self.record_definition(&change.new, new.is_some());
        }
        self.record_change(&at, change.old.as_deref(), new);
        if let Some(new) = new {
            self.deleted_owners.forget(new);
            return true;
        }
        let uid = change.new.uid();
        self.blocked.remove(&*uid);
        if let Some(dependents) = self.dependents.get(&*uid).cloned() {
            self.deleted_owners.add(change.resource(), &change.new);
            dependents.into_iter().for_each(|dependent| self.enqueue(dependent));
        }
        // Enqueue the owners, because an owner in foreground deletion may be waiting for the deletion of this object.
        self.enqueue_owners(&change.new, &change.new.owner_references());
        true
    }

    /// Processes the queued objects. Retries failed objects with exponential backoff.
    async fn work(&mut self, registry: &Arc<Registry>, observed: u64) -> Option<Instant> {
        self.update_kinds(registry);
        if self.backoff.is_due() {
            for at in std::mem::take(&mut self.failed) {
                self.enqueue(at);
            }
        }
        let mut too_early = Vec::new();
        while let Some(at) = self.queue.pop_front() {
            self.queued.remove(&at);
            match self.process_reviewed(registry, at.clone(), observed).await {
                Ok(Processed::Done) => (),
                Ok(Processed::TooEarly) => too_early.push(at),
                Err(failure) => {
                    tracing::debug!(key = %at.1, error = failure.status.message, "cannot collect an object");
                    self.failed.insert(at);
                }
            }
            tokio::task::yield_now().await;
        }
        let is_early = !too_early.is_empty();
        too_early.into_iter().for_each(|at| self.enqueue(at));
        let next_retry = self.backoff.next(!self.failed.is_empty(), self.reviews.is_waiting());
        if is_early { Some(Instant::now()) } else { next_retry }
    }

    fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.awaits_kinds() || self.reviews.is_waiting()
    }

    async fn wait_for_event(&mut self) {
        let (awaits_kinds, revision) = (self.awaits_kinds(), self.definitions_revision);
        tokio::select! {
            // Ignore an error, because it only means that the CustomResourceDefinition controller has ended.
            () = async { drop(self.served_revision.wait_for(|served| *served >= revision).await) }, if awaits_kinds => (),
            reviewed = self.reviews.next() => self.enqueue(reviewed),
        }
    }
}

impl Collector {
    /// Creates a collector. `served_revision` is the revision up to which the CustomResourceDefinition controller has
    /// updated the served kinds.
    pub(super) fn new(served_revision: watch::Receiver<u64>) -> Self {
        Self {
            dependents: HashMap::new(),
            deleted_owners: DeletedOwners::default(),
            blocked: HashMap::new(),
            queue: VecDeque::new(),
            queued: HashSet::new(),
            unchecked: HashSet::new(),
            unserved: HashSet::new(),
            failed: HashSet::new(),
            backoff: Backoff::default(),
            reviews: Reviews::new("generic-garbage-collector"),
            kinds: Arc::default(),
            definitions_revision: 0,
            served_revision,
        }
    }

    fn record_definition(&mut self, definition: &Stored, exists: bool) {
        self.deleted_owners.record_definition(definition, exists);
        self.definitions_revision = self.definitions_revision.max(definition.revision());
    }

    /// Returns `true` until the served kinds include the last observed change to a definition. Returns `false` if the
    /// CustomResourceDefinition controller has ended.
    fn awaits_kinds(&self) -> bool {
        *self.served_revision.borrow() < self.definitions_revision && self.served_revision.has_changed().is_ok()
    }

    /// If the served kinds have changed, enqueues the objects of newly served resources and the objects in `unserved`.
    fn update_kinds(&mut self, registry: &Registry) {
        let kinds = registry.kinds();
        if Arc::ptr_eq(&kinds, &self.kinds) {
            return;
        }
        let old = std::mem::replace(&mut self.kinds, kinds.clone());
        for (name, group) in kinds.groups() {
            if old.group(name).is_some_and(|old| Arc::ptr_eq(old, group)) {
                continue;
            }
            let of_group = group.versions().flat_map(|(_, version)| version.kinds());
            for kind in of_group.filter(|kind| old.store(&kind.stored_as).is_none()) {
                let store: ResourceKey = kind.resource_key().clone();
                all(registry, &store).for_each(|(key, _)| self.enqueue((store.clone(), key)));
            }
        }
        for at in std::mem::take(&mut self.unserved) {
            self.enqueue(at);
        }
    }

    fn record_change(&mut self, at: &Location, old: Option<&Stored>, new: Option<&Stored>) {
        let references = |object: Option<&Stored>| object.map(Stored::owner_references).unwrap_or_default();
        let owners = |references: &[Json]| -> BTreeSet<String> {
            references.iter().map(|reference| reference.text("/uid").to_owned()).collect()
        };
        let (old_references, new_references) = (references(old), references(new));
        let (before, after) = (owners(&old_references), owners(&new_references));
        for gone in before.difference(&after) {
            if let Some(dependents) = self.dependents.get_mut(gone) {
                dependents.remove(at);
                if dependents.is_empty() {
                    self.dependents.remove(gone);
                    self.deleted_owners.remove(gone);
                }
            }
        }
        for added in after.difference(&before) {
            self.dependents.entry(added.clone()).or_default().insert(at.clone());
            self.unchecked.insert(at.clone());
        }
        let Some(new) = new else {
            self.unchecked.remove(at);
            self.unserved.remove(at);
            return;
        };
        let finalizers = [ORPHAN_FINALIZER, FOREGROUND_FINALIZER];
        let waits = |object: &Stored| object.is_deleting() && finalizers.iter().any(|name| has_finalizer(object, name));
        let relevant = |object: &Stored| (object.owner_references(), object.is_deleting(), waits(object));
        // After a failure, a change that does not concern the collector does not shorten the delay of the retry.
        let awaits_retry = self.failed.contains(at) && old.is_some_and(|old| relevant(old) == relevant(new));
        if (waits(new) || !after.is_empty()) && !awaits_retry {
            self.enqueue(at.clone());
        }
        if let Some(old) = old
            && old_references != new_references
        {
            self.enqueue_owners(old, &old_references);
        }
    }

    fn enqueue(&mut self, at: Location) {
        if self.queued.insert(at.clone()) {
            self.queue.push_back(at);
        }
    }

    fn enqueue_owners(&mut self, object: &Stored, references: &[Json]) {
        for reference in references {
            let group = reference.text("/apiVersion").parse::<GroupVersion>().unwrap_or_default().group;
            let name = reference.text("/name");
            let key = key(&object.namespace(), name);
            self.enqueue((format!("?{group}/{}", reference.text("/kind")).into(), key.into()));
        }
    }

    /// Processes an object. If a webhook must review a write first, the collector processes the object again after the
    /// review.
    async fn process_reviewed(&mut self, registry: &Arc<Registry>, at: Location, observed: u64) -> Outcome<Processed> {
        let Some((kind, at)) = resolve(registry, &self.kinds, &at) else {
            self.reviews.forget(&at);
            return Ok(Processed::Done);
        };
        let Some(by) = self.reviews.requester(registry, &at) else { return Ok(Processed::Done) };
        let kind = registry.with_conversions(&kind, &by).unwrap_or(kind);
        match self.process(registry, &kind, at.clone(), &by, observed).await {
            Err(failure) if self.reviews.call(registry, at, by, &failure) => Ok(Processed::Done),
            outcome => outcome,
        }
    }

    async fn process(
        &mut self,
        registry: &Arc<Registry>,
        kind: &Arc<Kind>,
        (resource, key): Location,
        by: &Requester,
        observed: u64,
    ) -> Outcome<Processed> {
        let kinds = self.kinds.clone();
        offload::work_on(registry.db.weight(&resource, &key)).await;
        let Some(stored) = registry.db.get(&resource, &key) else { return Ok(Processed::Done) };
        // In a plan, the upstream cluster collects the garbage of its own deletions.
        if stored.is_deleting() && registry.db.follows_upstream(&resource, &key) {
            return Ok(Processed::Done);
        }
        if stored.revision() > observed {
            return Ok(Processed::TooEarly);
        }
        let target = RequestTarget::new(kind.clone(), &stored.namespace(), &stored.name());
        if self.unchecked.remove(&(resource, key)) && !registry.db.is_mirror() {
            report::report_cross_namespace_owners(registry, &kinds, &target, &stored);
        }
        if !stored.is_deleting() {
            return self.collect(registry, &kinds, &target, &stored, by, observed);
        }
        if has_finalizer(&stored, ORPHAN_FINALIZER) {
            self.orphan_dependents(registry, &target, &stored, by).await?;
        } else if has_finalizer(&stored, FOREGROUND_FINALIZER) {
            self.await_dependents(registry, &target, &stored, by)?;
        }
        Ok(Processed::Done)
    }

    fn dependents_of(&self, registry: &Registry, object: &Stored) -> Vec<(Location, Arc<Stored>)> {
        let places = self.dependents.get(&*object.uid()).into_iter().flatten();
        places.filter_map(|at| Some((at.clone(), registry.db.get(&at.0, &at.1)?))).collect()
    }

    async fn orphan_dependents(
        &mut self,
        registry: &Arc<Registry>,
        target: &RequestTarget,
        owner: &Stored,
        by: &Requester,
    ) -> Outcome<()> {
        let (mut outcome, mut has_unserved, mut waiting) = (Ok(()), false, Vec::new());
        for ((resource, _), dependent) in self.dependents_of(registry, owner) {
            let kind = kind_of_store(&self.kinds, &resource);
            has_unserved |= kind.is_none();
            let Some(kind) = kind else { continue };
            let kind = registry.with_conversions(kind, by).unwrap_or_else(|_| kind.clone());
            let target = RequestTarget::new(kind, &dependent.namespace(), &dependent.name());
            // Continue with the other dependents if the write of one dependent fails.
            offload::work_on(dependent.weight()).await;
            let is_of_owner = |reference: &Json| reference.text("/uid") == owner.uid();
            match drop_references(registry, &target, &dependent.uid(), &is_of_owner, by) {
                Err(failure) if failure.is_waiting() => waiting.push(failure),
                result => outcome = outcome.and(result),
            }
            // Stop at the limit, because the webhooks review all waiting dependents at the same time.
            if waiting.len() >= MAX_IN_FLIGHT {
                break;
            }
            tokio::task::yield_now().await;
        }
        waiting.pop().map_or(outcome, Err)?;
        if has_unserved {
            self.unserved.insert((target.resource_key(), target.key().into()));
            return Ok(());
        }
        offload::work_on(owner.weight()).await;
        drop_finalizer(registry, target, &owner.uid(), ORPHAN_FINALIZER, by)
    }

    /// Removes an owner's foreground finalizer if no dependent blocks it. The first call enqueues all dependents that
    /// are not being deleted yet. The collector calls this method again after the deletion of each dependent. Each call
    /// first checks the dependent that blocked the owner in the previous call.
    fn await_dependents(
        &mut self,
        registry: &Arc<Registry>,
        target: &RequestTarget,
        owner: &Stored,
        by: &Requester,
    ) -> Outcome<()> {
        let uid = owner.uid();
        let before = self.blocked.remove(&*uid);
        if before.is_none() {
            for (at, dependent) in self.dependents_of(registry, owner) {
                if !dependent.is_deleting() {
                    self.enqueue(at);
                }
            }
        }
        let blocks = |at: &&Location| {
            let references = registry.db.get(&at.0, &at.1).map(|dependent| dependent.owner_references());
            let mut of_owner = references.iter().flatten().filter(|reference| reference.text("/uid") == uid);
            of_owner.any(|reference| reference["blockOwnerDeletion"] == true)
        };
        let found = self.dependents.get(&*uid).and_then(|dependents| match &before {
            Some(before) => dependents.range(before..).chain(dependents.range(..before)).find(blocks),
            None => dependents.iter().find(blocks),
        });
        match found.cloned() {
            Some(at) => {
                self.blocked.insert(uid.into_owned(), at);
                Ok(())
            }
            None => drop_finalizer(registry, target, &uid, FOREGROUND_FINALIZER, by),
        }
    }

    /// Deletes an object if none of its owners exists. If only some owners exist, removes the references to the
    /// nonexistent owners.
    fn collect(
        &mut self,
        registry: &Arc<Registry>,
        kinds: &Kinds,
        target: &RequestTarget,
        object: &Stored,
        by: &Requester,
        observed: u64,
    ) -> Outcome<Processed> {
        if target.kind.flags.is_report {
            return Ok(Processed::Done);
        }
        let references = object.owner_references();
        let owner =
            |reference: &Json| owner_state(registry, kinds, target, reference, (&self.deleted_owners, observed));
        let owners: Vec<_> = references.iter().map(owner).collect();
        if owners.contains(&OwnerState::Unserved) {
            self.unserved.insert((target.resource_key(), target.key().into()));
            return Ok(Processed::Done);
        }
        if owners.is_empty() || owners.contains(&OwnerState::Unknown) {
            return Ok(Processed::Done);
        }
        if owners.contains(&OwnerState::TooRecent) {
            return Ok(Processed::TooEarly);
        }
        let waits = owners.contains(&OwnerState::WaitsForDependents);
        if owners.contains(&OwnerState::Present) {
            if waits || owners.contains(&OwnerState::Absent) {
                let dead: HashSet<String> = references
                    .iter()
                    .zip(&owners)
                    .filter(|(_, owner)| **owner != OwnerState::Present)
                    .map(|(reference, _)| reference.text("/uid").to_owned())
                    .collect();
                let is_dead = |reference: &Json| dead.contains(reference.text("/uid"));
                drop_references(registry, target, &object.uid(), &is_dead, by)?;
            }
            return Ok(Processed::Done);
        }
        let dependents = self.dependents_of(registry, object);
        let policy = match waits && !dependents.is_empty() {
            true => {
                let is_cycle = dependents.iter().any(|(_, dependent)| dependent.is_deleting());
                if is_cycle {
                    unblock(registry, target, &object.uid(), by)?;
                }
                PropagationPolicy::Foreground
            }
            false if has_finalizer(object, ORPHAN_FINALIZER) => PropagationPolicy::Orphan,
            false if has_finalizer(object, FOREGROUND_FINALIZER) => PropagationPolicy::Foreground,
            false => PropagationPolicy::Background,
        };
        let options = DeleteOptions {
            propagation: Some(policy),
            uid: Some(object.uid().into_owned()),
            // Delete only this version, because a later version may have other owners.
            resource_version: Some(object.revision().to_string()),
            ..DeleteOptions::default()
        };
        registry.prepare_webhooks(by);
        match registry.delete(target, &options, by) {
            Err(failure) if failure.is_conflict() => Ok(Processed::TooEarly),
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(Processed::Done),
        }
    }
}

/// Returns the kind and the location of the object that a queue entry refers to. A queue entry contains either a
/// location, or the kind and name of an owner.
fn resolve(registry: &Registry, kinds: &Kinds, (resource, key): &Location) -> Option<(Arc<Kind>, Location)> {
    let Some(group_kind) = resource.strip_prefix('?') else {
        registry.db.get(resource, key)?;
        return Some((kind_of_store(kinds, resource)?.clone(), (resource.clone(), key.clone())));
    };
    let (group, name) = group_kind.split_once('/')?;
    let kind = kinds.group_kind(group, name)?;
    let store: ResourceKey = kind.resource_key().clone();
    let key = if kind.is_namespaced() { key.clone() } else { key.rsplit('/').next().unwrap_or_default().into() };
    registry.db.get(&store, &key)?;
    Some((kind.clone(), (store, key)))
}

fn kind_of_store<'a>(kinds: &'a Kinds, resource: &str) -> Option<&'a Arc<Kind>> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    kinds.store(&pintle_meta::GroupResource::new(group, plural))
}
