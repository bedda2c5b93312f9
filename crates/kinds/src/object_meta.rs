//! Validation of object metadata.

use std::collections::BTreeSet;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{
    FieldError, FieldErrors, NameRule, annotation_key_errors, label_key_faults, label_value_faults, name_errors,
    qualified_name_faults,
};
use pintle_json::{Json, Map, Text};
use pintle_schema::Schema;

use super::Kind;
use crate::strategy_types::PlainFinalizers;

const MAX_ANNOTATIONS: usize = 256 * 1024;
const MAX_MANAGER: usize = 128;
const MAX_SUBRESOURCE: usize = 256;
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// Returns an error if the `apiVersion` or `kind` of the object differs from `kind`. Does not check kinds whose bodies
/// may omit the `apiVersion` and `kind`.
pub fn check_types(kind: &Kind, object: &Json) -> Outcome<()> {
    if !kind.needs_types() {
        return Ok(());
    }
    let member_text = |name: &str| object[name].text("");
    let wrong =
        |field: &str, wanted: &str| FieldError::invalid_text(field, member_text(field), format!("must be {wanted}"));
    let api_version = kind.api_version();
    let mut errors = FieldErrors::default();
    if member_text("apiVersion") != api_version {
        errors.push(wrong("apiVersion", &api_version));
    }
    if member_text("kind") != kind.kind {
        errors.push(wrong("kind", &kind.kind));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid_named(&kind.group, member_text("kind"), metadata::name(object), errors))
    }
}

/// Validates a new object's metadata.
pub fn errors(kind: &Kind, object: &Json) -> FieldErrors {
    let empty = Map::new();
    let metadata = object["metadata"].as_object().unwrap_or(&empty);
    let mut errors = prefix_of(kind, metadata).and(names(kind.flags.name_rule, metadata));
    errors.required_if(metadata["name"].text("").is_empty(), "metadata.name", "name or generateName is required");
    errors.extend(contents(kind, metadata));
    errors
}

/// Validates the metadata of an embedded object, which needs no name.
pub fn embedded_errors(metadata: &Map) -> FieldErrors {
    let mut errors = prefix(NameRule::PathSegment, metadata).and(names(NameRule::PathSegment, metadata));
    let namespace = metadata["namespace"].text("");
    if !namespace.is_empty() {
        let found = name_errors(NameRule::Label, namespace, false);
        errors.extend(found.iter().map(|why| FieldError::invalid_text("metadata.namespace", namespace, why)));
    }
    errors.extend(common(metadata));
    errors.extend(finalizers(PlainFinalizers::Accepted, metadata));
    errors
}

/// Validates the metadata of an updated object. The returned list can contain the same error several times, because
/// kube-apiserver checks the metadata in generic code, and repeats the checks for some kinds.
pub fn update_errors(kind: &Kind, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
    let members = |object: &Json| object["metadata"].as_object().cloned().unwrap_or_default();
    let (new, old) = (members(new), members(old));
    let changes: FieldErrors = [update(&new, &old), common(&new)].into_iter().flatten().collect();
    let plain = kind.plain_finalizers();
    let whole = || prefix_of(kind, &new).and(contents(kind, &new));
    let update = || -> FieldErrors { [changes.clone(), standard(plain, &new)].into_iter().flatten().collect() };
    let generic =
        [prefix(NameRule::PathSegment, &new), common(&new), qualified(&new), exclusive(&new), changes.clone()];
    let checks = if subresource == Subresource::None { kind.flags.metadata_checks } else { MetadataChecks::Update };
    let of_kind = match checks {
        MetadataChecks::Nothing => Vec::new(),
        MetadataChecks::Update => vec![update()],
        MetadataChecks::Whole => vec![whole()],
        MetadataChecks::UpdateThenWhole => vec![update(), whole()],
        MetadataChecks::WholeThenUpdate => vec![whole(), update()],
        MetadataChecks::WholeTwice => vec![whole(), whole()],
    };
    generic.into_iter().chain(of_kind).flatten().collect()
}

/// The metadata checks that the update validation of a kind runs a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataChecks {
    /// The update validation repeats no metadata checks.
    Nothing,
    /// The update validation repeats only the metadata checks for updates.
    #[default]
    Update,
    /// The update validation repeats only the metadata checks for new objects.
    Whole,
    /// The update validation repeats the metadata checks for updates, and then the metadata checks for new objects.
    UpdateThenWhole,
    /// The update validation repeats the metadata checks for new objects, and then the metadata checks for updates.
    WholeThenUpdate,
    /// The update validation runs the metadata checks for new objects twice.
    WholeTwice,
}

/// Returns warnings about added finalizers without a domain.
pub fn warnings(kind: &Kind, object: &Json, old: Option<&Json>) -> Vec<String> {
    let Some(finalizers) = object["metadata"]["finalizers"].as_array() else { return Vec::new() };
    let known = old.map(metadata::finalizers).unwrap_or_default();
    let causes_warning = |name: &&str| is_plain(name) && kind.plain_finalizers() == PlainFinalizers::Warned;
    let names = finalizers.iter().filter_map(Json::as_str).filter(|name| !known.contains(name)).filter(causes_warning);
    names
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

/// Validates `generateName` with the kind's rule for names.
fn prefix_of(kind: &Kind, metadata: &Map) -> FieldErrors {
    if kind.flags.accepts_any_name_prefix { FieldErrors::default() } else { prefix(kind.flags.name_rule, metadata) }
}

fn prefix(rule: NameRule, metadata: &Map) -> FieldErrors {
    let generate_name = metadata["generateName"].text("");
    if generate_name.is_empty() {
        return FieldErrors::default();
    }
    let found = name_errors(rule, generate_name, true);
    found.iter().map(|why| FieldError::invalid_text("metadata.generateName", generate_name, why)).collect()
}

fn names(rule: NameRule, metadata: &Map) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let name = metadata["name"].text("");
    if !name.is_empty() {
        let found = name_errors(rule, name, false);
        errors.extend(found.iter().map(|why| FieldError::invalid_text("metadata.name", name, why)));
    }
    if let Some(generation) = metadata.get("generation").filter(|value| value.as_i64().is_some_and(|value| value < 0)) {
        errors.push(FieldError::invalid("metadata.generation", generation, "must be greater than or equal to 0"));
    }
    errors
}

fn contents(kind: &Kind, metadata: &Map) -> FieldErrors {
    common(metadata).and(finalizers(kind.plain_finalizers(), metadata))
}

fn common(metadata: &Map) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (key, value) in entries(metadata, "labels") {
        if errors.is_full() {
            return errors;
        }
        errors.extend(label_key_faults(key).iter().map(|why| FieldError::invalid_text("metadata.labels", key, why)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            label_value_faults(value).iter().map(|why| FieldError::invalid_text("metadata.labels", value, why)),
        );
    }
    let mut size = 0;
    for (key, value) in entries(metadata, "annotations") {
        if errors.is_full() {
            return errors;
        }
        errors.extend(
            annotation_key_errors(key).iter().map(|why| FieldError::invalid_text("metadata.annotations", key, why)),
        );
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
    errors.extend(owners(metadata));
    let managers = metadata["managedFields"].as_array();
    for (at, entry) in managers.into_iter().flatten().enumerate() {
        for (key, most) in [("manager", MAX_MANAGER), ("subresource", MAX_SUBRESOURCE)] {
            if entry[key].as_str().is_some_and(|text| text.len() > most) {
                errors.push(FieldError::too_long(format!("metadata.managedFields[{at}].{key}"), most));
            }
        }
    }
    errors
}

fn entries<'a>(metadata: &'a Map, key: &str) -> impl Iterator<Item = (&'a Text, &'a Json)> {
    metadata[key].members("")
}

fn owners(metadata: &Map) -> FieldErrors {
    let Some(owners) = metadata["ownerReferences"].as_array() else { return FieldErrors::default() };
    let mut errors = FieldErrors::default();
    let mut controller: Option<String> = None;
    for owner in owners {
        if errors.is_full() {
            break;
        }
        let text = |key: &str| owner[key].text("");
        let path = |key: &str| format!("metadata.ownerReferences.{key}");
        let api_version = text("apiVersion");
        if api_version.parse::<pintle_meta::GroupVersion>().is_err() {
            errors.push(FieldError::invalid_text(path("apiVersion"), api_version, "version must not be empty"));
        }
        for key in ["kind", "name", "uid"].into_iter().filter(|key| text(key).is_empty()) {
            errors.push(FieldError::invalid_text(path(key), "", "must not be empty"));
        }
        if api_version == "v1" && text("kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_go("metadata.ownerReferences", &go_text(owner), why));
        }
        if owner.is_true("/controller") {
            let named = format!("{}/{}", text("kind"), text("name"));
            let Some(first) = &controller else {
                controller = Some(named);
                continue;
            };
            let value = format!("[{}]", owners.iter().map(go_text).collect::<Vec<_>>().join(","));
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {named}"
            );
            errors.push(FieldError::invalid_go("metadata.ownerReferences", &value, why));
        }
    }
    errors
}

fn go_text(owner: &Json) -> String {
    Schema::go_text("meta.OwnerReference", owner)
}

fn is_plain(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer)
}

fn finalizers(plain: PlainFinalizers, metadata: &Map) -> FieldErrors {
    [qualified(metadata), exclusive(metadata), standard(plain, metadata)].into_iter().flatten().collect()
}

fn finalizer_names(metadata: &Map) -> impl Iterator<Item = &str> {
    metadata["finalizers"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

fn qualified(metadata: &Map) -> FieldErrors {
    let errors = finalizer_names(metadata).flat_map(|name| {
        let why = qualified_name_faults(name);
        why.into_iter().map(move |why| FieldError::invalid_text("metadata.finalizers", name, why))
    });
    errors.collect()
}

fn standard(plain: PlainFinalizers, metadata: &Map) -> FieldErrors {
    if plain != PlainFinalizers::Rejected {
        return FieldErrors::default();
    }
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let names = finalizer_names(metadata).enumerate().filter(|(_, name)| is_plain(name));
    names.map(|(at, name)| FieldError::invalid_text(format!("metadata.finalizers[{at}]"), name, why)).collect()
}

fn exclusive(metadata: &Map) -> FieldErrors {
    let has_finalizer = |finalizer: &str| finalizer_names(metadata).any(|name| name == finalizer);
    if !has_finalizer("orphan") || !has_finalizer("foregroundDeletion") {
        return FieldErrors::default();
    }
    let why = "finalizer orphan and foregroundDeletion cannot be both set";
    FieldErrors::from([FieldError::invalid("metadata.finalizers", &metadata["finalizers"], why)])
}

fn update(new: &Map, old: &Map) -> FieldErrors {
    let mut errors = FieldErrors::default();
    fn names(metadata: &Map) -> BTreeSet<&str> {
        let list = metadata["finalizers"].as_array();
        list.into_iter().flatten().filter_map(Json::as_str).collect()
    }
    if old.contains_key("deletionTimestamp") {
        let added = &names(new) - &names(old);
        if !added.is_empty() {
            let added: Vec<_> = added.iter().map(|name| format!("{name:?}")).collect();
            let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
            errors
                .push(FieldError::forbidden("metadata.finalizers", format!("{why} []string{{{}}}", added.join(", "))));
        }
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new.get(key) != old.get(key) {
            let value = new.get(key).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("metadata.{key}"), &value, "field is immutable"));
        }
    }
    errors
}
