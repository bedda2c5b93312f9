//! What makes the metadata of an object invalid.

use std::collections::BTreeSet;

use pintle_json::{Json, Map, Text};

use super::{Kind, PlainFinalizers};
use crate::failure::{Failure, Outcome};
use crate::object::metadata;
use crate::request::Part;
use crate::validate::{
    FieldFault, FieldFaults, NameRule, annotation_key_faults, label_key_faults, label_value_faults, name_faults,
    qualified_name_faults,
};

#[cfg(test)]
mod tests;

const ANNOTATIONS_AT_MOST: usize = 256 * 1024;
const MANAGER_AT_MOST: usize = 128;
const SUBRESOURCE_AT_MOST: usize = 256;
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// An object must call itself what it is; where its path says it, decoding has seen to it.
pub(crate) fn check_types(kind: &Kind, object: &Json) -> Outcome<()> {
    if !kind.needs_types() {
        return Ok(());
    }
    let says = |name: &str| object[name].text("");
    let wrong = |field: &str, wanted: &str| FieldFault::invalid_text(field, says(field), format!("must be {wanted}"));
    let api_version = kind.api_version();
    let mut faults = FieldFaults::default();
    if says("apiVersion") != api_version {
        faults.push(wrong("apiVersion", &api_version));
    }
    if says("kind") != kind.kind {
        faults.push(wrong("kind", &kind.kind));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid_named(&kind.group, says("kind"), metadata::name(object), faults)),
    }
}

/// The faults of a new object's metadata.
pub(crate) fn faults(kind: &Kind, object: &Json) -> FieldFaults {
    let empty = Map::new();
    let metadata = object["metadata"].as_object().unwrap_or(&empty);
    let mut faults = names(kind.strategy.name_rule(), metadata);
    if metadata["name"].text("").is_empty() {
        faults.push(FieldFault::required("metadata.name", "name or generateName is required"));
    }
    faults.extend(contents(kind, metadata));
    faults
}

/// The faults of the metadata of an object that stands in another, which need not have a name.
pub(crate) fn embedded_faults(metadata: &Map) -> FieldFaults {
    let mut faults = names(NameRule::PathSegment, metadata);
    let namespace = metadata["namespace"].text("");
    if !namespace.is_empty() {
        let found = name_faults(NameRule::Label, namespace, false);
        faults.extend(found.iter().map(|why| FieldFault::invalid_text("metadata.namespace", namespace, why)));
    }
    faults.extend(common(metadata));
    faults.extend(finalizers(PlainFinalizers::Taken, metadata));
    faults
}

/// The faults of a changed object's metadata, repeated as often as a real server repeats them: what holds for any object is held
/// against it by the generic code, and again by the rules of its kind.
pub(crate) fn faults_of_change(kind: &Kind, new: &Json, old: &Json, part: Part) -> FieldFaults {
    let members = |object: &Json| object["metadata"].as_object().cloned().unwrap_or_default();
    let (new, old) = (members(new), members(old));
    let changes: FieldFaults = [update(&new, &old), common(&new)].into_iter().flatten().collect();
    let plain = kind.strategy.plain_finalizers();
    let whole = || contents(kind, &new);
    let update = || -> FieldFaults { [changes.clone(), standard(plain, &new)].into_iter().flatten().collect() };
    let generic = [common(&new), qualified(&new), together(&new), changes.clone()];
    let checks = if part == Part::Object { kind.strategy.metadata_checks() } else { MetadataChecks::Update };
    let of_kind = match checks {
        MetadataChecks::Update => vec![update()],
        MetadataChecks::Whole => vec![whole()],
        MetadataChecks::UpdateThenWhole => vec![update(), whole()],
        MetadataChecks::WholeThenUpdate => vec![whole(), update()],
        MetadataChecks::WholeTwice => vec![whole(), whole()],
    };
    generic.into_iter().chain(of_kind).flatten().collect()
}

/// Which checks of the metadata the rules for updates of a kind repeat, after those that hold for any object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataChecks {
    /// Those for an update.
    Update,
    /// Those for a new object.
    Whole,
    /// Those for an update, then those for a new object.
    UpdateThenWhole,
    /// Those for a new object, then those for an update.
    WholeThenUpdate,
    /// Those for a new object, twice.
    WholeTwice,
}

/// What to warn of in valid metadata: finalizers that `old` does not have.
pub(crate) fn warnings(kind: &Kind, object: &Json, old: Option<&Json>) -> Vec<String> {
    let Some(finalizers) = object["metadata"]["finalizers"].as_array() else { return Vec::new() };
    let known = old.map(metadata::finalizers).unwrap_or_default();
    let is_warned_of = |name: &&str| is_plain(name) && kind.strategy.plain_finalizers() == PlainFinalizers::WarnedOf;
    let names = finalizers.iter().filter_map(Json::as_str).filter(|name| !known.contains(name)).filter(is_warned_of);
    names
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

fn names(rule: NameRule, metadata: &Map) -> FieldFaults {
    let mut faults = FieldFaults::default();
    let text = |key: &str| metadata[key].text("");
    let (name, generate_name) = (text("name"), text("generateName"));
    if !generate_name.is_empty() {
        let found = name_faults(rule, generate_name, true);
        faults.extend(found.iter().map(|why| FieldFault::invalid_text("metadata.generateName", generate_name, why)));
    }
    if !name.is_empty() {
        let found = name_faults(rule, name, false);
        faults.extend(found.iter().map(|why| FieldFault::invalid_text("metadata.name", name, why)));
    }
    if let Some(generation) = metadata.get("generation").filter(|value| value.as_i64().is_some_and(|value| value < 0)) {
        faults.push(FieldFault::invalid("metadata.generation", generation, "must be greater than or equal to 0"));
    }
    faults
}

fn contents(kind: &Kind, metadata: &Map) -> FieldFaults {
    let mut faults = common(metadata);
    faults.extend(finalizers(kind.strategy.plain_finalizers(), metadata));
    faults
}

/// Labels, annotations, owners and managers.
fn common(metadata: &Map) -> FieldFaults {
    let mut faults = FieldFaults::default();
    for (key, value) in entries(metadata, "labels") {
        if faults.is_full() {
            return faults;
        }
        faults.extend(label_key_faults(key).iter().map(|why| FieldFault::invalid_text("metadata.labels", key, why)));
        let value = value.as_str().unwrap_or_default();
        faults.extend(
            label_value_faults(value).iter().map(|why| FieldFault::invalid_text("metadata.labels", value, why)),
        );
    }
    let mut size = 0;
    for (key, value) in entries(metadata, "annotations") {
        if faults.is_full() {
            return faults;
        }
        faults.extend(
            annotation_key_faults(key).iter().map(|why| FieldFault::invalid_text("metadata.annotations", key, why)),
        );
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_AT_MOST {
        faults.push(FieldFault::too_long("metadata.annotations", ANNOTATIONS_AT_MOST));
    }
    faults.extend(owners(metadata));
    let managers = metadata["managedFields"].as_array();
    for (at, entry) in managers.into_iter().flatten().enumerate() {
        for (key, most) in [("manager", MANAGER_AT_MOST), ("subresource", SUBRESOURCE_AT_MOST)] {
            if entry[key].as_str().is_some_and(|text| text.len() > most) {
                faults.push(FieldFault::too_long(format!("metadata.managedFields[{at}].{key}"), most));
            }
        }
    }
    faults
}

fn entries<'a>(metadata: &'a Map, key: &str) -> impl Iterator<Item = (&'a Text, &'a Json)> {
    metadata[key].members("")
}

fn owners(metadata: &Map) -> FieldFaults {
    let Some(owners) = metadata["ownerReferences"].as_array() else { return FieldFaults::default() };
    let mut faults = FieldFaults::default();
    let mut controllers = 0;
    for owner in owners {
        if faults.is_full() {
            break;
        }
        let text = |key: &str| owner[key].text("");
        let path = |key: &str| format!("metadata.ownerReferences.{key}");
        let api_version = text("apiVersion");
        if api_version.parse::<pintle_meta::GroupVersion>().is_err() {
            faults.push(FieldFault::invalid_text(path("apiVersion"), api_version, "version must not be empty"));
        }
        for key in ["kind", "name", "uid"].into_iter().filter(|key| text(key).is_empty()) {
            faults.push(FieldFault::invalid_text(path(key), "", "must not be empty"));
        }
        if api_version == "v1" && text("kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            faults.push(FieldFault::invalid("metadata.ownerReferences", owner, why));
        }
        controllers += usize::from(owner.is_true("/controller"));
    }
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true. Found \"true\" in references";
        faults.push(FieldFault::invalid("metadata.ownerReferences", &Json::from(owners.clone()), why));
    }
    faults
}

fn is_plain(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer)
}

fn finalizers(plain: PlainFinalizers, metadata: &Map) -> FieldFaults {
    [qualified(metadata), together(metadata), standard(plain, metadata)].into_iter().flatten().collect()
}

fn finalizer_names(metadata: &Map) -> impl Iterator<Item = &str> {
    metadata["finalizers"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// Finalizers that are no qualified names.
fn qualified(metadata: &Map) -> FieldFaults {
    let faults = finalizer_names(metadata).flat_map(|name| {
        let why = qualified_name_faults(name);
        why.into_iter().map(move |why| FieldFault::invalid_text("metadata.finalizers", name, why))
    });
    faults.collect()
}

/// Finalizers without a domain that are not of Kubernetes itself.
fn standard(plain: PlainFinalizers, metadata: &Map) -> FieldFaults {
    if plain != PlainFinalizers::Refused {
        return FieldFaults::default();
    }
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let names = finalizer_names(metadata).enumerate().filter(|(_, name)| is_plain(name));
    names.map(|(at, name)| FieldFault::invalid_text(format!("metadata.finalizers[{at}]"), name, why)).collect()
}

/// Finalizers that exclude each other.
fn together(metadata: &Map) -> FieldFaults {
    let has = |finalizer: &str| finalizer_names(metadata).any(|name| name == finalizer);
    if !has("orphan") || !has("foregroundDeletion") {
        return FieldFaults::default();
    }
    let why = "finalizer orphan and foregroundDeletion cannot be both set";
    FieldFaults::from([FieldFault::invalid("metadata.finalizers", &metadata["finalizers"], why)])
}

fn update(new: &Map, old: &Map) -> FieldFaults {
    let mut faults = FieldFaults::default();
    fn names(metadata: &Map) -> BTreeSet<&str> {
        let list = metadata["finalizers"].as_array();
        list.into_iter().flatten().filter_map(Json::as_str).collect()
    }
    if old.contains_key("deletionTimestamp") {
        let added = &names(new) - &names(old);
        if !added.is_empty() {
            let added: Vec<_> = added.iter().map(|name| format!("{name:?}")).collect();
            let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
            faults
                .push(FieldFault::forbidden("metadata.finalizers", format!("{why} []string{{{}}}", added.join(", "))));
        }
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new.get(key) != old.get(key) {
            let value = new.get(key).cloned().unwrap_or_default();
            faults.push(FieldFault::invalid(format!("metadata.{key}"), &value, "field is immutable"));
        }
    }
    faults
}
