//! The writes of the garbage collector, which remove finalizers and references to nonexistent owners.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Requester;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::Writer;
use pintle_storage::Stored;

use crate::background::options;
use crate::background::reviews::now_text;
use crate::registry::{Registry, UpdateSource};

pub(super) const COLLECTOR: &str = "kube-controller-manager";

pub(super) fn drop_references(
    registry: &Arc<Registry>,
    target: &RequestTarget,
    uid: &str,
    is_dead: &(dyn Fn(&Json) -> bool + Sync),
    by: &Requester,
) -> Outcome<()> {
    patch(registry, target, uid, by, &|metadata| {
        let references = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let living: Vec<Json> = references.into_iter().filter(|reference| !is_dead(reference)).collect();
        set_or_remove(metadata, "ownerReferences", living);
    })
}

/// To break a cycle of owners, sets `blockOwnerDeletion` to `false` in all owner references of an object.
pub(super) fn unblock(registry: &Arc<Registry>, target: &RequestTarget, uid: &str, by: &Requester) -> Outcome<()> {
    patch(registry, target, uid, by, &|metadata| {
        for reference in metadata["ownerReferences"].as_array_mut().into_iter().flatten() {
            reference["blockOwnerDeletion"] = false.into();
        }
    })
}

pub(super) fn drop_finalizer(
    registry: &Arc<Registry>,
    target: &RequestTarget,
    uid: &str,
    finalizer: &str,
    by: &Requester,
) -> Outcome<()> {
    patch(registry, target, uid, by, &|metadata| {
        let finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<Json> = finalizers.into_iter().filter(|name| *name != finalizer).collect();
        set_or_remove(metadata, "finalizers", others);
    })
}

fn set_or_remove(metadata: &mut Json, name: &str, list: Vec<Json>) {
    if list.is_empty() { metadata.unset(name) } else { metadata.set(name, list) }
}

/// Changes the metadata of the object with the UID `uid`. Does nothing if no object with this UID exists.
fn patch(
    registry: &Arc<Registry>,
    target: &RequestTarget,
    uid: &str,
    by: &Requester,
    change: &(dyn Fn(&mut Json) + Sync),
) -> Outcome<()> {
    let changed = |live: &Json| {
        let mut new = live.clone();
        change(&mut new["metadata"]);
        new
    };
    // Skip a write without changes. Otherwise, webhooks would review an earlier write again in each attempt.
    let live = registry.db.get(&target.resource_key(), &target.key()).map(|live| live.decode());
    if live.is_none_or(|live| metadata::uid(&live) != uid || changed(&live) == live) {
        return Ok(());
    }
    let make = |live: Option<&Json>| {
        let live = live.filter(|live| metadata::uid(live) == uid);
        live.map(changed).ok_or_else(|| Failure::not_found(&target.kind.resource(), &target.name))
    };
    if target.kind.strategy.conversion_webhook().is_some() && target.kind.strategy.conversion().is_none() {
        // Change the stored form of the object, because the address of the conversion webhook is unknown.
        let change = |object: &mut Json| {
            if metadata::uid(object) != uid {
                return Err(Failure::not_found(&target.kind.resource(), &target.name));
            }
            change(&mut object["metadata"]);
            Ok(())
        };
        return match registry.rewrite(target, false, change) {
            Err(failure) if !failure.is_not_found() => Err(failure),
            _ => Ok(()),
        };
    }
    registry.prepare_webhooks(by);
    let options = options();
    let manager = Writer::new(&options, COLLECTOR, now_text(registry, by)).with_requester(by.clone());
    match registry.update(target, &UpdateSource::Patch(&make), &manager) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

pub(super) fn has_finalizer(object: &Stored, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}
