//! Custom resource definitions: their names are accepted, they come into force, and they go once their objects have gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_json::Json;
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::crd;
use crate::kinds::{GroupResource, Place};
use crate::object::metadata;
use crate::registry::Writer;
use crate::registry::{Registry, Wish};
use crate::request::Part;
use crate::request::options::DeleteOptions;
use crate::store::{Key, Stored};

const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
const GROUP: &str = "apiextensions.k8s.io";
const MANAGER: &str = "kube-apiserver";
/// How often a definition that is going looks whether its objects have gone.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// What was read of each definition, by its key.
    known: HashMap<Key, Definition>,
    /// What is in force, by group and plural, and the definition that says so.
    served: HashMap<GroupResource, Arc<Stored>>,
}

/// A definition, and what is looked at of each whenever one has changed: all but the schemas, which are most of it.
#[derive(Clone, Debug)]
struct Definition {
    stored: Arc<Stored>,
    outline: Arc<Json>,
}

const OUTLINE: &[&str] = &["metadata", "spec.group", "spec.names", "status"];

impl Controller for Definitions {
    const OF: Option<&'static [&'static str]> = Some(&[RESOURCE]);

    /// Brings definitions into force and lets go of those that are deleted; answers when to look again.
    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let outlines: Vec<_> = self.present(registry).into_iter().map(|definition| definition.outline).collect();
        for settled in crd::settle(&outlines, &registry.clock.now_text()) {
            self.write_status(registry, &settled);
        }
        let definitions = self.present(registry);
        self.serve(registry, &definitions);
        let mut waiting = false;
        let outlines = definitions.iter().map(|definition| &definition.outline);
        for definition in outlines.filter(|definition| crd::is_terminating(definition)) {
            if registry.db.is_left_alone(RESOURCE, metadata::name(definition)) {
                continue; // It goes in another cluster.
            }
            waiting |= !self.let_go(registry, definition).await;
        }
        waiting.then(|| Instant::now() + AGAIN)
    }
}

impl Definitions {
    /// The definitions in the order in which they were made. Only those that have changed are read.
    fn present(&mut self, registry: &Registry) -> Vec<Definition> {
        let mut known: HashMap<_, _> = std::mem::take(&mut self.known);
        let mut definitions = Vec::new();
        for (key, stored) in all(registry, RESOURCE) {
            let definition = match known.remove(&key) {
                Some(Definition { stored: at, outline }) if at.revision() == stored.revision() => {
                    Definition { stored, outline }
                }
                _ => Definition { outline: Arc::new(stored.only(OUTLINE)), stored },
            };
            self.known.insert(key, definition.clone());
            definitions.push(definition);
        }
        let made =
            |definition: &Definition| definition.outline["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
        definitions.sort_by_cached_key(made);
        definitions
    }

    /// Makes the registry say what the definitions say.
    fn serve(&mut self, registry: &Registry, definitions: &[Definition]) {
        let mut present: HashMap<GroupResource, &Arc<Stored>> = HashMap::new();
        for definition in definitions.iter().filter(|definition| crd::is_established(&definition.outline)) {
            present.insert(crd::resource(&definition.outline), &definition.stored);
        }
        let gone: Vec<_> = self.served.keys().filter(|resource| !present.contains_key(resource)).cloned().collect();
        for resource in gone {
            self.withdraw(registry, &resource);
        }
        for (resource, definition) in present {
            let old = self.served.insert(resource.clone(), definition.clone());
            if old.as_ref().is_some_and(|old| old.revision() == definition.revision()) {
                continue;
            }
            let (old, new) = (old.map(|old| old.decode()), definition.decode());
            let is_same = |path: &str| old.as_ref().is_some_and(|old| old.at(path) == new.at(path));
            let still = old.as_ref().is_some_and(|old| crd::is_terminating(old) == crd::is_terminating(&new));
            if is_same("/spec") && is_same("/status/acceptedNames") && still {
                continue;
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
            if !object.is_deleting() {
                let place = Place::new(kind.clone(), &object.namespace(), &object.name());
                if let Err(failure) = registry.delete(&place, &DeleteOptions::default()) {
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
        let message = "CustomResource deletion is in progress";
        let now = registry.clock.now_text();
        if crd::set_condition(&mut told, "Terminating", "True", "InstanceDeletionInProgress", message, &now) {
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
            let finalizers: Vec<Json> =
                finalizers(&new).filter(|name| name.as_str() != Some(crate::registry::CLEANUP)).cloned().collect();
            new["metadata"]["finalizers"] = finalizers.into();
            Ok(new)
        };
        self.write(registry, definition, Part::Object, &make);
    }

    fn write_status(&self, registry: &Arc<Registry>, settled: &Json) {
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
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
        let Some(kind) = kinds.group_kind(GROUP, "CustomResourceDefinition") else { return };
        let name = metadata::name(definition);
        let mut place = Place::new(kind.clone(), "", name);
        place.part = part;
        let options = options();
        let manager = Writer::new(&options, MANAGER, registry.clock.now_text());
        if let Err(failure) = registry.update(&place, &Wish::Patch(make), &manager) {
            tracing::debug!(%name, message = failure.status.message, "a definition could not be written");
        }
    }
}

fn stored(resource: &GroupResource) -> GroupResource {
    crd::store(&resource.group, &resource.resource)
}

fn finalizers(definition: &Json) -> impl Iterator<Item = &Json> {
    definition.list("/metadata/finalizers")
}

fn has_finalizer(definition: &Json) -> bool {
    finalizers(definition).any(|name| name.as_str() == Some(crate::registry::CLEANUP))
}
