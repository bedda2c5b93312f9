//! Finds the values that an update does not change. Errors in unchanged values do not make the update fail.

use std::collections::HashMap;

use pintle_json::Json;

use super::structural::Structural;

/// Returns `true` if kube-apiserver considers a value equal to its old value, under these rules:
///
/// - An object with a member that the schema does not declare always counts as changed.
/// - The order of the items in a list map does not matter.
pub(super) fn is_unchanged(schema: &Structural, new: &Json, old: &Json) -> bool {
    match (new, old) {
        (Json::Object(new), Json::Object(old)) => {
            let is_same = |name: &str, value: &Json| match (schema.member(name), old.get(name)) {
                (Some(schema), Some(old)) => is_unchanged(schema, value, old),
                _ => false,
            };
            new.len() == old.len() && new.iter().all(|(name, value)| is_same(name, value))
        }
        (Json::Array(new), Json::Array(old)) if schema.list_type == "map" => {
            let before = by_keys(schema, old);
            let is_same = |item: &Json| match (&schema.items, before.get(&keys(schema, item))) {
                (Some(schema), Some(old)) => is_unchanged(schema, item, old),
                _ => false,
            };
            new.len() == old.len() && new.iter().all(is_same)
        }
        (new, old) => new == old,
    }
}

pub(super) fn keys(list: &Structural, item: &Json) -> String {
    let keys = list.list_map_keys.iter().map(|key| item.get(key).map(Json::to_string));
    keys.map(|key| key.unwrap_or_default() + "\n").collect()
}

/// Returns a map from list map keys to list items. Of several items with the same keys, the map contains only the
/// first.
pub(super) fn by_keys<'a>(list: &Structural, items: &'a [Json]) -> HashMap<String, &'a Json> {
    items.iter().rev().map(|item| (keys(list, item), item)).collect()
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::pattern::Patterns;
    use super::*;

    fn read(schema: &Json) -> Structural {
        Structural::read(schema, &mut Patterns::default())
    }

    #[test]
    fn undeclared_members_are_never_unchanged() {
        let declared = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let list = json!({"type": "array", "items": open});
        for (schema, value, expected) in [
            (&declared, json!({"a": "x"}), true),
            (&declared, json!({}), true),
            (&open, json!({}), true),
            (&open, json!({"a": "x"}), false),
            (&map, json!({"a": "x"}), true),
            (&list, json!([{"a": "x"}]), true),
        ] {
            assert_eq!(is_unchanged(&read(schema), &value, &value), expected, "{schema} {value}");
        }
    }

    #[test]
    fn order_matters_except_in_list_maps() {
        let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
        let list = |kind: &str| json!({"type": "array", "items": item, "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["k"]});
        let (old, new) = (json!([{"k": "a", "v": 1}, {"k": "b"}]), json!([{"k": "b"}, {"k": "a", "v": 1}]));
        let changed = json!([{"k": "b"}, {"k": "a", "v": 2}]);
        assert!(is_unchanged(&read(&list("map")), &new, &old));
        assert!(!is_unchanged(&read(&list("map")), &changed, &old));
        assert!(!is_unchanged(&read(&list("atomic")), &new, &old));
    }
}
