//! The writes of the garbage collector, which remove finalizers and references to nonexistent owners.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::request::webhook_calls::WebhookCalls;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::Writer;
use pintle_storage::Stored;

use crate::background::options;
use crate::registry::{Registry, UpdateSource};

pub(super) const COLLECTOR: &str = "kube-controller-manager";

pub(super) fn drop_references(
    registry: &Arc<Registry>,
    target: &RequestTarget,
    uid: &str,
    is_dead: &(dyn Fn(&Json) -> bool + Sync),
) -> Outcome<()> {
    patch(registry, target, uid, &|metadata| {
        let references = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let living: Vec<Json> = references.into_iter().filter(|reference| !is_dead(reference)).collect();
        set_or_remove(metadata, "ownerReferences", living);
    })
}

/// To break a cycle of owners, sets `blockOwnerDeletion` to `false` in all owner references of an object.
pub(super) fn unblock(registry: &Arc<Registry>, target: &RequestTarget, uid: &str) -> Outcome<()> {
    patch(registry, target, uid, &|metadata| {
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
) -> Outcome<()> {
    patch(registry, target, uid, &|metadata| {
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
    change: &(dyn Fn(&mut Json) + Sync),
) -> Outcome<()> {
    let make = |live: Option<&Json>| {
        let live = live.filter(|live| metadata::uid(live) == uid);
        let mut new = live.cloned().ok_or_else(|| Failure::not_found(&target.kind.resource(), &target.name))?;
        change(&mut new["metadata"]);
        Ok(new)
    };
    if target.kind.strategy.with_conversions(&WebhookCalls::default()).is_some() {
        // Change the stored form of the object, because the collector does not call conversion webhooks.
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
    let options = options();
    let manager = Writer::new(&options, COLLECTOR, registry.clock.now_text()).with_requester(requester());
    match registry.update(target, &UpdateSource::Patch(&make), &manager) {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

pub(super) fn requester() -> Requester {
    Requester::new(User::controller("generic-garbage-collector"))
}

pub(super) fn has_finalizer(object: &Stored, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}
