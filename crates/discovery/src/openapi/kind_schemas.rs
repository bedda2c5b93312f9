//! Creates the schemas of kinds and of their lists. For CustomResourceDefinitions, it adds the fields of all
//! Kubernetes objects, and schemas for the `x-kubernetes-` extensions.

use pintle_json::{Json, json};
use pintle_kinds::Kind;
use pintle_schema::openapi::reference;

use crate::schema_names::{LIST_METADATA_SCHEMA, METADATA_SCHEMA, gvk, schema_name};

const SELECTABLE: &str = "x-kubernetes-selectable-fields";
const CONVENTIONS: &str =
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
                           recognized schemas to the latest internal value, and may reject unrecognized values.";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
                    endpoint the client submits requests to. Cannot be updated. In CamelCase.";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object.";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase.";

pub(super) fn complete(kind: &Kind, schema: &mut Json) {
    let metadata = documented(METADATA_SCHEMA, &format!("Standard object's metadata. {CONVENTIONS}#metadata"));
    add_object_fields(schema, metadata);
    schema.set("x-kubernetes-group-version-kind", json!([gvk(&kind.gvk())]));
}

pub(super) fn list(kind: &Kind) -> Json {
    let items = json!({
        "description": format!("List of {}. {CONVENTIONS}", kind.plural),
        "type": "array",
        "items": reference(&schema_name(kind)),
    });
    let mut schema = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {"items": items},
        "x-kubernetes-group-version-kind": [gvk(&kind.group_version().with_kind(&kind.list_kind))],
    });
    let metadata = documented(LIST_METADATA_SCHEMA, &format!("Standard list metadata. {CONVENTIONS}#types-kinds"));
    add_object_fields(&mut schema, metadata);
    if let Some(fields) = kind.strategy.openapi().and_then(|declared| declared.get(SELECTABLE)) {
        schema.set(SELECTABLE, fields.clone());
    }
    schema
}

fn add_object_fields(schema: &mut Json, metadata: Json) {
    if let Some(properties) = schema.member("properties") {
        properties.set("apiVersion", text(&format!("{API_VERSION} {CONVENTIONS}#resources")));
        properties.set("kind", text(&format!("{KIND} {CONVENTIONS}#types-kinds")));
        properties.set("metadata", metadata);
    }
}

/// Returns the schema of a definition as clients receive it. For clients that ignore the `x-kubernetes-` extensions,
/// adds equivalent ordinary schemas. The recursion is bounded, because the nesting depth of stored definitions is
/// limited.
pub(super) fn declared(mut schema: Json) -> Json {
    expand_extensions(&mut schema);
    schema
}

fn expand_extensions(schema: &mut Json) {
    for parts in ["properties", "allOf", "anyOf", "oneOf"] {
        match schema.get_mut(parts) {
            Some(Json::Object(parts)) => parts.values_mut().for_each(expand_extensions),
            Some(Json::Array(parts)) => parts.iter_mut().for_each(expand_extensions),
            _ => (),
        }
    }
    for part in ["items", "additionalProperties", "not"] {
        schema.get_mut(part).into_iter().for_each(expand_extensions);
    }
    let is_set = |schema: &Json, extension: &str| schema[extension] == true;
    if is_set(schema, "x-kubernetes-int-or-string") {
        schema.set_default("anyOf", json!([{"type": "integer"}, {"type": "string"}]));
    }
    if is_set(schema, "x-kubernetes-embedded-resource") {
        schema.set_default("properties", json!({}));
        if let Some(properties) = schema.member("properties") {
            properties.set("apiVersion", text(&format!("{EMBEDDED_API_VERSION} {CONVENTIONS}#resources")));
            properties.set("kind", text(&format!("{EMBEDDED_KIND} {CONVENTIONS}#types-kinds")));
            let metadata = format!("Standard object's metadata. {CONVENTIONS}#metadata");
            properties.set("metadata", documented(METADATA_SCHEMA, &metadata));
        }
        let mut required = schema.list("/required").cloned().collect::<Vec<_>>();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
        schema.set("required", required);
    }
}

fn text(description: &str) -> Json {
    json!({"description": description, "type": "string"})
}

fn documented(schema: &str, description: &str) -> Json {
    json!({"description": description, "allOf": [reference(schema)]})
}
