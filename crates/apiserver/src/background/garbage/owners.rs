//! What has become of those that own an object.

use pintle_json::Json;
use pintle_meta::GroupVersion;

use super::release::has_finalizer;
use crate::kinds::{Kinds, RequestTarget};
use crate::registry::{FOREGROUND_FINALIZER, Registry};
use crate::store::key;

/// What has become of the owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Lives,
    /// It waits for its dependents to go: this one goes, whether or not it blocks the owner.
    Waits,
    Gone,
    /// It lives, and has changed since the last change that was told.
    Unread,
    /// Its kind is not known: nothing can be said.
    Unknown,
}

/// What has become of an owner, as far as changes were told.
pub(super) fn owner(
    registry: &Registry,
    kinds: &Kinds,
    dependent: &RequestTarget,
    reference: &Json,
    told: u64,
) -> Owner {
    let Ok(version) = reference.text("/apiVersion").parse::<GroupVersion>() else { return Owner::Unknown };
    let Some(kind) = kinds.kind(&version.group, &version.version, reference.text("/kind")) else {
        return Owner::Unknown;
    };
    let namespace = match (kind.namespaced(), dependent.kind.namespaced()) {
        (true, false) => return Owner::Unknown,
        (true, true) => dependent.namespace.as_str(),
        (false, _) => "",
    };
    let (resource, key) = (kind.store.to_string(), key(namespace, reference.text("/name")));
    let found = registry.db.get(&resource, &key).filter(|found| found.uid() == reference.text("/uid"));
    let Some(found) = found else {
        // Over another cluster, one that was not deleted here may just not have been asked for.
        return if registry.db.is_left_alone(&resource, &key) { Owner::Unknown } else { Owner::Gone };
    };
    if found.revision() > told {
        return Owner::Unread;
    }
    let waiting = found.is_deleting() && has_finalizer(&found, FOREGROUND_FINALIZER);
    match waiting {
        true => Owner::Waits,
        false => Owner::Lives,
    }
}
