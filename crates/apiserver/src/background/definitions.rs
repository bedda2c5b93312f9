//! Custom resource definitions: their names are accepted, they come into force, and they go once their objects have gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pintle_json::{Json, json};
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::crd::{self, DEFINITIONS};
use crate::failure::Failure;
use crate::kinds::{GroupResource, Place};
use crate::object::{metadata, set_condition};
use crate::registry::{OWN_MANAGER, Registry, Wish, Writer};
use crate::request::Part;
use crate::request::options::DeleteOptions;
use crate::request::user::User;
use crate::store::{Change, Key, Stored};

const EXTENSIONS_GROUP: &str = "apiextensions.k8s.io";
/// How often a definition that is going looks whether its objects have gone.
const EMPTYING_POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// What was read of each definition, by its group and its key.
    known: BTreeMap<String, BTreeMap<Key, Known>>,
    /// Those that have changed since.
    changed: BTreeSet<Key>,
    /// Those that are going.
    going: BTreeSet<Key>,
    /// What is in force, by group and plural, and the definition that says so.
    served: HashMap<GroupResource, Arc<Stored>>,
}

/// A definition, and what is looked at of each of its group when one has changed: all but the schemas, which are most of it.
#[derive(Clone, Debug)]
struct Known {
    stored: Arc<Stored>,
    outline: Arc<Json>,
}

const OUTLINE: &[&str] = &["metadata", "spec.group", "spec.names", "status"];

impl Controller for Definitions {
    const OF: Option<&'static [&'static str]> = Some(&[DEFINITIONS]);

    fn observe(&mut self, change: &Change) -> bool {
        self.changed.insert(change.key.clone());
        true
    }

    fn look_anew(&mut self, registry: &Registry) {
        self.changed.extend(self.known.values().flat_map(BTreeMap::keys).cloned());
        self.changed.extend(all(registry, DEFINITIONS).map(|(key, _)| key));
    }

    /// Brings definitions into force and lets go of those that are deleted; answers when to look again.
    ///
    /// Only what has changed is looked at, and for names, which one has that another wants, its group.
    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.iter().for_each(|key| self.read(registry, key));
        let groups: BTreeSet<String> = changed.iter().map(|key| group(key).to_owned()).collect();
        for group in groups {
            for settled in crd::settle(&self.outlines(&group), &registry.clock.now_text()) {
                self.write_status(registry, &settled);
                let key = Key::from(metadata::name(&settled));
                self.read(registry, &key);
                changed.insert(key);
            }
        }
        changed.iter().for_each(|key| self.serve(registry, key));
        let mut waiting = false;
        for key in self.going.clone() {
            let Some(outline) = self.definition(&key).map(|definition| definition.outline.clone()) else { continue };
            if registry.db.is_left_alone(DEFINITIONS, &key) {
                continue; // It goes in another cluster.
            }
            waiting |= !self.let_go(registry, &outline).await;
        }
        waiting.then(|| Instant::now() + EMPTYING_POLL)
    }
}

/// The group of the definition of that key, which begins with the plural.
fn group(key: &str) -> &str {
    key.split_once('.').map_or("", |(_, group)| group)
}

impl Definitions {
    fn definition(&self, key: &Key) -> Option<&Known> {
        self.known.get(group(key))?.get(key)
    }

    /// Reads a definition as it is now.
    fn read(&mut self, registry: &Registry, key: &Key) {
        self.going.remove(key);
        let of_group = self.known.entry(group(key).to_owned()).or_default();
        match registry.db.get(DEFINITIONS, key) {
            Some(stored) => {
                let outline = Arc::new(stored.only(OUTLINE));
                if crd::is_terminating(&outline) {
                    self.going.insert(key.clone());
                }
                of_group.insert(key.clone(), Known { stored, outline });
            }
            None => {
                of_group.remove(key);
                if of_group.is_empty() {
                    self.known.remove(group(key));
                }
            }
        }
    }

    /// The definitions of a group in the order in which they were made.
    fn outlines(&self, group: &str) -> Vec<Arc<Json>> {
        let of_group = self.known.get(group).into_iter().flat_map(BTreeMap::values);
        let mut outlines: Vec<_> = of_group.map(|definition| definition.outline.clone()).collect();
        outlines.sort_by_cached_key(|outline| outline["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        outlines
    }

    /// Makes the registry say what a definition says.
    fn serve(&mut self, registry: &Registry, key: &Key) {
        let plural = key.split_once('.').map_or(&**key, |(plural, _)| plural);
        let resource = GroupResource::new(group(key), plural);
        let established = self.definition(key).filter(|definition| crd::is_established(&definition.outline));
        let Some(definition) = established.map(|definition| definition.stored.clone()) else {
            return self.withdraw(registry, &resource);
        };
        let old = self.served.insert(resource.clone(), definition.clone());
        if old.as_ref().is_some_and(|old| old.revision() == definition.revision()) {
            return;
        }
        let (old, new) = (old.map(|old| old.decode()), definition.decode());
        let is_same = |path: &str| old.as_ref().is_some_and(|old| old.at(path) == new.at(path));
        let still = old.as_ref().is_some_and(|old| crd::is_terminating(old) == crd::is_terminating(&new));
        let same = ["/metadata/uid", "/spec", "/status/acceptedNames"].into_iter().all(is_same);
        if same && still {
            return;
        }
        let renew = || registry.db.renew(&stored(&resource).to_string().into());
        // Of a resource that is new there is no past; who already watches it once it is served is not ended.
        if old.is_none() {
            renew();
        }
        let kinds = crd::kinds(&new);
        registry.change_kinds(|known| known.replace_custom(&resource, kinds));
        if old.is_some() && !is_same("/spec") {
            renew();
        }
    }

    /// Serves a resource no longer.
    fn withdraw(&mut self, registry: &Registry, resource: &GroupResource) {
        if self.served.remove(resource).is_some() {
            registry.change_kinds(|kinds| kinds.replace_custom(resource, Vec::new()));
            registry.db.renew(&stored(resource).to_string().into());
        }
    }

    /// Deletes the objects of a definition that is going, then the definition; answers whether it is gone.
    async fn let_go(&mut self, registry: &Arc<Registry>, definition: &Json) -> bool {
        let resource = crd::resource(definition);
        if !has_finalizer(definition) {
            return true;
        }
        let kinds = registry.kinds();
        let store = stored(&resource);
        let objects = all(registry, &store.to_string());
        let Some(kind) = kinds.store(&store).filter(|_| self.served.contains_key(&resource)) else {
            self.finish(registry, definition);
            return true;
        };
        if objects.left() == 0 {
            self.finish(registry, definition);
            return true;
        }
        for (_, object) in objects {
            // What comes in its place meanwhile keeps its objects.
            let now = registry.db.get(DEFINITIONS, metadata::name(definition));
            if !now.is_some_and(|now| now.uid() == metadata::uid(definition) && now.is_deleting()) {
                return true;
            }
            if !object.is_deleting() {
                let place = Place::new(kind.clone(), &object.namespace(), &object.name());
                if let Err(failure) = registry.delete(&place, &DeleteOptions::default(), &User::admin()) {
                    tracing::debug!(message = failure.status.message, "an object of a deleted definition stays");
                }
                tokio::task::yield_now().await;
            }
        }
        if all(registry, &store.to_string()).left() == 0 {
            self.finish(registry, definition);
            return true;
        }
        let mut told = definition.clone();
        let condition = json!({
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        });
        if set_condition(&mut told, condition, &registry.clock.now_text()) {
            self.write_status(registry, &told);
        }
        false
    }

    /// Removes the finalizer, and with it the definition. Where no other holds it, the resource goes first: who sees that the
    /// definition is gone finds nothing served.
    fn finish(&mut self, registry: &Arc<Registry>, definition: &Json) {
        if finalizers(definition).count() == 1 {
            self.withdraw(registry, &crd::resource(definition));
        }
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
            if metadata::uid(&new) != metadata::uid(definition) || !metadata::is_deleting(&new) {
                return Err(changed_meanwhile(definition));
            }
            let finalizers: Vec<Json> =
                finalizers(&new).filter(|name| name.as_str() != Some(crd::CLEANUP)).cloned().collect();
            new["metadata"]["finalizers"] = finalizers.into();
            Ok(new)
        };
        self.write(registry, definition, Part::Object, &make);
    }

    /// Writes the status of a definition that is still as it was read: a write that came between brings another round.
    fn write_status(&self, registry: &Arc<Registry>, settled: &Json) {
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
            if new.text("/metadata/resourceVersion") != settled.text("/metadata/resourceVersion") {
                return Err(changed_meanwhile(settled));
            }
            new["status"] = settled["status"].clone();
            Ok(new)
        };
        self.write(registry, settled, Part::Status, &make);
    }

    fn write(
        &self,
        registry: &Arc<Registry>,
        definition: &Json,
        part: Part,
        make: &dyn Fn(Option<&Json>) -> crate::failure::Outcome<Json>,
    ) {
        let kinds = registry.kinds();
        let Some(kind) = kinds.group_kind(EXTENSIONS_GROUP, "CustomResourceDefinition") else { return };
        let name = metadata::name(definition);
        let mut place = Place::new(kind.clone(), "", name);
        place.part = part;
        let options = options();
        let manager = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
        if let Err(failure) = registry.update(&place, &Wish::Patch(make), &manager) {
            tracing::debug!(%name, message = failure.status.message, "a definition could not be written");
        }
    }
}

fn changed_meanwhile(definition: &Json) -> Failure {
    Failure::modified(&GroupResource::new(EXTENSIONS_GROUP, "customresourcedefinitions"), metadata::name(definition))
}

fn stored(resource: &GroupResource) -> GroupResource {
    crd::store(&resource.group, &resource.resource)
}

fn finalizers(definition: &Json) -> impl Iterator<Item = &Json> {
    definition.list("/metadata/finalizers")
}

fn has_finalizer(definition: &Json) -> bool {
    finalizers(definition).any(|name| name.as_str() == Some(crd::CLEANUP))
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::api_services::ApiServices;
    use super::*;
    use crate::clock::effort::{is_linear, turns};
    use crate::config::ApiServerConfig;
    use crate::kinds::Origin;
    use crate::store::Expect;

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
    fn the_status_of_a_definition_that_was_written_since_it_was_read_stays() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let (mut definitions, key) = (Definitions::default(), Key::from("widgets.e.com"));
        let put = |expect, versions: &[&str]| {
            registry.db.put(&DEFINITIONS.into(), &key, expect, definition(versions)).expect("as expected").revision
        };
        let stored = || registry.db.get(DEFINITIONS, &key).expect("it is there").decode()["status"].clone();
        let read = |definitions: &mut Definitions| {
            definitions.read(&registry, &key);
            let mut outline = Json::clone(&definitions.definition(&key).expect("it is read").outline);
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
        assert_eq!(stored()["conditions"][0]["status"], "True", "one that is as it was read is written");
    }

    #[test]
    fn a_change_of_one_definition_costs_nothing_for_the_others() {
        let changes = |count: usize| {
            let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
            let (mut definitions, mut services) = (Definitions::default(), ApiServices::default());
            let mut changes = registry.db.follow_all(None);
            for at in 0..count {
                let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
                let (key, group) = (format!("widgets.g{at}.com"), format!("g{at}.com"));
                let names =
                    json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
                let spec = json!({"group": group, "scope": "Namespaced", "names": names, "versions": [version]});
                let conditions = json!([{"type": "Established", "status": "True"}]);
                let status = json!({"acceptedNames": names, "conditions": conditions, "storedVersions": ["v1"]});
                let object = json!({"metadata": {"name": key, "uid": key}, "spec": spec, "status": status});
                registry.db.put(&DEFINITIONS.into(), &key, Expect::Absent, object).expect("absent");
                while let Ok(change) = changes.try_recv() {
                    definitions.observe(&change);
                    services.observe(&change);
                }
                turns(async { (definitions.work(&registry, 0).await, services.work(&registry, 0).await) });
            }
            assert_eq!(registry.kinds().kinds().filter(|kind| kind.origin() == Origin::Custom).count(), count);
            assert_eq!(all(&registry, "apiservices.apiregistration.k8s.io").left(), count);
        };
        assert!(is_linear(25, changes));
    }
}
