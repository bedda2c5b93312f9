//! Validates definitions. If all versions have the same error, it is reported once, with the path of the v1beta1 field
//! for all versions, such as `spec.validation`.

mod branches;
mod children;
mod default_values;
pub(super) mod rules;
mod selectable;
mod structure;
#[cfg(test)]
mod tests;
mod version;

use std::collections::BTreeMap;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::webhook_service::{
    client_errors, is_supported_review_version, review_version_errors, unsupported_review_versions,
};

use super::{approval, is_established};

/// The maximum number of short names and of categories. The limit on names bounds the memory, because the server
/// indexes each version by all its names. kube-apiserver has no such limit.
const MAX_NAMES: usize = 100;

/// Returns a definition's errors. `old` is the stored definition if the request is an update.
pub(super) fn definition(object: &Json, old: Option<&Json>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let (group, plural) = (object.text("/spec/group"), object.text("/spec/names/plural"));
    let expected_name = format!("{plural}.{group}");
    for field in ["generateName", "name"] {
        let name = object.text(&format!("/metadata/{field}"));
        if old.is_none() && !name.is_empty() && name != expected_name {
            let why = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid_text(format!("metadata.{field}"), name, why));
        }
    }
    errors.extend(group_errors(group));
    match object.text("/spec/scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        scope => errors.push(FieldError::unsupported("spec.scope", &scope.into(), &["Cluster", "Namespaced"])),
    }
    if object.is_true("/spec/preserveUnknownFields") {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &Json::Bool(true), why));
    }
    errors.extend(version::all(object));
    errors.extend(names_errors(object));
    errors.extend(conversion_errors(object, old));
    errors.extend(stored_errors(object));
    errors.extend(approval::error(object, old));
    if let Some(old) = old {
        let fixed: &[&str] = if is_established(old) {
            &["scope", "names.kind", "group", "names.plural"]
        } else {
            &["group", "names.plural"]
        };
        for key in fixed {
            let pointer = format!("/spec/{}", key.replace('.', "/"));
            let (new, old) = (object.text(&pointer), old.text(&pointer));
            errors.invalid_text_if(new != old, format!("spec.{key}"), new, "field is immutable");
        }
    }
    errors
}

fn group_errors(group: &str) -> FieldErrors {
    if group.is_empty() {
        return FieldErrors::from([FieldError::required("spec.group", "")]);
    }
    let mut why = name_errors(NameRule::Subdomain, group, false);
    if why.is_empty() && !group.contains('.') {
        why.push("should be a domain with at least one dot".into());
    }
    let all = (!why.is_empty()).then(|| FieldError::invalid_text("spec.group", group, why.join(",")));
    all.into_iter().collect()
}

fn names_errors(object: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let name = |key: &str| object.text(&format!("/spec/names/{key}")).to_owned();
    let label = |field: String, value: &str, prefix: &str| {
        let why = name_errors(NameRule::Rfc1035Label, &value.to_lowercase(), false);
        let why = if prefix.is_empty() { name_errors(NameRule::Rfc1035Label, value, false) } else { why };
        why.into_iter()
            .map(|why| FieldError::invalid_text(field.as_str(), value, format!("{prefix}{why}")))
            .collect::<Vec<_>>()
    };
    for key in ["plural", "singular"] {
        match name(key) {
            value if value.is_empty() => errors.push(FieldError::required(format!("spec.names.{key}"), "")),
            value => errors.extend(label(format!("spec.names.{key}"), &value, "")),
        }
    }
    for names in ["shortNames", "categories"] {
        let count = object.list(&format!("/spec/names/{names}")).count();
        if count > MAX_NAMES {
            errors.push(FieldError::too_many(format!("spec.names.{names}"), count, MAX_NAMES));
            return errors;
        }
    }
    for (at, short) in object.list("/spec/names/shortNames").enumerate() {
        errors.extend(label(format!("spec.names.shortNames[{at}]"), short.as_str().unwrap_or_default(), ""));
    }
    for key in ["kind", "listKind"] {
        match name(key) {
            value if value.is_empty() => errors.push(FieldError::required(format!("spec.names.{key}"), "")),
            value => errors.extend(label(
                format!("spec.names.{key}"),
                &value,
                "may have mixed case, but should otherwise match: ",
            )),
        }
    }
    if !name("kind").is_empty() && name("kind") == name("listKind") {
        errors.push(FieldError::invalid_text(
            "spec.names.listKind",
            &name("listKind"),
            "kind and listKind may not be the same",
        ));
    }
    for (at, category) in object.list("/spec/names/categories").enumerate() {
        errors.extend(label(format!("spec.names.categories[{at}]"), category.as_str().unwrap_or_default(), ""));
    }
    errors
}

fn conversion_errors(object: &Json, old: Option<&Json>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    match object.text("/spec/conversion/strategy") {
        "" if object.has("/spec/conversion") => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "" | "None" => {}
        "Webhook" => {
            const CLIENT: &str = "spec.conversion.webhookClientConfig";
            match object.at("/spec/conversion/webhook/clientConfig").filter(|client| !client.is_null()) {
                Some(client) => errors.extend(client_errors(client, CLIENT)),
                None => errors.push(FieldError::required(CLIENT, "required when strategy is set to Webhook")),
            }
            errors.extend(review_errors(object, old));
        }
        strategy => {
            errors.push(FieldError::unsupported("spec.conversion.strategy", &strategy.into(), &["None", "Webhook"]));
        }
    }
    if object.text("/spec/conversion/strategy") != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        for (member, reported) in
            [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")]
        {
            if object.at(&format!("/spec/conversion/webhook/{member}")).is_some_and(|value| !value.is_null()) {
                errors.push(FieldError::forbidden(format!("spec.conversion.{reported}"), why));
            }
        }
    }
    errors
}

const REVIEW_VERSIONS: &str = "/spec/conversion/webhook/conversionReviewVersions";

/// Validates the review versions of the conversion webhook. An update may leave a list of review versions unchanged
/// even if the list contains no supported version.
fn review_errors(object: &Json, old: Option<&Json>) -> FieldErrors {
    const FIELD: &str = "spec.conversion.conversionReviewVersions";
    let is_supported = |object: &Json| object.texts(REVIEW_VERSIONS).any(is_supported_review_version);
    if object.list(REVIEW_VERSIONS).next().is_none() {
        return FieldErrors::from([FieldError::required(FIELD, "")]);
    }
    let mut errors = review_version_errors(object.texts(REVIEW_VERSIONS), FIELD);
    let was_supported = old.is_none_or(|old| old.list(REVIEW_VERSIONS).next().is_none() || is_supported(old));
    if was_supported && !is_supported(object) {
        let versions = object.at(REVIEW_VERSIONS).unwrap_or(&Json::Null);
        errors.push(unsupported_review_versions(versions, FIELD.into()));
    }
    errors
}

/// Validates `status.storedVersions`, which must contain the storage version, and only versions from the spec.
fn stored_errors(object: &Json) -> FieldErrors {
    const FIELD: &str = "status.storedVersions";
    let all: Vec<&str> = object.texts("/status/storedVersions").collect();
    if all.is_empty() {
        return FieldErrors::from([FieldError::invalid(FIELD, &Json::Null, "must have at least one stored version")]);
    }
    let mut errors = FieldErrors::default();
    let mut left: BTreeMap<&str, usize> = all.iter().enumerate().map(|(at, version)| (*version, at)).collect();
    for version in object.list("/spec/versions") {
        let name = version.text("/name");
        if left.remove(name).is_none() && version.is_true("/storage") {
            let why = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(FIELD, &all.clone().into(), why));
        }
    }
    errors.extend(left.into_iter().map(|(version, at)| {
        let why = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
        );
        FieldError::invalid_text(format!("{FIELD}[{at}]"), version, why)
    }));
    errors
}

#[cfg(test)]
pub(super) fn schema_errors(schema: &Json, path: &str) -> FieldErrors {
    structure::all(schema, path, &mut super::pattern::Patterns::default(), &mut { super::validator::MAX_STEPS })
}
