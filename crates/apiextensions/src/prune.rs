//! Prunes custom resources: removes fields that their schema does not declare.

use pintle_json::{Json, Map};
use pintle_store::{METADATA, OBJECT};

use super::field_path::FieldPath;
use super::structural::{Additional, Structural};

const OWNER: &[&str] = &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const MANAGED: &[&str] = &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Removes unknown fields from a custom resource and returns their paths. Limits the total size of the returned paths.
/// The paths are grouped by [`Place`] and sorted in each group.
pub(crate) fn prune(schema: &Structural, object: &mut Json) -> Vec<String> {
    let mut removed = Removed::default();
    resource(schema, object, FieldPath::Start(""), &mut removed);
    removed.paths.iter_mut().for_each(|paths| paths.sort());
    removed.paths.concat()
}

/// The paths of the removed fields, grouped by [`Place`]. The total size of the paths is limited, because a single path
/// can be as long as the object.
#[derive(Default)]
struct Removed {
    paths: [Vec<String>; 3],
    bytes: usize,
}

/// The part of the object that contained a removed field. The order of the variants is the reporting order.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Metadata,
    Object,
    EmbeddedMetadata,
}

const MAX_PATH_BYTES: usize = 4 << 20;

impl Removed {
    fn add(&mut self, place: Place, path: FieldPath<'_>) {
        if self.bytes < MAX_PATH_BYTES {
            let path = if place == Place::EmbeddedMetadata { String::from(path) } else { path.dotted() };
            self.bytes += size_of::<String>() + path.len();
            self.paths[place as usize].push(path);
        }
    }
}

pub(crate) fn prune_value(schema: &Structural, value: &mut Json) {
    self::value(schema, value, schema.preserve_unknown, FieldPath::Start(""), &mut Removed::default());
}

pub(crate) fn prune_embedded(schema: &Structural, value: &mut Json) {
    match value {
        Json::Object(members) => {
            if schema.embedded
                && let Some(Json::Object(metadata)) = members.get_mut("metadata")
            {
                prune_metadata(metadata, Place::EmbeddedMetadata, FieldPath::Start(""), &mut Removed::default());
            }
            for (key, member) in members.iter_mut() {
                if let Some(schema) = schema.member(key) {
                    prune_embedded(schema, member);
                }
            }
        }
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| prune_embedded(schema, item));
            }
        }
        _ => {}
    }
}

/// Removes unknown metadata fields from the defaults in the JSON of a schema.
pub(super) fn prune_schema_defaults(schema: &mut Json) {
    if let Some(mut default) = schema.get("default").filter(|default| holds_metadata(default)).cloned() {
        prune_schema_default(schema, &mut default);
        schema.set("default", default);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(name) {
            prune_schema_defaults(schema);
        }
    }
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        properties.iter_mut().for_each(|(_, schema)| prune_schema_defaults(schema));
    }
}

/// Does the same as [`prune_embedded`], but reads the JSON of the schema. If each default read a [`Structural`], nested
/// defaults would read the same subschemas repeatedly.
fn prune_schema_default(schema: &Json, default: &mut Json) {
    match default {
        Json::Object(members) => {
            if schema["x-kubernetes-embedded-resource"] == true
                && let Some(Json::Object(metadata)) = members.get_mut("metadata")
            {
                prune_metadata(metadata, Place::EmbeddedMetadata, FieldPath::Start(""), &mut Removed::default());
            }
            for (name, member) in members.iter_mut() {
                let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                prune_schema_default(schema, member);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| prune_schema_default(&schema["items"], item)),
        _ => {}
    }
}

fn holds_metadata(default: &Json) -> bool {
    match default {
        Json::Object(members) => members.iter().any(|(name, value)| name == "metadata" || holds_metadata(value)),
        Json::Array(items) => items.iter().any(holds_metadata),
        _ => false,
    }
}

/// Removes unknown metadata fields from a schema's defaults, which would otherwise add these fields to objects.
pub(super) fn prune_defaults(schema: &mut Structural) {
    if let Some(mut default) = schema.default.take() {
        prune_embedded(schema, &mut default);
        schema.default = Some(default);
    }
    if let Some(metadata_schema) = schema.properties.get_mut("metadata").filter(|_| schema.embedded) {
        metadata_schema.keep_defaults(|name| METADATA.contains(&name));
        if let Some(Json::Object(metadata)) = &mut metadata_schema.default {
            prune_metadata(metadata, Place::EmbeddedMetadata, FieldPath::Start(""), &mut Removed::default());
        }
    }
    let additional = match &mut schema.additional {
        Some(Additional::Schema(schema)) => Some(&mut **schema),
        _ => None,
    };
    schema.properties.values_mut().chain(schema.items.as_deref_mut()).chain(additional).for_each(prune_defaults);
}

pub(crate) fn is_pruned(schema: &Structural, object: &Json) -> bool {
    let Some(members) = object.as_object() else { return true };
    metadata_is_pruned(members) && members_are_pruned(schema, members, schema.preserve_unknown, true)
}

fn resource(schema: &Structural, object: &mut Json, path: FieldPath<'_>, removed: &mut Removed) {
    let Some(members) = object.as_object_mut() else { return };
    if let Some(Json::Object(metadata)) = members.get_mut("metadata") {
        prune_metadata(metadata, Place::Metadata, path.member("metadata"), removed);
    }
    prune_members(schema, members, schema.preserve_unknown, path, removed, true);
}

fn prune_metadata(metadata: &mut Map, place: Place, path: FieldPath<'_>, removed: &mut Removed) {
    keep(metadata, &METADATA, place, path, removed);
    for (key, known) in [("ownerReferences", OWNER), ("managedFields", MANAGED)] {
        let Some(Json::Array(items)) = metadata.get_mut(key) else { continue };
        for (at, item) in items.iter_mut().enumerate() {
            if let Json::Object(item) = item {
                keep(item, known, place, path.member(key).item(at), removed);
            }
        }
    }
}

fn keep(members: &mut Map, known: &[&str], place: Place, path: FieldPath<'_>, removed: &mut Removed) {
    members.retain(|key, _| {
        let stays = known.contains(&key.as_str());
        if !stays {
            removed.add(place, path.member(key));
        }
        stays
    });
}

/// Prunes nested values. Also removes the unknown fields of `value` itself, unless `preserves` is true. A list with
/// `x-kubernetes-preserve-unknown-fields` keeps the unknown fields of its items, except inside declared fields.
fn value(schema: &Structural, value: &mut Json, preserves: bool, path: FieldPath<'_>, removed: &mut Removed) {
    match value {
        Json::Object(members) if schema.embedded => {
            if let Some(Json::Object(metadata)) = members.get_mut("metadata") {
                prune_metadata(metadata, Place::EmbeddedMetadata, path.member("metadata"), removed);
            }
            prune_members(schema, members, preserves, path, removed, true);
        }
        Json::Object(members) => prune_members(schema, members, preserves, path, removed, false),
        Json::Array(items) => {
            // If the schema of a list does not describe the items, treat all fields of the items as unknown.
            let of_items = schema.items.as_deref();
            let empty = Structural::default();
            let of_items = match of_items {
                None if preserves => return,
                of_items => of_items.unwrap_or(&empty),
            };
            for (at, item) in items.iter_mut().enumerate() {
                self::value(of_items, item, preserves || of_items.preserve_unknown, path.item(at), removed);
            }
        }
        _ => {}
    }
}

fn prune_members(
    schema: &Structural,
    members: &mut Map,
    preserves: bool,
    path: FieldPath<'_>,
    removed: &mut Removed,
    is_resource: bool,
) {
    members.retain(|key, member| {
        if is_resource && OBJECT.contains(&key.as_str()) {
            return true;
        }
        match schema.member(key) {
            Some(of_member) => {
                value(of_member, member, of_member.preserve_unknown, schema.path_of(key, &path), removed);
            }
            // A boolean `additionalProperties` keeps map values, but does not declare fields inside them.
            None if schema.keeps_undeclared_members() => {
                value(&Structural::default(), member, false, path.member(key), removed);
            }
            None if preserves => {}
            None => {
                removed.add(Place::Object, path.member(key));
                return false;
            }
        }
        true
    });
}

fn metadata_is_pruned(members: &Map) -> bool {
    let metadata = members["metadata"].as_object();
    metadata.is_none_or(|metadata| metadata.keys().all(|key| METADATA.contains(&key.as_str())))
}

fn members_are_pruned(schema: &Structural, members: &Map, preserves: bool, is_resource: bool) -> bool {
    members.iter().all(|(key, member)| match schema.member(key) {
        _ if is_resource && OBJECT.contains(&key.as_str()) => true,
        Some(schema) => value_is_pruned(schema, member, schema.preserve_unknown),
        None if schema.keeps_undeclared_members() => value_is_pruned(&Structural::default(), member, false),
        None => preserves,
    })
}

fn value_is_pruned(schema: &Structural, value: &Json, preserves: bool) -> bool {
    match value {
        Json::Object(members) if schema.embedded => {
            metadata_is_pruned(members) && members_are_pruned(schema, members, preserves, true)
        }
        Json::Object(members) => members_are_pruned(schema, members, preserves, false),
        Json::Array(items) => {
            let empty = Structural::default();
            match schema.items.as_deref() {
                None if preserves => true,
                of_items => {
                    let of_items = of_items.unwrap_or(&empty);
                    items.iter().all(|item| value_is_pruned(of_items, item, preserves || of_items.preserve_unknown))
                }
            }
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;
    use pintle_json::json;

    use super::super::pattern::Patterns;
    use super::{Structural, prune, prune_schema_defaults};

    #[test]
    fn only_embedded_metadata_has_brackets_around_keys() {
        let resource = json!({"type": "object", "x-kubernetes-embedded-resource": true});
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "additionalProperties": resource},
            "b": {"type": "object", "additionalProperties": {"type": "object"}},
        }});
        let schema = Structural::read(&schema, &mut Patterns::default());
        let mut object = json!({"a": {"k": {"metadata": {"other": 1}}}, "b": {"k": {"other": 1}}});
        assert_eq!(prune(&schema, &mut object), ["b.k.other", "a[k].metadata.other"]);
    }

    #[test]
    fn defaults_lose_unknown_metadata_of_embedded_resources() {
        let resource = json!({"type": "object", "x-kubernetes-embedded-resource": true});
        let schema = |metadata| {
            json!({
                "type": "object",
                "properties": {
                    "a": {"type": "object", "additionalProperties": resource, "default": {"k": {"metadata": metadata}}},
                    "list": {"type": "array", "items": resource, "default": [{"metadata": metadata}]},
                    "nested": {"type": "object", "properties": {"r": resource}, "default": {"r": {"metadata": metadata}}},
                    "plain": {"type": "object", "default": {"metadata": {"other": 1}}},
                },
            })
        };
        let mut pruned = schema(json!({"name": "n", "other": 1}));
        prune_schema_defaults(&mut pruned);
        assert_eq!(pruned, schema(json!({"name": "n"})));
    }

    #[test]
    fn nested_defaults_with_metadata_prune_in_linear_time() {
        let prunes = |levels: usize| {
            let properties: pintle_json::Map = (0..20 * levels).map(|at| (format!("p{at}"), json!({}))).collect();
            let mut schema = json!({"type": "object", "properties": properties});
            for _ in 0..levels {
                let items = std::mem::replace(&mut schema, json!({"type": "array", "default": [{"metadata": 0}]}));
                schema.set("items", items);
            }
            prune_schema_defaults(&mut schema);
            assert_eq!(schema["default"], json!([{"metadata": 0}]));
        };
        assert!(is_linear(25, prunes));
    }
}
