//! Determines the states of an object's owners.

use pintle_apimachinery::object::key;
use pintle_json::Json;
use pintle_kinds::{Kinds, RequestTarget};
use pintle_meta::GroupVersion;

use super::deleted::DeletedOwners;
use super::release::has_finalizer;
use crate::registry::{FOREGROUND_FINALIZER, Registry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    Present,
    /// The owner is in foreground deletion. The collector deletes all its dependents, including dependents that do not
    /// block the owner's deletion.
    WaitsForDependents,
    Absent,
    /// The owner exists, but the collector has not observed its last change yet.
    TooRecent,
    /// The owner may exist, but its kind is not served.
    Unserved,
    /// The reference is invalid, or the owner may exist in the upstream cluster.
    Unknown,
}

pub(super) fn owner_state(
    registry: &Registry,
    kinds: &Kinds,
    dependent: &RequestTarget,
    reference: &Json,
    (deleted, observed): (&DeletedOwners, u64),
) -> OwnerState {
    let Ok(version) = reference.text("/apiVersion").parse::<GroupVersion>() else { return OwnerState::Unknown };
    let Some(kind) = kinds.kind(&version.group, &version.version, reference.text("/kind")) else {
        // In a plan, the upstream cluster collects the dependents of its own objects.
        let is_deleted = deleted.contains(reference, &dependent.namespace) && !registry.db.is_mirror();
        return if is_deleted { OwnerState::Absent } else { OwnerState::Unserved };
    };
    let namespace = match (kind.is_namespaced(), dependent.kind.is_namespaced()) {
        (true, false) => return OwnerState::Unknown,
        (true, true) => dependent.namespace.as_str(),
        (false, _) => "",
    };
    let (resource, key) = (kind.stored_as.to_string(), key(namespace, reference.text("/name")));
    let found = registry.db.get(&resource, &key).filter(|found| found.uid() == reference.text("/uid"));
    let Some(found) = found else {
        // In a plan, an owner that was not loaded may exist in the upstream cluster, unless it was deleted in the plan.
        return if registry.db.follows_upstream(&resource, &key) { OwnerState::Unknown } else { OwnerState::Absent };
    };
    if found.revision() > observed {
        return OwnerState::TooRecent;
    }
    let waiting = found.is_deleting() && has_finalizer(&found, FOREGROUND_FINALIZER);
    if waiting { OwnerState::WaitsForDependents } else { OwnerState::Present }
}
