//! Owner references: dependents go when their last owner has gone, before it (foreground), or are set free (orphan).
//!
//! Only dependents are kept track of, by the uids of their owners; owners are looked up in the store when it matters, so that
//! objects without owner references cost nothing here. What is in the store may be newer than the changes that were told, so that its
//! dependents are not known yet: it is looked at once they are.

mod owners;
mod release;
mod report;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pintle_json::Json;
use pintle_meta::{GroupVersion, PropagationPolicy};
use tokio::time::Instant;

use self::owners::{Owner, owner};
use self::release::{drop_finalizer, drop_references, has_finalizer, requester, unblock};
use super::{Controller, all};
use crate::failure::Outcome;
use crate::kinds::{Kind, Kinds, RequestTarget};
use crate::offload;
use crate::registry::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Registry};
use crate::request::options::DeleteOptions;
use crate::store::{Change, ChangeKind, Key, ResourceKey, Stored, key};

/// When what could not be done is tried again; longer each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// An object by its place in the store.
type Spot = (ResourceKey, Key);

/// Collects garbage.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// The dependents of each owner, by the owner's uid.
    dependents: HashMap<String, BTreeSet<Spot>>,
    /// A dependent that blocks the owner of that uid, which waits for it to go.
    blocked: HashMap<String, Spot>,
    queue: VecDeque<Spot>,
    queued: HashSet<Spot>,
    /// Dependents with new owners, which have not been looked at.
    fresh: HashSet<Spot>,
    /// What could not be done, and when it is tried again.
    failed: HashSet<Spot>,
    again: Option<(Instant, Duration)>,
}

/// What came of a look at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    Done,
    /// It, or an owner of it, has changed since the last change that was told.
    TooEarly,
}

impl Controller for Collector {
    const OF: Option<&'static [&'static str]> = None;

    fn look_anew(&mut self, registry: &Registry) {
        *self = Self::default();
        let kinds = registry.kinds();
        let stores: BTreeSet<String> = kinds.kinds().map(|kind| kind.store.to_string()).collect();
        for resource in stores {
            let resource: ResourceKey = resource.into();
            for (key, stored) in all(registry, &resource) {
                self.note(&(resource.clone(), key), None, Some(&stored));
            }
        }
    }

    fn observe(&mut self, change: &Change) -> bool {
        let at = (change.resource().clone(), change.key.clone());
        let new = (change.kind != ChangeKind::Deleted).then_some(&*change.new);
        self.note(&at, change.old.as_deref(), new);
        if change.kind == ChangeKind::Deleted {
            self.blocked.remove(&*change.new.uid());
            let dependents = self.dependents.get(&*change.new.uid());
            for dependent in dependents.into_iter().flatten().cloned().collect::<Vec<_>>() {
                self.enqueue(dependent);
            }
            // Whoever waited for it may go on.
            self.enqueue_owners(&change.new, &change.new.owner_references());
        }
        true
    }

    /// Looks at every object that is due. What could not be done is tried again, each time after twice as long.
    async fn work(&mut self, registry: &Arc<Registry>, told: u64) -> Option<Instant> {
        if self.again.is_some_and(|(due, _)| due <= Instant::now()) {
            for at in std::mem::take(&mut self.failed) {
                self.enqueue(at);
            }
        }
        let mut unread = Vec::new();
        while let Some(at) = self.queue.pop_front() {
            self.queued.remove(&at);
            match self.look_at(registry, at.clone(), told).await {
                Ok(Looked::Done) => (),
                Ok(Looked::TooEarly) => unread.push(at),
                Err(failure) => {
                    tracing::debug!(key = %at.1, message = failure.status.message, "an object could not be collected");
                    self.failed.insert(at);
                }
            }
            tokio::task::yield_now().await;
        }
        let now = Instant::now();
        let is_early = !unread.is_empty();
        unread.into_iter().for_each(|at| self.enqueue(at));
        self.again = match self.again {
            _ if self.failed.is_empty() => None,
            Some((due, pause)) if due > now => Some((due, pause)),
            before => {
                let pause = before.map_or(FIRST_RETRY, |(_, pause)| (pause * 2).min(LONGEST_RETRY));
                Some((now + pause, pause))
            }
        };
        if is_early { Some(now) } else { self.again.map(|(due, _)| due) }
    }

    fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl Collector {
    fn note(&mut self, at: &Spot, old: Option<&Stored>, new: Option<&Stored>) {
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
                }
            }
        }
        for added in after.difference(&before) {
            self.dependents.entry(added.clone()).or_default().insert(at.clone());
            self.fresh.insert(at.clone());
        }
        let Some(new) = new else {
            self.fresh.remove(at);
            return;
        };
        let waits =
            new.is_deleting() && (has_finalizer(new, ORPHAN_FINALIZER) || has_finalizer(new, FOREGROUND_FINALIZER));
        if waits || !after.is_empty() {
            self.enqueue(at.clone());
        }
        if let Some(old) = old
            && old_references != new_references
        {
            self.enqueue_owners(old, &old_references);
        }
    }

    fn enqueue(&mut self, at: Spot) {
        if self.queued.insert(at.clone()) {
            self.queue.push_back(at);
        }
    }

    /// The owners themselves are not tracked: their place follows from the reference, if it is right.
    fn enqueue_owners(&mut self, object: &Stored, references: &[Json]) {
        for reference in references {
            let group = reference.text("/apiVersion").parse::<GroupVersion>().unwrap_or_default().group;
            let name = reference.text("/name");
            let key = key(&object.namespace(), name);
            self.enqueue((format!("?{group}/{}", reference.text("/kind")).into(), key.into()));
        }
    }

    async fn look_at(&mut self, registry: &Arc<Registry>, at: Spot, told: u64) -> Outcome<Looked> {
        let kinds = registry.kinds();
        let Some((kind, (resource, key))) = resolve(registry, &kinds, at) else { return Ok(Looked::Done) };
        offload::work_on(registry.db.weight(&resource, &key)).await;
        let Some(stored) = registry.db.get(&resource, &key) else { return Ok(Looked::Done) };
        // What goes in another cluster, that cluster collects.
        if stored.is_deleting() && registry.db.is_left_alone(&resource, &key) {
            return Ok(Looked::Done);
        }
        if stored.revision() > told {
            return Ok(Looked::TooEarly);
        }
        let target = RequestTarget::new(kind.clone(), &stored.namespace(), &stored.name());
        if self.fresh.remove(&(resource, key)) && !registry.db.is_mirror() {
            report::owners_elsewhere(registry, &kinds, &target, &stored);
        }
        if !stored.is_deleting() {
            return self.follow_owners(registry, &kinds, &target, &stored, told);
        }
        if has_finalizer(&stored, ORPHAN_FINALIZER) {
            self.set_dependents_free(registry, &target, &stored).await?;
        } else if has_finalizer(&stored, FOREGROUND_FINALIZER) {
            self.await_dependents(registry, &target, &stored)?;
        }
        Ok(Looked::Done)
    }

    fn dependents_of(&self, registry: &Registry, object: &Stored) -> Vec<(Spot, Arc<Stored>)> {
        let places = self.dependents.get(&*object.uid()).into_iter().flatten();
        places.filter_map(|at| Some((at.clone(), registry.db.get(&at.0, &at.1)?))).collect()
    }

    /// Takes the owner out of its dependents' references, then its finalizer away.
    async fn set_dependents_free(
        &self,
        registry: &Arc<Registry>,
        target: &RequestTarget,
        owner: &Stored,
    ) -> Outcome<()> {
        let kinds = registry.kinds();
        let mut outcome = Ok(());
        for ((resource, _), dependent) in self.dependents_of(registry, owner) {
            let Some(kind) = kind_of_store(&kinds, &resource) else { continue };
            let target = RequestTarget::new(kind.clone(), &dependent.namespace(), &dependent.name());
            // One that cannot be written binds none of the others.
            offload::work_on(dependent.weight()).await;
            let is_of_owner = |reference: &Json| reference.text("/uid") == owner.uid();
            outcome = outcome.and(drop_references(registry, &target, &dependent.uid(), &is_of_owner));
            tokio::task::yield_now().await;
        }
        outcome?;
        offload::work_on(owner.weight()).await;
        drop_finalizer(registry, target, &owner.uid(), ORPHAN_FINALIZER)
    }

    /// An owner that waits goes once no dependent blocks it. It is looked at again whenever a dependent goes, so all of them are looked
    /// at but the first time, and then only from the one on that was found to block it.
    fn await_dependents(&mut self, registry: &Arc<Registry>, target: &RequestTarget, owner: &Stored) -> Outcome<()> {
        let uid = owner.uid();
        let before = self.blocked.remove(&*uid);
        if before.is_none() {
            for (at, dependent) in self.dependents_of(registry, owner) {
                if !dependent.is_deleting() {
                    self.enqueue(at);
                }
            }
        }
        let blocks = |at: &&Spot| {
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
            None => drop_finalizer(registry, target, &uid, FOREGROUND_FINALIZER),
        }
    }

    /// Deletes an object without living owners; drops references to those that are gone, if others live.
    fn follow_owners(
        &mut self,
        registry: &Arc<Registry>,
        kinds: &Kinds,
        target: &RequestTarget,
        object: &Stored,
        told: u64,
    ) -> Outcome<Looked> {
        if target.kind.strategy.is_report() {
            return Ok(Looked::Done);
        }
        let references = object.owner_references();
        let owners: Vec<_> =
            references.iter().map(|reference| owner(registry, kinds, target, reference, told)).collect();
        if owners.is_empty() || owners.contains(&Owner::Unknown) {
            return Ok(Looked::Done);
        }
        if owners.contains(&Owner::Unread) {
            return Ok(Looked::TooEarly);
        }
        let waits = owners.contains(&Owner::Waits);
        if owners.contains(&Owner::Lives) {
            if waits || owners.contains(&Owner::Gone) {
                let dead: HashSet<String> = references
                    .iter()
                    .zip(&owners)
                    .filter(|(_, owner)| **owner != Owner::Lives)
                    .map(|(reference, _)| reference.text("/uid").to_owned())
                    .collect();
                let is_dead = |reference: &Json| dead.contains(reference.text("/uid"));
                drop_references(registry, target, &object.uid(), &is_dead)?;
            }
            return Ok(Looked::Done);
        }
        let dependents = self.dependents_of(registry, object);
        let policy = match waits && !dependents.is_empty() {
            true => {
                let circle = dependents.iter().any(|(_, dependent)| dependent.is_deleting());
                if circle {
                    unblock(registry, target, &object.uid())?;
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
            ..DeleteOptions::default()
        };
        match registry.delete(target, &options, &requester()) {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(Looked::Done),
        }
    }
}

/// The kind that a place in the store, or a reference to an owner, belongs to.
fn resolve(registry: &Registry, kinds: &Kinds, (resource, key): Spot) -> Option<(Arc<Kind>, Spot)> {
    let Some(group_kind) = resource.strip_prefix('?') else {
        return Some((kind_of_store(kinds, &resource)?.clone(), (resource, key)));
    };
    let (group, name) = group_kind.split_once('/')?;
    let kind = kinds.group_kind(group, name)?;
    let store: ResourceKey = kind.resource_key().clone();
    let key = match kind.namespaced() {
        true => key,
        false => key.rsplit('/').next().unwrap_or_default().into(),
    };
    registry.db.get(&store, &key)?;
    Some((kind.clone(), (store, key)))
}

fn kind_of_store<'a>(kinds: &'a Kinds, resource: &str) -> Option<&'a Arc<Kind>> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    kinds.store(&crate::kinds::GroupResource::new(group, plural))
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::release::COLLECTOR;
    use super::*;
    use crate::background::options;
    use crate::registry::Writer;

    fn target(registry: &Registry, name: &str) -> RequestTarget {
        let kinds = registry.kinds();
        RequestTarget::new(kinds.group_kind("rbac.authorization.k8s.io", "ClusterRole").unwrap().clone(), "", name)
    }

    fn stored(registry: &Registry, name: &str) -> Option<Arc<Stored>> {
        let target = target(registry, name);
        registry.db.get(&target.resource_key(), &target.key())
    }

    fn create(registry: &Arc<Registry>, name: &str, owner: Option<&str>) {
        let reference = |owner: &str| {
            let uid = stored(registry, owner).unwrap().uid().into_owned();
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": owner, "uid": uid,
                "blockOwnerDeletion": true})
        };
        let references: Vec<Json> = owner.into_iter().map(reference).collect();
        let object = json!({"metadata": {"name": name, "ownerReferences": references}});
        let options = options();
        let by = Writer::new(&options, COLLECTOR, registry.clock.now_text());
        registry.create(&target(registry, name), object, &by).unwrap();
    }

    #[tokio::test]
    async fn an_owner_that_waits_looks_at_all_of_its_dependents_but_once() {
        let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
        let mut collector = Collector::default();
        create(&registry, "a", None);
        let names = ["b", "c", "d"];
        names.iter().for_each(|name| create(&registry, name, Some("a")));
        collector.look_anew(&registry);
        let options = DeleteOptions { propagation: Some(PropagationPolicy::Foreground), ..DeleteOptions::default() };
        registry.delete(&target(&registry, "a"), &options, &requester()).unwrap();
        let owner = stored(&registry, "a").unwrap();
        let mut enqueued = |blocking: Option<&str>| {
            collector.queue.clear();
            collector.queued.clear();
            collector.await_dependents(&registry, &target(&registry, "a"), &owner).unwrap();
            assert_eq!(stored(&registry, "a").is_some(), blocking.is_some());
            assert_eq!(collector.blocked.values().next().map(|at| &*at.1), blocking);
            collector.queue.len()
        };
        assert_eq!(enqueued(Some("b")), names.len());
        for (gone, next) in names.iter().zip([Some("c"), Some("d"), None]) {
            registry.delete(&target(&registry, gone), &DeleteOptions::default(), &requester()).unwrap();
            assert_eq!(enqueued(next), 0);
        }
    }

    /// An owner that a client has let go and made anew, deleted likewise, while its dependents were set free.
    #[tokio::test]
    async fn what_comes_in_an_owners_place_keeps_its_finalizer_and_its_dependents() {
        for (policy, finalizer) in
            [(PropagationPolicy::Orphan, ORPHAN_FINALIZER), (PropagationPolicy::Foreground, FOREGROUND_FINALIZER)]
        {
            let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
            let mut collector = Collector::default();
            let options = DeleteOptions { propagation: Some(policy), ..DeleteOptions::default() };
            let delete = || registry.delete(&target(&registry, "a"), &options, &requester()).unwrap();
            create(&registry, "a", None);
            delete();
            let old = stored(&registry, "a").unwrap();
            drop_finalizer(&registry, &target(&registry, "a"), &old.uid(), finalizer).unwrap();
            assert!(stored(&registry, "a").is_none());
            create(&registry, "a", None);
            create(&registry, "b", Some("a"));
            delete();
            match finalizer {
                ORPHAN_FINALIZER => {
                    collector.set_dependents_free(&registry, &target(&registry, "a"), &old).await.unwrap()
                }
                _ => collector.await_dependents(&registry, &target(&registry, "a"), &old).unwrap(),
            }
            assert!(stored(&registry, "a").is_some_and(|new| has_finalizer(&new, finalizer)), "{finalizer}");
            unblock(&registry, &target(&registry, "b"), &old.uid()).unwrap();
            let dependent = stored(&registry, "b").unwrap();
            assert_eq!(dependent.owner_references()[0]["blockOwnerDeletion"], true);
        }
    }

    #[tokio::test]
    async fn others_come_in_between_while_dependents_are_set_free() {
        let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
        let mut collector = Collector::default();
        create(&registry, "a", None);
        let names: Vec<String> = (0..20).map(|at| format!("dependent-{at}")).collect();
        names.iter().for_each(|name| create(&registry, name, Some("a")));
        collector.look_anew(&registry);
        let owner = stored(&registry, "a").unwrap();
        let bound = || {
            let owned = |name: &&String| !stored(&registry, name).unwrap().owner_references().is_empty();
            names.iter().filter(owned).count()
        };
        let target = target(&registry, "a");
        let others = async { assert_eq!(bound(), names.len() - 1) };
        let (freed, ()) = tokio::join!(collector.set_dependents_free(&registry, &target, &owner), others);
        freed.unwrap();
        assert_eq!(bound(), 0);
    }

    /// A chain of three, whose end is not told yet: as if it had no third.
    #[tokio::test]
    async fn what_is_newer_than_the_changes_told_is_looked_at_later() {
        let registry = Arc::new(Registry::new(crate::config::ApiServerConfig::default(), None));
        let mut changes = registry.db.follow_all(None);
        let mut collector = Collector::default();
        create(&registry, "a", None);
        create(&registry, "b", Some("a"));
        let told = registry.db.revision();
        create(&registry, "c", Some("b"));
        let options = DeleteOptions { propagation: Some(PropagationPolicy::Foreground), ..DeleteOptions::default() };
        registry.delete(&target(&registry, "a"), &options, &requester()).unwrap();

        for _ in 0..2 {
            collector.observe(&changes.next().await.unwrap());
        }
        let again = collector.work(&registry, told).await;
        assert!(again.is_some() && collector.is_busy());
        assert!(!stored(&registry, "b").unwrap().is_deleting(), "what depends on b is not known yet");

        let mut told_of_c = false;
        while stored(&registry, "a").is_some() {
            let told = registry.db.revision();
            while let Some(Ok(change)) = changes.try_next() {
                collector.observe(&change);
                told_of_c |= &*change.key == "c" && change.kind == ChangeKind::Deleted;
                let owner_has_gone = &*change.key == "b" && change.kind == ChangeKind::Deleted;
                assert!(!owner_has_gone || told_of_c, "b waits for c");
            }
            collector.work(&registry, told).await;
        }
        assert!(stored(&registry, "b").is_none() && stored(&registry, "c").is_none());
    }
}
