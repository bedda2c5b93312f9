//! Validates a definition's versions: names, subresources, columns and selectable fields.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, is_printable, name_errors};
use pintle_json::Json;

use super::{selectable, structure};
use crate::pattern::Patterns;
use crate::validator::MAX_STEPS;

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
/// These limits, which kube-apiserver does not have, bound the memory of kinds and tables. Each version becomes a kind
/// with a copy of all names. A table has a cell for each column of each object.
const MAX_VERSIONS: usize = 100;
const MAX_COLUMNS: usize = 100;
const MAX_WARNING: usize = 256;

pub(super) fn all(object: &Json) -> FieldErrors {
    let versions: Vec<&Json> = object.list("/spec/versions").collect();
    if versions.len() > MAX_VERSIONS {
        return FieldErrors::from([FieldError::too_many("spec.versions", versions.len(), MAX_VERSIONS)]);
    }
    let mut errors = FieldErrors::default();
    for (at, version) in versions.iter().enumerate() {
        let name = version.text("/name");
        let path = format!("spec.versions[{at}]");
        errors.extend(name_error(&format!("{path}.name"), name));
        errors.extend(deprecation(version, &path));
    }
    let names: Vec<_> = versions.iter().map(|version| version.text("/name")).collect();
    let all = object["spec"]["versions"].clone();
    if duplicates(names.iter()).contains(&true) {
        errors.push(FieldError::invalid("spec.versions", &all, "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.is_true("/storage")).count() != 1 {
        errors.push(FieldError::invalid(
            "spec.versions",
            &all,
            "must have exactly one version marked as storage version",
        ));
    }
    errors.extend(names.first().filter(|first| !first.is_empty()).and_then(|first| name_error("spec.version", first)));
    errors.extend(parts(&versions));
    errors
}

fn name_error(field: &str, name: &str) -> Option<FieldError> {
    let why = name_errors(NameRule::Rfc1035Label, name, false);
    (!why.is_empty()).then(|| FieldError::invalid_text(field, name, why.join(",")))
}

/// Validates the schemas, subresources, columns and selectable fields. If all versions have
/// the same value, the value is validated only once.
fn parts(versions: &[&Json]) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let is_same_in_all_versions =
        |pointer: &str| versions.windows(2).all(|pair| pair[0].at(pointer) == pair[1].at(pointer));
    let each = |pointer: &'static str, hoisted: &str, own: &str| {
        let hoist = is_same_in_all_versions(pointer);
        let count = if hoist { versions.len().min(1) } else { versions.len() };
        let place = |at: usize| if hoist { hoisted.to_owned() } else { format!("spec.versions[{at}].{own}") };
        let found: Vec<_> =
            versions.iter().take(count).enumerate().map(|(at, version)| (*version, place(at))).collect();
        found
    };
    const SCHEMA: &str = "/schema/openAPIV3Schema";
    const HOISTED: &str = "spec.validation.openAPIV3Schema";
    for (at, version) in versions.iter().enumerate() {
        errors.required_if(!version.has(SCHEMA), format!("spec.versions[{at}].schema.openAPIV3Schema"), "");
    }
    let (mut patterns, mut steps) = (Patterns::default(), MAX_STEPS);
    for (version, path) in each(SCHEMA, HOISTED, "schema.openAPIV3Schema") {
        if let Some(schema) = version.at(SCHEMA).filter(|schema| !schema.is_null()) {
            let is_hoisted = path == HOISTED;
            let has_status = |version: &Json| version.has("/subresources/status");
            let has_status =
                if is_hoisted { versions.iter().any(|version| has_status(version)) } else { has_status(version) };
            if has_status {
                errors.extend(root_error(schema, &path));
            }
            errors.extend(structure::all(schema, &path, &mut patterns, &mut steps));
        }
    }
    for (version, path) in each("/subresources", "spec.subresources", "subresources") {
        errors.extend(scale(version, &path));
    }
    if versions.len() > 1 && is_same_in_all_versions(SCHEMA) && !is_same_in_all_versions("/selectableFields") {
        let with = versions.iter().enumerate().filter(|(_, version)| version.has("/selectableFields"));
        let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.extend(
            with.map(|(at, _)| FieldError::invalid_text(format!("spec.versions[{at}].selectableFields"), "", why)),
        );
    } else {
        for (version, path) in each("/selectableFields", "spec.selectableFields", "selectableFields") {
            errors.extend(selectable::all(version, &path));
        }
    }
    for (version, path) in
        each("/additionalPrinterColumns", "spec.additionalPrinterColumns", "additionalPrinterColumns")
    {
        let count = version.list("/additionalPrinterColumns").count();
        if count > MAX_COLUMNS {
            errors.push(FieldError::too_many(path.as_str(), count, MAX_COLUMNS));
        }
        for (at, column) in version.list("/additionalPrinterColumns").enumerate().take(MAX_COLUMNS) {
            errors.extend(one_column(column, &format!("{path}[{at}]")));
        }
    }
    errors
}

/// Reports a keyword that the root of a schema must not have if there is a subresource `status`. kube-apiserver
/// validates a status with only a part of the schema, so these keywords would have no effect.
fn root_error(schema: &Json, path: &str) -> Option<FieldError> {
    const ALLOWED: &[&str] = &[
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    const NAMES: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern \
                         MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                         XPreserveUnknownFields XValidations";
    // In Go, these keywords are pointers, so an empty string is not their zero value.
    const POINTERS: &[&str] = &["$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"];
    let is_set = |keyword: &str| match schema.get(keyword) {
        None | Some(Json::Null) => false,
        Some(value) => *value != false && (value.as_str() != Some("") || POINTERS.contains(&keyword)),
    };
    let kind = schema.text("/type");
    if !["id", "$schema", "$ref"].into_iter().any(is_set) && !matches!(kind, "" | "object") {
        let why =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid_text(format!("{path}.type"), kind, why));
    }
    let refused = schema.members("").any(|(keyword, _)| !ALLOWED.contains(&keyword.as_str()) && is_set(keyword));
    refused.then(|| {
        let why =
            format!("only [{NAMES}] fields are allowed at the root of the schema if the status subresource is enabled");
        FieldError::invalid(path, schema, why)
    })
}

fn deprecation(version: &Json, path: &str) -> Option<FieldError> {
    let text = version.get("deprecationWarning")?.as_str()?;
    let why = match () {
        () if !version.is_true("/deprecated") => "can only be set for deprecated versions".into(),
        () if text.is_empty() => "must not be an empty string".into(),
        () if text.len() > MAX_WARNING => format!("must be <= {MAX_WARNING} characters long"),
        () => {
            let (at, _) = text.char_indices().find(|(_, c)| !is_printable(*c))?;
            format!("must only contain printable UTF-8 characters; non-printable character found at index {at}")
        }
    };
    Some(FieldError::invalid_text(format!("{path}.deprecationWarning"), text, why))
}

fn scale(version: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if !version.has("/subresources/scale") {
        return errors;
    }
    let parts: [(&str, bool, &[&str], &str); 3] = [
        ("specReplicasPath", true, &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", true, &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", false, &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (key, required, places, why) in parts {
        let field = format!("{path}.scale.{key}");
        match version.text(&format!("/subresources/scale/{key}")) {
            "" if required => errors.push(FieldError::required(field, "")),
            "" => {}
            text if !text.starts_with('.') => {
                errors.push(FieldError::invalid_text(field, text, "must be a simple json path starting with ."));
            }
            text if !places.iter().any(|place| text.starts_with(place)) => {
                errors.push(FieldError::invalid_text(field, text, why))
            }
            _ => {}
        }
    }
    errors
}

fn one_column(column: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let one_of = |known: &[&str]| format!("must be one of {}", known.join(","));
    errors.required_if(column.text("/name").is_empty(), format!("{path}.name"), "");
    match column.text("/type") {
        "" => errors.push(FieldError::required(format!("{path}.type"), &one_of(COLUMN_TYPES))),
        text if !COLUMN_TYPES.contains(&text) => {
            errors.push(FieldError::invalid_text(format!("{path}.type"), text, one_of(COLUMN_TYPES)));
        }
        _ => {}
    }
    let format = column.text("/format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(FieldError::invalid_text(format!("{path}.format"), format, one_of(COLUMN_FORMATS)));
    }
    match column.text("/jsonPath") {
        "" => errors.push(FieldError::required(format!("{path}.JSONPath"), "")),
        text if !text.starts_with('.') => {
            errors.push(FieldError::invalid_text(
                format!("{path}.JSONPath"),
                text,
                "must be a simple json path starting with .",
            ));
        }
        _ => {}
    }
    errors
}
