//! Converts schemars' schemas to structural schemas.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::quantity;
use crate::schema_object::{INT_OR_STRING, Object, PRESERVE, SchemaError, object};
use crate::union::{merge, optional_union, union};

/// The JSON Schema keywords that a structural schema may contain. Keywords with the prefix `x-kubernetes-` are also
/// allowed.
const KEPT: &[&str] = &[
    "type",
    "title",
    "description",
    "format",
    "default",
    "enum",
    "nullable",
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
];

/// The formats that kube-apiserver accepts without a warning.
const FORMATS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "double",
    "duration",
    "email",
    "float",
    "hexcolor",
    "hostname",
    "int32",
    "int64",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns a schema that accepts any JSON value, for `#[schemars(schema_with =
/// "pintle_crd::preserve_unknown_fields")]`.
///
/// kube-apiserver does not validate or prune fields with this schema. In a recursive type, the field that contains the
/// type itself needs this schema.
pub fn preserve_unknown_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

pub(crate) fn structural<T: JsonSchema + ?Sized>() -> Result<Object, SchemaError> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    quantity::restrict_quantities::<T>(&mut schema);
    convert(schema, "")
}

/// Converts the schema of a list item or a map value at `path`, which error messages contain.
pub(crate) fn convert(schema: Value, path: &str) -> Result<Object, SchemaError> {
    let mut schema = convert_nullable(schema, path)?;
    allow_null_beside_enum(&mut schema);
    Ok(schema)
}

/// Moves an `enum` to `anyOf` with null as an alternative, because kube-apiserver rejects null in a nullable schema
/// with an `enum`.
fn allow_null_beside_enum(schema: &mut Object) {
    if schema.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    let Some(values) = schema.remove("enum") else { return };
    let alternatives = json!([{"enum": values}, {"enum": [null]}]);
    if let Some(others) = schema.insert("anyOf".into(), alternatives) {
        let rules = schema.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            // Insert the alternatives first, as kube-apiserver requires for `x-kubernetes-int-or-string`.
            rules.insert(0, json!({"anyOf": others}));
        }
    }
}

/// Converts the schema of a property. An `Option` does not have to be nullable: kube-apiserver removes null values,
/// and Rust decodes an absent value as `None`.
fn convert_property(schema: Value, path: &str) -> Result<Object, SchemaError> {
    // A property with a default must stay nullable, because kube-apiserver would otherwise replace null with the
    // default.
    let stays = schema.get("nullable").is_some() || schema.get("default").is_some_and(|default| !default.is_null());
    let mut schema = convert_nullable(schema, path)?;
    // `()` must stay nullable, because null is its only value.
    if !stays && schema.contains_key("type") {
        schema.remove("nullable");
    }
    allow_null_beside_enum(&mut schema);
    Ok(schema)
}

fn convert_nullable(schema: Value, path: &str) -> Result<Object, SchemaError> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(true) => return Ok(object(json!({ PRESERVE: true }))),
        _ => return Err(SchemaError::new(path, "no value is valid; leave the field out with #[schemars(skip)]")),
    };
    if schema.contains_key("$ref") {
        let why = "the type contains itself, and a structural schema has no references; add \
                   #[schemars(schema_with = \"pintle_crd::preserve_unknown_fields\")] to the field";
        return Err(SchemaError::new(path, why));
    }
    normalize(&mut schema);
    let parts = ["allOf", "anyOf", "oneOf"].map(|key| (key, schema.remove(key)));
    schema.retain(|key, _| KEPT.contains(&key.as_str()) || key.starts_with("x-kubernetes-"));
    children(&mut schema, path)?;
    for (key, alternatives) in parts {
        let Some(Value::Array(alternatives)) = alternatives else { continue };
        if schema.contains_key(INT_OR_STRING) {
            continue;
        }
        if alternatives.iter().all(is_condition) && !alternatives.is_empty() {
            schema.insert(key.into(), alternatives.into_iter().map(condition).collect());
        } else if key == "allOf" {
            for part in alternatives {
                merge(&mut schema, convert(part, path)?, path)?;
            }
        } else {
            convert_union(&mut schema, key, alternatives, path)?;
        }
    }
    quantity::add_alternatives(&mut schema);
    finish(&mut schema);
    Ok(schema)
}

/// Converts the alternatives of a `oneOf` or `anyOf`, and adds them to the schema.
fn convert_union(schema: &mut Object, key: &str, alternatives: Vec<Value>, path: &str) -> Result<(), SchemaError> {
    let mut variants = Vec::new();
    // For a flattened `Option`, schemars generates one alternative that accepts every object.
    let accepts_all = |alternative: &Value| *alternative == true || *alternative == json!({});
    let is_optional = alternatives.iter().any(accepts_all);
    for alternative in alternatives.into_iter().filter(|alternative| !accepts_all(alternative)) {
        if alternative["type"] == "null" || alternative["const"].is_null() && alternative.get("const").is_some() {
            schema.insert("nullable".into(), true.into());
        } else {
            variants.push(convert(alternative, path)?);
        }
    }
    if is_optional { optional_union(schema, variants, path) } else { union(schema, key, variants, path) }
}

/// Returns `true` if the schema has no type and only adds conditions to the schema that contains it, like
/// `{"required": ["a"]}`.
fn is_condition(schema: &Value) -> bool {
    const TYPED: [&str; 5] = ["type", "$ref", "const", "items", "additionalProperties"];
    let is_typed = |schema: &Value| TYPED.iter().any(|key| schema.get(key).is_some());
    let properties = schema.get("properties").and_then(Value::as_object);
    schema.is_object()
        && !is_typed(schema)
        && !["allOf", "anyOf", "oneOf"].iter().any(|key| schema.get(key).is_some())
        && properties.is_none_or(|properties| properties.values().all(|property| !is_typed(property)))
        && (schema.get("enum").is_none() || schema.get("description").is_none())
}

/// Removes keywords that kube-apiserver forbids in conditions, such as the alternatives of `oneOf`.
fn condition(schema: Value) -> Value {
    let mut schema = object(schema);
    normalize(&mut schema);
    for key in ["description", "title", "default", "nullable"] {
        schema.remove(key);
    }
    schema.into()
}

/// Replaces keywords that a structural schema forbids or writes in another form.
fn normalize(schema: &mut Object) {
    if let Some(constant) = schema.remove("const") {
        schema.insert("enum".into(), json!([constant]));
    }
    if schema.get("type").is_some_and(|name| name == "null") {
        schema.remove("type");
        schema.insert("nullable".into(), true.into());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        let before = types.len();
        types.retain(|name| name != "null");
        let is_nullable = types.len() < before;
        match &types[..] {
            [one] => {
                let one = one.clone();
                schema.insert("type".into(), one);
            }
            [_, _] if types.contains(&json!("integer")) && types.contains(&json!("string")) => {
                schema.remove("type");
                schema.insert(INT_OR_STRING.into(), true.into());
            }
            // If the alternatives have no common type, `union` returns an error.
            _ => {
                let alternatives: Vec<Value> = types.drain(..).map(|name| json!({ "type": name })).collect();
                schema.remove("type");
                schema.insert("anyOf".into(), alternatives.into());
            }
        }
        if is_nullable {
            schema.insert("nullable".into(), true.into());
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let before = values.len();
        values.retain(|value| !value.is_null());
        if values.len() < before {
            schema.insert("nullable".into(), true.into());
        }
    }
    match schema.get_mut("default") {
        Some(Value::Null) => _ = schema.remove("default"),
        Some(default) => remove_nulls(default),
        None => {}
    }
    if let Some(Value::Object(negated)) = schema.get_mut("not") {
        *negated = object(condition(std::mem::take(negated).into()));
    }
    // Use a maximum instead of the format `uint32`, which kube-apiserver does not support.
    if schema.get("format").is_some_and(|format| format == "uint32") && !schema.contains_key("maximum") {
        schema.insert("maximum".into(), u32::MAX.into());
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(number) = schema.remove(exclusive).filter(|value| !value.is_boolean()) {
            schema.insert(bound.into(), number);
            schema.insert(exclusive.into(), true.into());
        }
    }
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        schema.remove("format");
    }
    // schemars represents maps with numeric keys as `patternProperties`.
    if let Some(Value::Object(patterns)) = schema.remove("patternProperties")
        && let Some((_, values)) = patterns.into_iter().next()
    {
        schema.insert("additionalProperties".into(), values);
    }
    if let Some(Value::Array(items)) = schema.remove("prefixItems") {
        schema.insert("items".into(), json!({ "anyOf": items }));
    }
}

/// Removes null members recursively, because a default must not contain nulls.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

fn children(schema: &mut Object, path: &str) -> Result<(), SchemaError> {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            *property = convert_property(property.take(), &path)?.into();
        }
    }
    // Add a schema for the items, which kube-apiserver requires even for `[T; 0]`.
    if schema.get("type").is_some_and(|name| name == "array") && !schema.contains_key("items") {
        schema.insert("items".into(), json!({ "x-kubernetes-preserve-unknown-fields": true }));
    }
    if let Some(items) = schema.get_mut("items") {
        *items = convert(items.take(), &format!("{path}[]"))?.into();
    }
    match schema.remove("additionalProperties") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            schema.insert(PRESERVE.into(), true.into());
        }
        Some(values) => {
            let values = convert(values, &format!("{path}.*"))?;
            // Accept unknown fields, because a structural schema cannot have both `properties` and
            // `additionalProperties`.
            if schema.contains_key("properties") {
                schema.insert(PRESERVE.into(), true.into());
            } else {
                schema.insert("additionalProperties".into(), values.into());
            }
        }
    }
    if schema.remove("uniqueItems") == Some(true.into()) {
        let item_type = schema.get("items").and_then(|items| items["type"].as_str());
        if item_type.is_some_and(|item_type| !matches!(item_type, "object" | "array")) {
            schema.entry("x-kubernetes-list-type").or_insert_with(|| "set".into());
        }
    }
    if schema.get("x-kubernetes-list-type").is_some_and(|list_type| list_type == "set")
        && let Some(Value::Object(items)) = schema.get_mut("items")
    {
        items.remove("nullable");
    }
    Ok(())
}

/// Adds the keyword `type` if other keywords imply it.
fn finish(schema: &mut Object) {
    // Remove `additionalProperties`, which merged enum variants can contain, because a structural schema cannot
    // combine it with `properties`.
    if schema.contains_key("properties") && schema.remove("additionalProperties").is_some() {
        schema.insert(PRESERVE.into(), true.into());
    }
    if schema.contains_key("type") || schema.contains_key(INT_OR_STRING) {
        return;
    }
    let implied = match schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        Some(Value::String(_)) => Some("string"),
        Some(Value::Bool(_)) => Some("boolean"),
        Some(Value::Number(number)) if number.is_f64() => Some("number"),
        Some(Value::Number(_)) => Some("integer"),
        _ if schema.contains_key("properties") || schema.contains_key("additionalProperties") => Some("object"),
        _ if schema.contains_key("items") => Some("array"),
        _ => None,
    };
    match implied {
        Some(implied) => schema.insert("type".into(), implied.into()),
        None => schema.insert(PRESERVE.into(), true.into()),
    };
}
