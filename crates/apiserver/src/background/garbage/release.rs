//! What the collector takes out of objects: references to what has gone, and the finalizers that made it look at them.

use std::sync::Arc;

use pintle_json::Json;

use crate::background::options;
use crate::failure::Outcome;
use crate::kinds::Place;
use crate::registry::{Registry, Wish, Writer};
use crate::store::Stored;

/// As whom it writes.
pub(super) const COLLECTOR: &str = "kube-controller-manager";

/// Takes references out of an object that are dead.
pub(super) fn drop_references(registry: &Arc<Registry>, place: &Place, is_dead: &dyn Fn(&Json) -> bool) -> Outcome<()> {
    patch(registry, place, &|metadata| {
        let references = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let living: Vec<Json> = references.into_iter().filter(|reference| !is_dead(reference)).collect();
        set_or_remove(metadata, "ownerReferences", living);
    })
}

/// Lets a circle of references that block each other go.
pub(super) fn unblock(registry: &Arc<Registry>, place: &Place) -> Outcome<()> {
    patch(registry, place, &|metadata| {
        for reference in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
            reference["blockOwnerDeletion"] = false.into();
        }
    })
}

pub(super) fn drop_finalizer(registry: &Arc<Registry>, place: &Place, finalizer: &str) -> Outcome<()> {
    patch(registry, place, &|metadata| {
        let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<Json> = finalizers.into_iter().filter(|name| *name != finalizer).collect();
        set_or_remove(metadata, "finalizers", others);
    })
}

fn set_or_remove(metadata: &mut Json, name: &str, list: Vec<Json>) {
    match list.is_empty() {
        true => metadata.unset(name),
        false => metadata.set(name, list),
    }
}

/// Changes an object's metadata; one that is gone is left so.
fn patch(registry: &Arc<Registry>, place: &Place, change: &dyn Fn(&mut Json)) -> Outcome<()> {
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        change(&mut new["metadata"]);
        Ok(new)
    };
    let options = options();
    let manager = Writer::new(&options, COLLECTOR, registry.clock.now_text());
    match registry.update(place, &Wish::Patch(&make), &manager) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

pub(super) fn has_finalizer(object: &Stored, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}
