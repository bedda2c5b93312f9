//! Validates a definition's schema, for example that the schema is structural.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};

use super::children::fields;
use super::{branches, default_values, rules};
use crate::field_path::FieldPath;
use crate::pattern::Patterns;
use crate::structural::Structural;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const UNSUPPORTED: &[&str] = &["id", "patternProperties", "additionalItems", "definitions", "dependencies", "$ref"];
/// The maximum number of list map keys, and the maximum length of a key's default in bytes. These limits on keys, which
/// kube-apiserver does not have, bound the cost of comparing list items.
const MAX_KEYS: usize = 100;
const MAX_KEY_DEFAULT: usize = 1024;

/// Returns the errors of a version's schema. Validating the defaults of a whole definition takes at most `steps`
/// validation steps.
pub(super) fn all(schema: &Json, path: &str, patterns: &mut Patterns, steps: &mut usize) -> FieldErrors {
    let path = FieldPath::Start(path);
    let mut errors = FieldErrors::default();
    errors.forbidden_if(schema.is_true("/nullable"), path.member("nullable"), "nullable cannot be true at the root");
    let mut structural = FieldErrors::default();
    is_structural(schema, path, Position::Root, &mut structural);
    root(schema, path, &mut structural);
    branches::undeclared(schema, path, &mut structural);
    let mut structural: Vec<_> = structural.into_iter().collect();
    structural.sort_by_cached_key(ToString::to_string);
    let is_convertible = is_convertible(schema, patterns);
    let mut has_valid_structure = structural.is_empty() && is_convertible;
    if has_valid_structure {
        let structural = Structural::read(schema, patterns);
        let mut of_defaults = FieldErrors::default();
        default_values::all(schema, &structural, path, steps, &mut of_defaults);
        has_valid_structure = of_defaults.is_empty();
        errors.extend(of_defaults);
    }
    // If the conversion fails, kube-apiserver does not validate the structure.
    if is_convertible {
        errors.extend(structural);
    }
    plain(schema, path, patterns, &mut errors);
    if has_valid_structure {
        rules::expressions(schema, path, &mut errors);
    }
    errors
}

/// Returns `true` if kube-apiserver can convert the schema to a structural schema. If the conversion fails,
/// kube-apiserver does not validate the defaults and CEL rules.
fn is_convertible(schema: &Json, patterns: &mut Patterns) -> bool {
    let has_items = match schema.get("items") {
        Some(Json::Array(_)) => false,
        None | Some(Json::Null) => schema.text("/type") != "array",
        _ => true,
    };
    let mut is_valid = has_items
        && schema["$schema"].is_null()
        && UNSUPPORTED.iter().all(|key| schema[*key].is_null())
        && schema["x-kubernetes-preserve-unknown-fields"] != false
        && schema["pattern"].as_str().is_none_or(|pattern| patterns.check(pattern).is_ok());
    let start = FieldPath::Start("");
    fields(schema, start, |schema, _| is_valid = is_valid && is_convertible(schema, patterns));
    branches::each(schema, start, |schema, _| is_valid = is_valid && is_convertible(schema, patterns));
    is_valid
}

/// The position of a schema in the root schema, which determines the error message for a missing type.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    Root,
    Field,
    Item,
}

fn plain(schema: &Json, path: FieldPath<'_>, patterns: &mut Patterns, errors: &mut FieldErrors) {
    let is_set = |key: &str| schema[key] == true;
    let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    errors.forbidden_if(is_set("uniqueItems"), path.member("uniqueItems"), why);
    let properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
    let closed = schema.get("additionalProperties").is_some_and(|more| !more.is_null() && *more != true);
    let why = "additionalProperties and properties are mutual exclusive";
    errors.forbidden_if(properties && closed, path.member("additionalProperties"), why);
    let type_name = schema.text("/type");
    if !type_name.is_empty() && !TYPES.contains(&type_name) {
        errors.add(|| FieldError::unsupported(path.member("type"), &type_name.into(), TYPES));
    }
    let why = "type cannot be set to null, use nullable as an alternative";
    errors.forbidden_if(type_name == "null", path.member("type"), why);
    if !schema["$schema"].is_null() {
        // As in kube-apiserver, the error for a nested `$schema` contains the path of the root schema.
        errors.add(|| FieldError::invalid_text(path.start(), "", "OpenAPIV3Schema 'schema' is not supported"));
    }
    for key in UNSUPPORTED.iter().filter(|key| !schema[**key].is_null()) {
        errors.add(|| FieldError::forbidden(path.member(key), format!("{key} is not supported")));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(why) = patterns.check(pattern)
    {
        errors.add(|| FieldError::invalid_text(path.member("pattern"), pattern, why));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = path.member("x-kubernetes-preserve-unknown-fields");
        errors.add(|| FieldError::invalid(field, &Json::Bool(false), "must be true or undefined"));
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    match schema.get("items") {
        Some(Json::Array(_)) => {
            let why = "items must be a schema object and not an array";
            errors.add(|| FieldError::forbidden(path.member("items"), why));
        }
        None | Some(Json::Null) if type_name == "array" => {
            errors.add(|| FieldError::required(path.member("items"), "must be specified"));
        }
        _ => {}
    }
    fields(schema, path, |schema, path| plain(schema, path, patterns, errors));
    branches::each(schema, path, |schema, path| plain(schema, path, patterns, errors));
    rules::texts(schema, path, errors);
}

fn map_type(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(kind) = schema["x-kubernetes-map-type"].as_str() else { return };
    let type_name = schema.text("/type");
    if type_name != "object" {
        let why = "must be object if x-kubernetes-map-type is specified";
        errors.add(|| other_type(path, type_name, why));
    }
    let known = &["atomic", "granular"];
    if !known.contains(&kind) {
        errors.add(|| FieldError::unsupported(path.member("x-kubernetes-map-type"), &kind.into(), known));
    }
}

/// Returns the error for a missing type, or for a type that an `x-kubernetes-` extension does not allow.
fn other_type(path: FieldPath<'_>, type_name: &str, why: &str) -> FieldError {
    match type_name {
        "" => FieldError::required(path.member("type"), why),
        other => FieldError::invalid_text(path.member("type"), other, why),
    }
}

fn list_type(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    const LIST: &str = "x-kubernetes-list-type";
    let type_name = schema.text("/type");
    let kind = schema[LIST].as_str();
    let items = &schema["items"];
    if kind.is_some() && type_name != "array" {
        let why = "must be array if x-kubernetes-list-type is specified";
        errors.add(|| other_type(path, type_name, why));
    }
    match kind {
        Some("map" | "atomic" | "set") | None => {}
        Some(other) => {
            errors.add(|| FieldError::unsupported(path.member(LIST), &other.into(), &["atomic", "set", "map"]));
        }
    }
    if kind.is_some() && type_name != "array" {
        return;
    }
    let keys: Vec<&str> = schema.texts(&format!("/{LIST_MAP_KEYS}")).collect();
    if !keys.is_empty() && kind != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.add(|| match kind {
            None => FieldError::required(path.member(LIST), why),
            Some(kind) => FieldError::invalid_text(path.member(LIST), kind, why),
        });
    }
    if let Some(kind @ ("map" | "set")) = kind
        && items.is_true("/nullable")
    {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.add(|| FieldError::forbidden(path.member("items").member("nullable"), why));
    }
    match kind {
        Some("map") => keyed(items, &keys, path, errors),
        Some("set") => {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let part = match items.text("/type") {
                "object" => "x-kubernetes-map-type",
                "array" => LIST,
                _ => return,
            };
            let found = items.get(part).cloned().unwrap_or_default();
            let implied = part == LIST && found.is_null();
            if found != "atomic" && !implied {
                errors.add(|| FieldError::invalid(path.member("items").member(part), &found, why));
            }
        }
        _ => {}
    }
}

const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";

fn keyed(items: &Json, keys: &[&str], path: FieldPath<'_>, errors: &mut FieldErrors) {
    let item_type = items.text("/type");
    let (items_path, keys_path) = (path.member("items"), path.member(LIST_MAP_KEYS));
    if item_type != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.add(|| FieldError::invalid_text(items_path.member("type"), item_type, why));
        return;
    }
    errors.required_if(keys.is_empty(), keys_path, "must not be empty if x-kubernetes-list-type is map");
    if keys.len() > MAX_KEYS {
        errors.add(|| FieldError::too_many(keys_path, keys.len(), MAX_KEYS));
        return;
    }
    let all_keys = json!(keys);
    let properties = items_path.member("properties");
    for key in keys {
        let Some(property) = items.get("properties").and_then(|properties| properties.get(key)) else {
            let why = "entries must all be names of item properties";
            errors.add(|| FieldError::invalid(keys_path, &all_keys, why));
            continue;
        };
        let path = FieldPath::Key(&properties, key);
        let key_type = property.text("/type");
        let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        errors.invalid_text_if(matches!(key_type, "array" | "object"), path.member("type"), key_type, why);
        let required = items.list("/required").any(|name| name.as_str() == Some(key));
        if !required && !property.has("/default") {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.add(|| FieldError::required(path.member("default"), why));
        }
        if property.text("/default").len() > MAX_KEY_DEFAULT {
            errors.add(|| FieldError::too_long(path.member("default"), MAX_KEY_DEFAULT));
        }
        let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.forbidden_if(property.is_true("/nullable"), path.member("nullable"), why);
    }
    if duplicates(keys.iter()).contains(&true) {
        errors.add(|| FieldError::invalid(keys_path, &all_keys, "must not contain duplicate entries"));
    }
}

/// Reports violations of the rules for structural schemas. Each schema outside of `allOf`, `anyOf`, `oneOf` and `not`
/// needs a type. A schema inside `allOf`, `anyOf`, `oneOf` or `not` may contain only value validations.
fn is_structural(schema: &Json, path: FieldPath<'_>, place: Position, errors: &mut FieldErrors) {
    let is_set = |key: &str| schema[key] == true;
    let type_name = schema.text("/type");
    let more = schema.get("additionalProperties").is_some_and(|more| !more.is_null());
    if is_set(EMBEDDED) {
        embedded(schema, path, more, errors);
    } else if type_name.is_empty() && !is_set(INT_OR_STRING) && !is_set(PRESERVE) {
        let why = match place {
            Position::Root => "must not be empty at the root",
            Position::Field => "must not be empty for specified object fields",
            Position::Item => "must not be empty for specified array items",
        };
        errors.add(|| FieldError::required(path.member("type"), why));
    }
    for key in [PRESERVE, EMBEDDED].into_iter().filter(|key| is_set(INT_OR_STRING) && is_set(key)) {
        let why = "must be false if x-kubernetes-int-or-string is true";
        errors.add(|| FieldError::invalid(path.member(key), &Json::Bool(true), why));
    }
    if place == Position::Root && more {
        errors.add(|| FieldError::forbidden(path.member("additionalProperties"), "must not be used at the root"));
    }
    if place == Position::Root || is_set(EMBEDDED) {
        types_of_resource(schema, path, errors);
    }
    branches::errors(schema, path, errors);
    fields(schema, path, |schema, path| {
        let place = if matches!(path, FieldPath::Member(_, "items")) { Position::Item } else { Position::Field };
        is_structural(schema, path, place, errors);
    });
}

const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Validates an embedded resource (`x-kubernetes-embedded-resource`). `more` is true if the embedded resource has
/// `additionalProperties`.
fn embedded(schema: &Json, path: FieldPath<'_>, more: bool, errors: &mut FieldErrors) {
    let type_name = schema.text("/type");
    let empty = schema.get("properties").is_none_or(Json::is_empty);
    if empty && schema[PRESERVE] != true {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.add(|| FieldError::required(path.member("properties"), why));
    }
    let why = "must be object if x-kubernetes-embedded-resource is true";
    match type_name {
        "object" => (),
        "" => errors.add(|| FieldError::required(path.member("type"), why)),
        other => errors.add(|| FieldError::invalid_text(path.member("type"), other, why)),
    }
    let why = "must not be used if x-kubernetes-embedded-resource is set";
    errors.forbidden_if(more, path.member("additionalProperties"), why);
}

fn types_of_resource(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    let properties = path.member("properties");
    for (key, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let Some(property) = schema["properties"].get(key) else { continue };
        let found = property.text("/type");
        if found != wanted {
            let path = FieldPath::Key(&properties, key);
            errors.add(|| FieldError::invalid_text(path.member("type"), found, format!("must be {wanted}")));
        }
    }
}

fn root(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    let properties = path.member("properties");
    let type_name = schema.text("/type");
    if !type_name.is_empty() && type_name != "object" {
        errors.add(|| FieldError::invalid_text(path.member("type"), type_name, "must be object at the root"));
    }
    let Some(Json::Object(members)) = schema["properties"].get("metadata") else { return };
    let says_more = members.iter().any(|(key, value)| match key.as_str() {
        "type" | "default" => false,
        "properties" => value.members("").any(|(name, _)| !matches!(name.as_str(), "name" | "generateName")),
        _ => !(value.is_null() || *value == false || value.as_str().is_some_and(str::is_empty)),
    });
    let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    errors.forbidden_if(says_more, FieldPath::Key(&properties, "metadata"), why);
}
