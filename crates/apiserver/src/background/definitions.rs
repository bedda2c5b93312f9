//! The CustomResourceDefinition controller, which accepts the names of definitions and adds their kinds to the API.
//! After the deletion of a definition starts, the controller first deletes its custom resources and then removes the
//! definition.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pintle_apiextensions::{DEFINITIONS, Taken};
use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::object::{metadata, set_condition};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_json::{Json, json};
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::{OWN_MANAGER, Writer};
use pintle_meta::GroupResource;
use pintle_serving::offload;
use pintle_storage::{Change, Key, Stored};
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::registry::{Make, Registry, UpdateSource};

const EXTENSIONS_GROUP: &str = "apiextensions.k8s.io";
/// The interval between checks whether a deleted definition still has custom resources.
const EMPTYING_POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct Definitions {
    groups: BTreeMap<String, DefinitionGroup>,
    changed: BTreeSet<Key>,
    terminating: BTreeSet<Key>,
    /// Maps each served resource to the definition that was last used to update the API.
    served: HashMap<GroupResource, Arc<Stored>>,
}

#[derive(Debug, Default)]
struct DefinitionGroup {
    definitions: BTreeMap<Key, CachedDefinition>,
    reserved_names: Taken,
    /// The definitions that wait until another definition releases a name.
    waiting: BTreeSet<Key>,
}

/// A cached definition. `outline` omits the schemas, which use most of the memory and are needed only when the
/// definition is served.
#[derive(Clone, Debug)]
struct CachedDefinition {
    stored: Arc<Stored>,
    outline: Arc<Json>,
}

const DEFINITION_OUTLINE: &[&str] = &["metadata", "spec.group", "spec.names", "status"];

impl Controller for Definitions {
    const RESOURCES: Option<&'static [&'static str]> = Some(&[DEFINITIONS]);

    fn observe(&mut self, change: &Change) -> bool {
        self.changed.insert(change.key.clone());
        true
    }

    fn resync(&mut self, registry: &Registry) {
        self.changed.extend(self.groups.values().flat_map(|group| group.definitions.keys()).cloned());
        self.changed.extend(all(registry, DEFINITIONS).map(|(key, _)| key));
    }

    /// Serves new definitions and removes deleted ones. Returns the time of the next check.
    ///
    /// Processes only the changed definitions, and definitions in the same groups that wait for a name.
    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        self.serve_changed(registry);
        let mut waiting = false;
        for key in self.terminating.clone() {
            let Some(outline) = self.definition(&key).map(|definition| definition.outline.clone()) else { continue };
            if registry.db.follows_upstream(DEFINITIONS, &key) {
                continue; // In a plan, the upstream cluster deletes the definition.
            }
            waiting |= !self.delete_objects(registry, &outline).await;
        }
        waiting.then(|| Instant::now() + EMPTYING_POLL)
    }
}

fn group_of(key: &str) -> &str {
    key.split_once('.').map_or("", |(_, group)| group)
}

impl Definitions {
    pub(crate) fn serve_definition(&mut self, registry: &Arc<Registry>, name: &str) {
        self.changed.insert(name.into());
        self.serve_changed(registry);
    }

    fn serve_changed(&mut self, registry: &Arc<Registry>) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.iter().for_each(|key| self.refresh(registry, key));
        for key in self.unsettled(&changed) {
            let settled =
                self.groups.get_mut(group_of(&key)).and_then(|group| group.settle(&key, &registry.clock.now_text()));
            if let Some(settled) = settled {
                self.serve_newly_established(registry, &key, &settled);
                self.write_status(registry, &settled);
                self.refresh(registry, &key);
                changed.insert(key);
            }
        }
        changed.iter().for_each(|key| self.serve(registry, key));
    }

    fn definition(&self, key: &Key) -> Option<&CachedDefinition> {
        self.groups.get(group_of(key))?.definitions.get(key)
    }

    fn refresh(&mut self, registry: &Registry, key: &Key) {
        self.terminating.remove(key);
        let group = self.groups.entry(group_of(key).to_owned()).or_default();
        group.remove(key);
        match registry.db.get(DEFINITIONS, key) {
            Some(stored) => {
                let outline = Arc::new(stored.only(DEFINITION_OUTLINE));
                if pintle_apiextensions::is_terminating(&outline) {
                    self.terminating.insert(key.clone());
                }
                group.insert(key, CachedDefinition { stored, outline });
            }
            None if group.definitions.is_empty() => drop(self.groups.remove(group_of(key))),
            None => (),
        }
    }

    /// Returns the changed definitions and the definitions in the same groups that wait for a name, sorted by creation
    /// time.
    fn unsettled(&self, changed: &BTreeSet<Key>) -> Vec<Key> {
        let groups: BTreeSet<&str> = changed.iter().map(|key| group_of(key)).collect();
        let waiting = groups.iter().filter_map(|group| self.groups.get(*group)).flat_map(|group| &group.waiting);
        let keys: BTreeSet<&Key> = changed.iter().chain(waiting).collect();
        let mut keys: Vec<&Key> = keys.into_iter().collect();
        keys.sort_by_cached_key(|key| {
            let creation_time = self.definition(key)?.outline["metadata"]["creationTimestamp"].as_str()?;
            Some(creation_time.to_owned())
        });
        keys.into_iter().cloned().collect()
    }

    fn serve(&mut self, registry: &Registry, key: &Key) {
        let plural = key.split_once('.').map_or(&**key, |(plural, _)| plural);
        let resource = GroupResource::new(group_of(key), plural);
        let established =
            self.definition(key).filter(|definition| pintle_apiextensions::is_established(&definition.outline));
        let Some(definition) = established.map(|definition| definition.stored.clone()) else {
            return self.withdraw(registry, &resource);
        };
        self.serve_as(registry, resource, definition);
    }

    /// Serves the kinds of a newly established definition. The caller must call this method before it writes the
    /// status, because clients may use the resource as soon as they observe the status.
    fn serve_newly_established(&mut self, registry: &Registry, key: &Key, settled: &Json) {
        let resource = pintle_apiextensions::resource(settled);
        if pintle_apiextensions::is_established(settled)
            && !self.served.contains_key(&resource)
            && let Some(definition) = self.definition(key)
        {
            let mut definition = definition.stored.decode();
            definition.set("status", settled["status"].clone());
            self.serve_as(registry, resource, Arc::new(Stored::unversioned(&definition)));
        }
    }

    fn serve_as(&mut self, registry: &Registry, resource: GroupResource, definition: Arc<Stored>) {
        let old = self.served.insert(resource.clone(), definition.clone());
        if old.as_ref().is_some_and(|old| old.revision() == definition.revision()) {
            return;
        }
        let (old, new) = (old.map(|old| old.decode()), definition.decode());
        let is_unchanged = |path: &str| old.as_ref().is_some_and(|old| old.at(path) == new.at(path));
        let has_same_state = old
            .as_ref()
            .is_some_and(|old| pintle_apiextensions::is_terminating(old) == pintle_apiextensions::is_terminating(&new));
        let has_same_kinds = ["/metadata/uid", "/spec", "/status/acceptedNames"].into_iter().all(is_unchanged);
        if has_same_kinds && has_same_state {
            return;
        }
        let drop_change_log = || registry.db.renew(&store_name(&resource).to_string().into());
        // A new resource must not inherit the changes of an earlier resource with the same name. Drop the change log
        // before the resource is served. Dropping the log later would end the watches of clients.
        if old.is_none() {
            drop_change_log();
        }
        let kinds = pintle_apiextensions::kinds(&new);
        registry.change_kinds(|known| known.replace_custom(&resource, kinds));
        if old.is_some() && !is_unchanged("/spec") {
            drop_change_log();
        }
    }

    fn withdraw(&mut self, registry: &Registry, resource: &GroupResource) {
        if self.served.remove(resource).is_some() {
            registry.change_kinds(|kinds| kinds.replace_custom(resource, Vec::new()));
            registry.db.renew(&store_name(resource).to_string().into());
        }
    }

    /// Deletes a definition's custom resources. Returns `true` if nothing remains to delete for this definition.
    async fn delete_objects(&mut self, registry: &Arc<Registry>, definition: &Json) -> bool {
        let resource = pintle_apiextensions::resource(definition);
        if !has_finalizer(definition) {
            return true;
        }
        let kinds = registry.kinds();
        let store = store_name(&resource);
        let objects = all(registry, &store.to_string());
        // A deleted definition can have objects even if none of its versions is served. Use the storage version to
        // delete these objects.
        let storage_version_kind =
            || pintle_apiextensions::storage_version_kind(&self.served.get(&resource)?.decode()).map(Arc::new);
        let established = self.served.contains_key(&resource) && objects.left() > 0;
        let kind = established.then(|| kinds.store(&store).cloned().or_else(storage_version_kind)).flatten();
        let Some(kind) = kind else {
            self.remove_finalizer(registry, definition);
            return true;
        };
        for (_, object) in objects {
            // Stop if the definition was recreated with the same name. The remaining custom resources belong to the new
            // definition.
            let current = registry.db.get(DEFINITIONS, metadata::name(definition));
            if !current.is_some_and(|current| current.uid() == metadata::uid(definition) && current.is_deleting()) {
                return true;
            }
            if !object.is_deleting() {
                offload::work_on(object.weight()).await;
                let target = RequestTarget::new(kind.clone(), &object.namespace(), &object.name());
                // Deleting the custom resources of a deleted definition bypasses admission.
                if let Err(failure) = registry.delete_if(&target, &DeleteOptions::default(), |_| Ok(())) {
                    tracing::debug!(error = failure.status.message, "cannot delete an object of a deleted definition");
                }
                tokio::task::yield_now().await;
            }
        }
        if all(registry, &store.to_string()).left() == 0 {
            self.remove_finalizer(registry, definition);
            return true;
        }
        let mut updated = definition.clone();
        let condition = json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        });
        if set_condition(&mut updated, condition, &registry.clock.now_text()) {
            self.write_status(registry, &updated);
        }
        false
    }

    /// Removes the controller's finalizer from a definition. Removing the finalizer deletes the definition if it has no
    /// other finalizers. The server stops serving the resource before this write, so clients that observe the deletion
    /// can no longer use the resource.
    fn remove_finalizer(&mut self, registry: &Arc<Registry>, definition: &Json) {
        if finalizers(definition).count() == 1 {
            self.withdraw(registry, &pintle_apiextensions::resource(definition));
        }
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
            if metadata::uid(&new) != metadata::uid(definition) || !metadata::is_deleting(&new) {
                return Err(conflict(definition));
            }
            let finalizers: Vec<Json> =
                finalizers(&new).filter(|name| name.as_str() != Some(pintle_apiextensions::CLEANUP)).cloned().collect();
            new["metadata"]["finalizers"] = finalizers.into();
            Ok(new)
        };
        self.write(registry, definition, Subresource::None, &make);
    }

    /// Writes a definition's status. If the definition has changed since it was read, skips the write, because the
    /// change triggers another reconcile.
    fn write_status(&self, registry: &Arc<Registry>, settled: &Json) {
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
            if new.text("/metadata/resourceVersion") != settled.text("/metadata/resourceVersion") {
                return Err(conflict(settled));
            }
            new["status"] = settled["status"].clone();
            Ok(new)
        };
        self.write(registry, settled, Subresource::Status, &make);
    }

    fn write(&self, registry: &Arc<Registry>, definition: &Json, subresource: Subresource, make: Make<'_>) {
        let kinds = registry.kinds();
        let Some(kind) = kinds.group_kind(EXTENSIONS_GROUP, "CustomResourceDefinition") else { return };
        let name = metadata::name(definition);
        let mut target = RequestTarget::new(kind.clone(), "", name);
        target.subresource = subresource;
        let options = options();
        let manager = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
        if let Err(failure) = registry.update(&target, &UpdateSource::Patch(make), &manager) {
            tracing::debug!(%name, error = failure.status.message, "cannot write a definition");
        }
    }
}

impl DefinitionGroup {
    fn insert(&mut self, key: &Key, definition: CachedDefinition) {
        self.reserved_names.add(&definition.outline);
        if !pintle_apiextensions::has_accepted_names(&definition.outline) {
            self.waiting.insert(key.clone());
        }
        self.definitions.insert(key.clone(), definition);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(old) = self.definitions.remove(key) {
            self.reserved_names.remove(&old.outline);
            self.waiting.remove(key);
        }
    }

    /// Returns the definition with its new status, or `None` if the status does not change.
    fn settle(&mut self, key: &Key, now: &str) -> Option<Json> {
        let outline = self.definitions.get(key)?.outline.clone();
        // Remove the definition's own names first, so that the definition does not conflict with itself.
        self.reserved_names.remove(&outline);
        let settled = pintle_apiextensions::settle(&outline, &self.reserved_names, now);
        self.reserved_names.add(&outline);
        settled
    }
}

fn conflict(definition: &Json) -> Failure {
    Failure::modified(&GroupResource::new(EXTENSIONS_GROUP, "customresourcedefinitions"), metadata::name(definition))
}

fn store_name(resource: &GroupResource) -> GroupResource {
    pintle_apiextensions::stored_as(&resource.group, &resource.resource)
}

fn finalizers(definition: &Json) -> impl Iterator<Item = &Json> {
    definition.list("/metadata/finalizers")
}

fn has_finalizer(definition: &Json) -> bool {
    finalizers(definition).any(|name| name.as_str() == Some(pintle_apiextensions::CLEANUP))
}

#[cfg(test)]
mod tests {
    use pintle_effort::turns;
    use pintle_json::json;
    use pintle_kinds::Origin;
    use pintle_storage::{Changes, Expect};

    use super::super::api_services::ApiServices;
    use super::*;
    use crate::config::ApiServerConfig;

    fn definition(versions: &[&str]) -> Json {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = |name: &&str| json!({"name": *name, "served": true, "storage": *name == "v1", "schema": schema});
        let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
        let served: Vec<_> = versions.iter().map(version).collect();
        let metadata = json!({"name": "widgets.e.com", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let spec = json!({
            "group": "e.com", "scope": "Namespaced", "names": names, "versions": served, "conversion": {"strategy": "None"},
        });
        let status = json!({"acceptedNames": names, "conditions": [], "storedVersions": versions});
        let types = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        json!({"apiVersion": types.0, "kind": types.1, "metadata": metadata, "spec": spec, "status": status})
    }

    #[test]
    fn stale_definition_status_is_not_written() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let (mut definitions, key) = (Definitions::default(), Key::from("widgets.e.com"));
        let put = |expect, versions: &[&str]| {
            registry.db.put(&DEFINITIONS.into(), &key, expect, definition(versions)).expect("as expected").revision()
        };
        let stored = || registry.db.get(DEFINITIONS, &key).expect("an existing definition").decode()["status"].clone();
        let read = |definitions: &mut Definitions| {
            definitions.refresh(&registry, &key);
            let mut outline = Json::clone(&definitions.definition(&key).expect("a cached definition").outline);
            outline["status"].set("conditions", json!([{"type": "Established", "status": "True"}]));
            outline
        };
        let first = put(Expect::Absent, &["v1"]);
        let old = read(&mut definitions);
        put(Expect::At(first), &["v1", "v2"]);
        definitions.write_status(&registry, &old);
        assert_eq!(stored()["storedVersions"], json!(["v1", "v2"]));
        let new = read(&mut definitions);
        definitions.write_status(&registry, &new);
        assert_eq!(stored()["conditions"][0]["status"], "True", "an unchanged definition is written");
    }

    fn terminating(uid: &str) -> Json {
        let mut definition = definition(&["v1"]);
        definition["status"].set("conditions", json!([{"type": "Established", "status": "True"}]));
        for (field, value) in [("uid", json!(uid)), ("finalizers", json!([pintle_apiextensions::CLEANUP]))] {
            definition["metadata"].set(field, value);
        }
        definition["metadata"].set("deletionTimestamp", "2026-01-01T00:00:00Z");
        definition
    }

    #[test]
    fn recreated_definition_keeps_its_finalizer() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let (mut definitions, key) = (Definitions::default(), Key::from("widgets.e.com"));
        registry.db.put(&DEFINITIONS.into(), &key, Expect::Absent, terminating("2")).expect("absent");
        definitions.remove_finalizer(&registry, &terminating("1"));
        assert!(registry.db.get(DEFINITIONS, &key).is_some(), "the UIDs differ");
        definitions.remove_finalizer(&registry, &terminating("2"));
        assert!(registry.db.get(DEFINITIONS, &key).is_none());
    }

    #[tokio::test]
    async fn recreated_definition_keeps_the_remaining_objects() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let (mut definitions, key) = (Definitions::default(), Key::from("widgets.e.com"));
        let put = |expect, object| registry.db.put(&DEFINITIONS.into(), &key, expect, object).expect("as expected");
        let first = put(Expect::Absent, terminating("1")).revision();
        definitions.refresh(&registry, &key);
        definitions.serve(&registry, &key);
        let store = store_name(&GroupResource::new("e.com", "widgets")).to_string();
        for name in ["a", "b", "c"] {
            let (at, object) =
                (Key::from(format!("default/{name}")), json!({"metadata": {"name": name, "namespace": "default"}}));
            registry.db.put(&store.clone().into(), &at, Expect::Absent, object).expect("absent");
        }
        let old = terminating("1");
        let recreate = async { drop(put(Expect::At(first), terminating("2"))) };
        let (is_done, ()) = tokio::join!(definitions.delete_objects(&registry, &old), recreate);
        assert!(is_done, "no further call is needed");
        assert_eq!(all(&registry, &store).left(), 2, "one was deleted before");
    }

    /// The number of definitions in the test. A change to one definition must create at most `MANY / 10` tree nodes.
    const MANY: usize = 1000;

    struct Cluster {
        registry: Arc<Registry>,
        changes: Changes,
        definitions: Definitions,
        services: ApiServices,
    }

    impl Cluster {
        fn new() -> Self {
            let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
            let changes = registry.db.follow_all(None);
            Self { registry, changes, definitions: Definitions::default(), services: ApiServices::default() }
        }

        fn put(&self, plural: &str, group: &str, version: &str) {
            self.put_named(plural, plural, group, version);
        }

        /// Stores a definition before the controller has accepted its names.
        fn put_named(&self, plural: &str, kind: &str, group: &str, version: &str) {
            let schema = json!({"openAPIV3Schema": {"type": "object"}});
            let version = json!({"name": version, "served": true, "storage": true, "schema": schema});
            let names = json!({"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")});
            let spec = json!({"group": group, "scope": "Namespaced", "names": names, "versions": [version]});
            let status =
                json!({"acceptedNames": {"plural": "", "kind": ""}, "conditions": [], "storedVersions": ["v1"]});
            let key = format!("{plural}.{group}");
            let types = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
            let metadata = json!({"name": key, "uid": key});
            let object = json!({
                "apiVersion": types.0, "kind": types.1, "metadata": metadata, "spec": spec, "status": status,
            });
            let there = self.registry.db.get(DEFINITIONS, &key);
            let expect = there.map_or(Expect::Absent, |there| Expect::At(there.revision()));
            self.registry.db.put(&DEFINITIONS.into(), &key, expect, object).expect("no concurrent writer");
        }

        fn work(&mut self) {
            let Self { registry, changes, definitions, services } = self;
            while let Some(Ok(change)) = changes.try_next() {
                definitions.observe(&change);
                services.observe(&change);
            }
            turns(async { (definitions.work(registry, 0).await, services.work(registry, 0).await) });
        }

        fn custom(&self) -> usize {
            self.registry.kinds().kinds().filter(|kind| kind.origin() == Origin::Custom).count()
        }
    }

    #[test]
    fn change_of_one_definition_recompiles_no_other() {
        for one_group in [false, true] {
            let mut cluster = Cluster::new();
            let group = |at: usize| if one_group { "g.com".to_owned() } else { format!("g{at}.com") };
            let put = |cluster: &Cluster, at: usize, version: &str| cluster.put(&format!("w{at}"), &group(at), version);
            (0..MANY).for_each(|at| put(&cluster, at, "v1"));
            cluster.work();
            assert_eq!(cluster.custom(), MANY);
            for (at, version) in [(0, "v2"), (MANY / 2, "v2"), (MANY, "v1")] {
                let held = cluster.registry.kinds();
                put(&cluster, at, version);
                cluster.work();
                let now = cluster.registry.kinds();
                let (changed, made) = now.changed_since(&held);
                assert_eq!(changed, [group(at)], "{version}");
                assert!((1..=100).contains(&made), "{made} of {MANY}");
                assert!(now.resource(&group(at), version, &format!("w{at}")).is_some());
            }
            assert_eq!(cluster.custom(), MANY + 1);
        }
    }

    #[test]
    fn unsettled_includes_definitions_waiting_for_a_name() {
        let mut cluster = Cluster::new();
        (0..9).for_each(|at| cluster.put(&format!("w{at}"), "g.com", "v1"));
        cluster.put("w0", "h.com", "v1");
        cluster.work();
        let unsettled = |cluster: &Cluster, key: &str| cluster.definitions.unsettled(&BTreeSet::from([key.into()]));
        assert_eq!(unsettled(&cluster, "w3.g.com"), ["w3.g.com".into()]);
        cluster.put_named("x", "w1", "g.com", "v1");
        cluster.work();
        assert_eq!(cluster.custom(), 10, "another definition has the kind");
        assert_eq!(unsettled(&cluster, "w3.g.com"), ["w3.g.com".into(), "x.g.com".into()]);
        assert_eq!(unsettled(&cluster, "w0.h.com"), ["w0.h.com".into()]);
        let at = cluster.registry.db.get(DEFINITIONS, "w1.g.com").expect("an existing definition").revision();
        cluster.registry.db.remove(&DEFINITIONS.into(), "w1.g.com", at).expect("no concurrent writer");
        cluster.work();
        assert!(cluster.registry.kinds().resource("g.com", "v1", "x").is_some(), "the kind is free now");
        assert_eq!(unsettled(&cluster, "w3.g.com"), ["w3.g.com".into()]);
    }
}
