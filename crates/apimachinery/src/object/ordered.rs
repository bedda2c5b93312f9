//! Serializes objects with their members in Go's order.

use pintle_json::Json;
use pintle_store::{METADATA, OBJECT};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// An object that is serialized with the members kind, apiVersion and metadata first. The members of the metadata
/// also have a fixed order.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<'a>(pub &'a Json);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Json::Object(members) = self.0 else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(members.len()))?;
        for name in OBJECT {
            match members.get(name) {
                Some(metadata) if name == "metadata" => map.serialize_entry(name, &First(metadata, &METADATA))?,
                Some(value) => map.serialize_entry(name, value)?,
                None => (),
            }
        }
        for (name, value) in members.iter().filter(|(name, _)| !OBJECT.contains(&name.as_str())) {
            match name.as_str() {
                "items" | "rows" => map.serialize_entry(name, &OrderedItems(value))?,
                "resources" => map.serialize_entry(name, &DiscoveredResources(value))?,
                "object" => map.serialize_entry(name, &Ordered(value))?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

struct OrderedItems<'a>(&'a Json);

impl Serialize for OrderedItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Json::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            other => other.serialize(serializer),
        }
    }
}

/// The members of a resource in a discovery document, in serialization order.
const DISCOVERED_RESOURCE: &[&str] =
    &["name", "singularName", "namespaced", "group", "version", "kind", "verbs", "shortNames", "categories"];

struct DiscoveredResources<'a>(&'a Json);

impl Serialize for DiscoveredResources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Json::Array(items) => serializer.collect_seq(items.iter().map(|item| First(item, DISCOVERED_RESOURCE))),
            other => other.serialize(serializer),
        }
    }
}

/// Serializes an object with the given members first.
struct First<'a>(&'a Json, &'a [&'a str]);

impl Serialize for First<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(Json::Object(members), first) = self else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(members.len()))?;
        for name in *first {
            if let Some(value) = members.get(name) {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in members.iter().filter(|(name, _)| !first.contains(&name.as_str())) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn metadata_comes_first_with_its_members_in_order() {
        let object = json!({
            "data": {"b": 1, "a": 2},
            "metadata": {"uid": "u", "ownerReferences": [], "name": "n", "odd": 1},
            "apiVersion": "v1",
            "kind": "ConfigMap",
        });
        let text = serde_json::to_string(&Ordered(&object)).unwrap();
        let expected = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n","uid":"u","ownerReferences":[],"odd":1},"data":{"a":2,"b":1}}"#;
        assert_eq!(text, expected);
        let list = json!({"resources": [{"kind": "K", "name": "ks", "storageVersionHash": "h", "verbs": [], "namespaced": true}]});
        let expected =
            r#"{"resources":[{"name":"ks","namespaced":true,"kind":"K","verbs":[],"storageVersionHash":"h"}]}"#;
        assert_eq!(serde_json::to_string(&Ordered(&list)).unwrap(), expected);
        let list = json!({"items": [{"spec": 1, "metadata": {"uid": 1, "name": 2}}]});
        let text = serde_json::to_string(&Ordered(&list)).unwrap();
        assert_eq!(text, r#"{"items":[{"metadata":{"name":2,"uid":1},"spec":1}]}"#);
    }
}
