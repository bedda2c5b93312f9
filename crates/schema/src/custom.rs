//! Converts the structural schema of a custom resource to the [`Type`]s that also describe built-in kinds.
//!
//! The resulting types contain only the properties that patches and field management need. Validation, pruning and
//! defaulting use the structural schema directly.

use std::sync::Arc;

use pintle_json::Json;

use super::object_meta;
use super::types::{Field, ListKey, ListType, MapType, Merge, Scalar, Struct, StructRef, Topology, Type};

pub(super) fn root(structural: &Json) -> Type {
    match structural["type"].as_str() {
        Some("object") => {
            let preserve = structural["x-kubernetes-preserve-unknown-fields"] == true;
            embedded(object(structural, preserve, true))
        }
        _ => embedded(node(structural, false)),
    }
}

/// Returns the type for a schema. `preserve` is true if an enclosing schema preserves unknown fields. If `preserve` is
/// true, server-side apply accepts unknown fields at any depth, because kube-apiserver prunes them afterwards.
fn node(schema: &Json, preserve: bool) -> Type {
    let is_set = |name: &str| schema[name].as_bool() == Some(true);
    let preserve = preserve || is_set("x-kubernetes-preserve-unknown-fields");
    let is_resource = is_set("x-kubernetes-embedded-resource");
    let ty = match schema["type"].as_str() {
        Some("object") => object(schema, preserve, is_resource),
        Some("array") => list(schema, preserve),
        // In kube-apiserver, field management accepts any scalar as a string with a format, except as a byte string.
        Some("string") if !matches!(schema.text("/format"), "" | "byte") => Type::Scalar(Scalar::IntOrString),
        Some("string") => Type::Scalar(Scalar::String),
        Some("boolean") => Type::Scalar(Scalar::Bool),
        Some("integer" | "number") => Type::Scalar(Scalar::Number),
        _ if schema.members("/properties").next().is_some() => object(schema, preserve, is_resource),
        _ => Type::Any,
    };
    if is_resource { embedded(ty) } else { ty }
}

fn object(schema: &Json, preserve: bool, is_resource: bool) -> Type {
    let atomic = schema["x-kubernetes-map-type"].as_str() == Some("atomic");
    match schema.get("additionalProperties") {
        Some(Json::Bool(true)) => return Type::Map(Arc::new(MapType { value: Type::Any, atomic })),
        Some(value @ Json::Object(_)) => {
            return Type::Map(Arc::new(MapType { value: node(value, preserve), atomic }));
        }
        _ => {}
    }
    let properties = schema["properties"].as_object();
    let fields: Vec<Field> =
        properties.into_iter().flatten().map(|(name, schema)| field(name, node(schema, preserve))).collect();
    let is_free = preserve || fields.is_empty() && !is_resource;
    let mut struct_type = Struct::new("", fields, is_free.then_some(Type::Any));
    struct_type.is_typeless = schema.text("/type").is_empty();
    Type::Struct { struct_type: StructRef::custom(struct_type), atomic }
}

fn list(schema: &Json, preserve: bool) -> Type {
    let items = schema.get("items");
    let keys = || schema.list("/x-kubernetes-list-map-keys");
    let key = |name: &Json| {
        let name = name.as_str()?;
        let default = items.and_then(|items| items.get("properties")?.get(name)?.get("default")).cloned();
        Some(ListKey { name: name.into(), default })
    };
    let topology = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => Topology::Keyed(keys().filter_map(key).collect()),
        Some("set") => Topology::Set,
        _ => Topology::Atomic,
    };
    Type::List(Arc::new(ListType { item: items.map_or(Type::Any, |items| node(items, preserve)), topology }))
}

/// Adds the fields `apiVersion`, `kind` and `metadata` to a struct. Ignores the custom resource's schema for
/// `metadata`, because it can only restrict names.
fn embedded(ty: Type) -> Type {
    let (fields, rest, atomic) = match &ty {
        Type::Struct { struct_type, atomic } => (&struct_type.fields[..], struct_type.rest.clone(), *atomic),
        Type::Any => (&[][..], Some(Type::Any), false),
        other => return other.clone(),
    };
    let own = fields.iter().filter(|field| !["apiVersion", "kind", "metadata"].contains(&field.name.as_str()));
    let mut all: Vec<Field> = own.map(|known| field(&known.name, known.ty.clone())).collect();
    all.push(field("apiVersion", Type::Scalar(Scalar::String)));
    all.push(field("kind", Type::Scalar(Scalar::String)));
    all.push(field("metadata", object_meta()));
    Type::Struct { struct_type: StructRef::custom(Struct::new("", all, rest)), atomic }
}

fn field(name: &str, ty: Type) -> Field {
    Field {
        name: name.into(),
        ty,
        pointer: true,
        always: false,
        keeps_empty: false,
        required: false,
        merge: Merge::default(),
        number: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn structural_schema_keeps_list_topology() {
        let root = root(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}}},
            "plain": {"type": "array", "items": {"type": "object"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "either": {"x-kubernetes-int-or-string": true},
            "text": {"x-kubernetes-int-or-string": true, "type": "string"},
            "bare": {"x-kubernetes-int-or-string": true, "properties": {}, "additionalProperties": {"type": "string"}},
            "empty": {"type": "object"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}}},
        }}}}));
        let spec = root.child("spec").unwrap();
        let topology = |name: &str| match spec.child(name) {
            Some(Type::List(list)) => list.topology.clone(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(topology("set"), Topology::Set);
        assert_eq!(topology("plain"), Topology::Atomic);
        let key = |name: &str, default: Option<Json>| ListKey { name: name.into(), default };
        assert_eq!(topology("map"), Topology::Keyed(vec![key("a", None), key("b", Some(json!("x")))]));
        assert!(matches!(spec.child("free").unwrap().child("any"), Some(Type::Any)));
        assert!(matches!(spec.child("atom"), Some(Type::Map(map)) if map.atomic));
        assert!(matches!(spec.child("either"), Some(Type::Any)));
        assert!(matches!(spec.child("bare"), Some(Type::Any)));
        assert!(matches!(spec.child("text"), Some(Type::Scalar(Scalar::String))));
        assert!(matches!(spec.child("empty").unwrap().child("any"), Some(Type::Any)));
        let Some(Type::List(open)) = spec.child("open").unwrap().child("list") else { panic!("no list") };
        assert!(matches!(open.item.child("any"), Some(Type::Any)));
        assert!(spec.child("unknown").is_none() && root.child("unknown").is_none());
        assert!(root.child("metadata").unwrap().child("labels").is_some());
    }
}
