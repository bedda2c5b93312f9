//! Tracks the owners of fields after writes other than server-side apply.

use std::sync::LazyLock;

use pintle_json::Json;
use pintle_schema::{ListType, Topology, Type};

use super::WriteContext;
use super::compare::{associative_list, member};
use super::field_set::schema_errors_except_duplicates;
use super::key_defaults;
use super::managers::{Managed, ManagerId, Managers};
use super::path_element::PathElement;
use super::set::Set;
use super::versions::{Differences, cover_atomic_values};

/// Records the owners of the fields of `new` after a write other than an apply.
///
/// `old` is the object before the write, or `None` if the write creates the object. Both objects must be decoded and
/// defaulted, in the API version of the request. The objects must not contain changes by admission or by the kind's
/// strategy, because such changes have no owner. The writing manager becomes the only owner of all new and changed
/// fields, and removed fields lose their owners. An existing object without `managedFields` entries gets no entries.
///
/// If the client sent an empty list or a single empty entry as `managedFields` in `new`, all stored entries are
/// cleared. Any other well-formed list replaces the stored entries. Writes to a subresource ignore `managedFields` from
/// the client.
///
/// As in kube-apiserver, all `managedFields` entries are cleared if a list contains an item that cannot be identified,
/// such as an item without its key, or if a custom resource does not match its schema. Validation can still accept such
/// a write, because the server restores the status first. All entries are also cleared if the conversion of an object to
/// a manager's version fails, or if the default values of list keys would use too much memory. The server cannot store an
/// object with such large default values.
pub fn track_update(old: Option<&Json>, new: &mut Json, ctx: &WriteContext<'_>) {
    let created = old.is_none();
    let sent =
        new.as_object_mut().and_then(|object| object.get_mut("metadata")?.as_object_mut()?.remove("managedFields"));
    let live = || old.and_then(Managers::read).unwrap_or_default();
    let mut managers = match &sent {
        Some(sent) if ctx.subresource.is_empty() && clears(sent) => Managers::default(),
        Some(sent) if ctx.subresource.is_empty() => {
            let sent = Managers::of_entries(sent);
            sent.filter(|managers| !managers.0.is_empty()).unwrap_or_else(live)
        }
        _ => live(),
    };
    if !managers.0.is_empty() || created {
        let empty;
        let old = match old {
            Some(old) => old,
            None => {
                empty = ctx.schema.empty();
                &empty
            }
        };
        let root = ctx.schema.root();
        let is_trackable = |object| {
            key_defaults::is_within_limit(root, object)
                && is_identifiable(root, object)
                && (!ctx.schema.is_custom() || schema_errors_except_duplicates(root, object).is_empty())
        };
        if !(is_trackable(old) && is_trackable(new) && record(&mut managers, old, new, ctx).is_ok()) {
            managers = Managers::default();
        }
        managers.fold();
    }
    managers.write(new);
}

/// Makes the writing manager the only owner of all added and modified paths. Removes all owners of removed paths.
///
/// # Errors
///
/// Returns the reason if the conversion of an object to a manager's version fails.
pub(super) fn record(managers: &mut Managers, old: &Json, new: &Json, ctx: &WriteContext<'_>) -> Result<(), String> {
    managers.0.retain(|_, managed| ctx.serves(&managed.api_version));
    cover_atomic_values(managers, old, ctx)?;
    let found = Differences::between(old, new, managers, ctx)?;
    found.remove_from_others(managers, None);
    let mut changed = found.own.into_changed();
    changed.subtract(&NEVER_TRACKED);
    let id = ManagerId {
        manager: ctx.manager.into(),
        applied: false,
        api_version: ctx.api_version.into(),
        subresource: ctx.subresource.into(),
    };
    if changed.is_empty() {
        return Ok(());
    }
    let managed = managers.0.entry(id).or_insert_with(|| Managed::new(ctx.api_version));
    managed.set.extend(changed);
    managed.api_version = ctx.api_version.into();
    managed.time = (ctx.subresource != "scale").then(|| ctx.now.to_owned());
    Ok(())
}

pub(super) static NEVER_TRACKED: LazyLock<Set> = LazyLock::new(|| {
    let field = |name: &str| PathElement::Field(name.into());
    let mut never = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        never.insert(&[field(name)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        never.insert(&[field("metadata"), field(name)]);
    }
    never
});

/// Returns `true` if each item of all associative lists has a path.
fn is_identifiable(ty: &Type, value: &Json) -> bool {
    match value {
        Json::Object(members) => members.iter().all(|(name, value)| is_identifiable(member(ty, name), value)),
        Json::Array(items) => {
            let Some(list) = associative_list(ty) else { return true };
            items.iter().all(|item| has_path(list, item) && is_identifiable(&list.item, item))
        }
        _ => true,
    }
}

fn has_path(list: &ListType, item: &Json) -> bool {
    match &list.topology {
        Topology::Keyed(keys) => {
            item.is_object() && keys.iter().any(|key| key.default.is_some() || item.get(&key.name).is_some())
        }
        _ => !(item.is_null() || item.is_object() || item.is_array()),
    }
}

fn clears(sent: &Json) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(|entry| entry.is_empty()),
        _ => false,
    }
}
