//! Creates the OpenAPI 2 document of all kinds by merging and converting the OpenAPI 3 documents.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_json::{Json, Map, json};
use pintle_kinds::Kind;
use pintle_schema::openapi::PLACE;

use super::openapi;

/// An entry of the two largest members of the document, `paths` and `definitions`, which [`parts`] passes one by
/// one.
#[derive(Clone, Copy, Debug)]
pub(super) enum DocumentPart {
    Path,
    Definition,
}

/// Calls `take` separately for each path and each definition, because the whole document is large. Each item of
/// `versions` contains the kinds of one version.
pub(super) fn parts(versions: impl Iterator<Item = Vec<Arc<Kind>>>, mut take: impl FnMut(DocumentPart, &str, &Json)) {
    let mut defined = HashSet::new();
    for kinds in versions {
        let mut document = openapi::document(&kinds);
        for (path, operations) in members(document["paths"].take()) {
            take(DocumentPart::Path, &path, &path_item(operations));
        }
        for (name, schema) in members(document["components"]["schemas"].take()) {
            if defined.insert(name.clone()) {
                take(DocumentPart::Definition, &name, &definition(schema));
            }
        }
    }
}

pub(super) fn head() -> Map {
    members(json!({"swagger": "2.0", "info": {"title": openapi::title(false), "version": openapi::version(false)}}))
}

#[derive(Default)]
pub(super) struct TextV2 {
    paths: String,
    definitions: String,
}

impl TextV2 {
    pub(super) fn add(&mut self, part: DocumentPart, name: &str, value: &Json) {
        let object = match part {
            DocumentPart::Path => &mut self.paths,
            DocumentPart::Definition => &mut self.definitions,
        };
        let comma = if object.is_empty() { "" } else { "," };
        object.push_str(&format!("{comma}{}:{value}", Json::from(name)));
    }

    pub(super) fn finish(self, head: &Map) -> String {
        let Self { paths, definitions } = self;
        let head: String = head.iter().map(|(name, value)| format!("{}:{value},", Json::from(name.as_str()))).collect();
        format!(r#"{{{head}"paths":{{{paths}}},"definitions":{{{definitions}}}}}"#)
    }
}

fn members(object: Json) -> Map {
    match object {
        Json::Object(members) => members,
        _ => Map::new(),
    }
}

fn path_item(mut item: Json) -> Json {
    for (name, part) in item.as_object_mut().into_iter().flatten() {
        if name == "parameters" {
            part.as_array_mut().into_iter().flatten().for_each(flatten);
        } else {
            operation(part);
        }
    }
    item
}

fn operation(operation: &mut Json) {
    let Some(members) = operation.as_object_mut() else { return };
    let body = members.remove("requestBody");
    let parameters = members.entry("parameters").or_insert_with(|| json!([]));
    parameters.as_array_mut().into_iter().flatten().for_each(flatten);
    if let (Some(body), Some(parameters)) = (&body, parameters.as_array_mut()) {
        let mut parameter = json!({"name": "body", "in": "body", "schema": content_schema(body)});
        if body["required"] == true {
            parameter.set("required", true);
        }
        parameters.push(parameter);
    }
    let mut produces = Vec::new();
    for answer in members.get_mut("responses").and_then(Json::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let schema = content_schema(answer);
        if !schema.is_null() {
            produces = media_types(answer);
            answer.set("schema", schema);
        }
        answer.as_object_mut().and_then(|answer| answer.remove("content"));
    }
    members.insert("schemes", json!(["https"]));
    members.insert("produces", produces.into());
    members.insert("consumes", body.map_or_else(|| vec!["*/*".into()], |body| media_types(&body)).into());
}

fn media_types(body: &Json) -> Vec<Json> {
    let content = body["content"].as_object();
    content.into_iter().flat_map(Map::keys).map(|media| media.as_str().into()).collect()
}

/// Returns the schema of a request or response body, which is the same for all media types, or null for a body
/// without content.
fn content_schema(body: &Json) -> Json {
    let content = body["content"].as_object();
    content.and_then(|content| content.values().next()).map_or(Json::Null, |media| lowered(media["schema"].clone()))
}

fn flatten(parameter: &mut Json) {
    if let Some(members) = parameter.as_object_mut()
        && let Some(Json::Object(schema)) = members.remove("schema")
    {
        members.extend(schema);
    }
}

/// Converts a definition's schema. If the kind preserves unknown fields, removes its properties, because kubectl would
/// reject all other fields.
fn definition(schema: Json) -> Json {
    if schema["x-kubernetes-preserve-unknown-fields"] != true {
        return lowered(schema);
    }
    let mut open = json!({"type": "object"});
    for extension in ["x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields"] {
        if let Some(value) = schema.get(extension) {
            open.set(extension, value.clone());
        }
    }
    open
}

/// Converts a schema to OpenAPI 2, without alternatives and defaults. If a schema is nullable or preserves unknown
/// fields, also removes its type and its nested schemas. With the original type and nested schemas, OpenAPI 2 clients
/// would reject valid objects.
fn lowered(mut schema: Json) -> Json {
    let Some(members) = schema.as_object_mut() else { return schema };
    let either = members.remove("oneOf");
    for part in ["anyOf", "not", "default"] {
        members.remove(part);
    }
    let nullable = members.remove("nullable") == Some(Json::Bool(true));
    let open = members.get("x-kubernetes-preserve-unknown-fields") == Some(&Json::Bool(true));
    let properties = members.get("properties").and_then(Json::as_object).into_iter().flatten();
    let null: HashSet<_> =
        properties.filter(|(_, schema)| schema["nullable"] == true).map(|(name, _)| name.clone()).collect();
    if let Some(Json::Array(required)) = members.get_mut("required") {
        required.retain(|name| !name.as_str().is_some_and(|name| null.contains(name)));
    }
    for (part, remove) in
        [("items", nullable || open), ("properties", nullable || open), ("additionalProperties", nullable)]
    {
        if remove {
            members.remove(part);
        }
    }
    let any_type = match members.get("type").and_then(Json::as_str) {
        Some("array") => nullable || !members.contains_key("items"),
        Some("object") => nullable || open,
        _ => nullable,
    };
    if any_type {
        members.remove("type");
    }
    if let Some(Json::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = lowered(property.take()));
    }
    for part in ["items", "additionalProperties"] {
        members.get_mut(part).into_iter().for_each(|part| *part = lowered(part.take()));
    }
    if let Some(Json::Array(parts)) = members.remove("allOf") {
        match &parts[..] {
            [part] if part.get("$ref").is_some() => members.extend(part.as_object().cloned().into_iter().flatten()),
            _ => {
                members.insert("allOf", parts.into_iter().map(lowered).collect());
            }
        }
    }
    if let Some(name) = members.get("$ref").and_then(|place| place.as_str()?.strip_prefix(PLACE)) {
        let place = format!("#/definitions/{name}");
        members.insert("$ref", place.into());
    }
    // A field that may be a number or a string has the type `string` in OpenAPI 2.
    if either.is_some_and(|either| either.list("").all(|one| one.get("type").is_some())) {
        schema.set_default("type", "string");
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_converted_to_version_2() {
        let reference = json!({"$ref": "#/components/schemas/a.B"});
        for (schema, expected) in [
            (reference.clone(), json!({"$ref": "#/definitions/a.B"})),
            (
                json!({"allOf": [reference], "description": "d"}),
                json!({"$ref": "#/definitions/a.B", "description": "d"}),
            ),
            (json!({"oneOf": [{"type": "string"}, {"type": "number"}]}), json!({"type": "string"})),
            (
                json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (json!({"type": "string", "nullable": true}), json!({})),
            (
                json!({"type": "object", "oneOf": [{"required": ["a"]}], "not": {"required": ["b"]}}),
                json!({"type": "object"}),
            ),
            (
                json!({"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 1}}}),
                json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}, "description": "d"}),
                json!({"x-kubernetes-preserve-unknown-fields": true, "description": "d"}),
            ),
            (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}), {
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})
            }),
            (json!({"type": "array"}), json!({})),
            (
                json!({"required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": true}}}),
                json!({"required": ["a"], "properties": {"a": {"type": "string"}, "b": {}}}),
            ),
            // The property named `oneOf` in this schema has a schema as its value, not a list of alternatives.
            (
                json!({"properties": {"oneOf": {"type": "array", "items": {"type": "string", "nullable": true}}}}),
                json!({"properties": {"oneOf": {"type": "array", "items": {}}}}),
            ),
            (json!({"additionalProperties": false}), json!({"additionalProperties": false})),
        ] {
            assert_eq!(lowered(schema.clone()), expected, "{schema}");
        }
    }

    #[test]
    fn kind_that_preserves_unknown_fields_has_no_properties() {
        let kind = json!([{"group": "a.io", "version": "v1", "kind": "Any"}]);
        let schema = json!({
            "type": "object",
            "description": "d",
            "properties": {"metadata": {}},
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-group-version-kind": kind,
        });
        assert_eq!(definition(schema), json!({"type": "object", "x-kubernetes-group-version-kind": kind}));
    }

    #[test]
    fn request_body_becomes_a_parameter_and_consumed_media_types() {
        let content = |media: &str| json!({media: {"schema": {"$ref": "#/components/schemas/a.B"}}});
        let mut converted = json!({
            "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string", "uniqueItems": true}}],
            "requestBody": {"content": content("*/*"), "required": true},
            "responses": {"200": {"description": "OK", "content": content("a/b")}, "401": {"description": "Unauthorized"}},
        });
        operation(&mut converted);
        let schema = json!({"$ref": "#/definitions/a.B"});
        let expected = json!({
            "parameters": [
                {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": true},
                {"name": "body", "in": "body", "required": true, "schema": schema},
            ],
            "responses": {"200": {"description": "OK", "schema": schema}, "401": {"description": "Unauthorized"}},
            "schemes": ["https"],
            "produces": ["a/b"],
            "consumes": ["*/*"],
        });
        assert_eq!(converted, expected);
    }
}
