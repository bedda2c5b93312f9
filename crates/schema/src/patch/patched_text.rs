//! The text of a patched object in error messages.
//!
//! Go's patch library parses only the objects that the patch changes. It writes these objects with sorted members.
//! All other objects keep the order of their Go fields.

use std::fmt::Write;

use pintle_json::{Json, Map};

use crate::types::{Struct, Type};

/// Writes a patched object. `touched` is a tree with the members that the patch library parsed.
pub(super) fn patched_text(patched: &Json, touched: &Json, ty: &Type) -> String {
    let mut out = String::new();
    write_value(patched, Some(touched), Some(ty), &mut out);
    out
}

/// Writes a value with the members of all objects in the order of the Go fields.
pub(crate) fn go_ordered(value: &Json, ty: &Type) -> String {
    let mut out = String::new();
    write_value(value, None, Some(ty), &mut out);
    out
}

/// Adds the objects along a JSON pointer to the tree of touched objects. If `is_value` is true, the pointer leads to a
/// value from the patch.
pub(super) fn touch(tree: &mut Json, pointer: &str, is_value: bool) {
    let Some((parents, last)) = pointer.rsplit_once('/') else { return };
    let name = |segment: &str| segment.replace("~1", "/").replace("~0", "~");
    let mut at = tree;
    for segment in parents.split('/').skip(1) {
        let Json::Object(members) = at else { return };
        at = members.entry(name(segment)).or_insert_with(|| Json::Object(Map::new()));
    }
    if let (Json::Object(members), true) = (at, is_value) {
        members.insert(name(last).as_str(), Json::Bool(true));
    }
}

fn write_value(value: &Json, touched: Option<&Json>, ty: Option<&Type>, out: &mut String) {
    // A value from the patch keeps the order of the patch, which is unknown here. The members are written sorted.
    let (touched, ty) = match touched {
        Some(Json::Object(_)) | None => (touched, ty),
        Some(_) => (None, None),
    };
    match value {
        Json::Object(members) => write_object(members, touched.and_then(Json::as_object), ty, out),
        Json::Array(items) => {
            let item_type = match ty {
                Some(Type::List(list)) => Some(&list.item),
                _ => None,
            };
            let touched = touched.and_then(Json::as_object);
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let touched = touched.and_then(|tree| tree.get(&at.to_string()));
                write_value(item, touched, item_type, out);
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

fn write_object(members: &Map, touched: Option<&Map>, ty: Option<&Type>, out: &mut String) {
    let declared = match ty {
        Some(Type::Struct { struct_type, .. }) => Some(&**struct_type),
        _ => None,
    };
    let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    if let (None, Some(declared)) = (touched, declared) {
        names.sort_by_key(|name| declared.field_index(name).unwrap_or(usize::MAX));
    }
    out.push('{');
    for (at, name) in names.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let _ = write!(out, "{}:", Json::from(name));
        write_value(&members[name], touched.and_then(|tree| tree.get(name)), member_type(name, declared, ty), out);
    }
    out.push('}');
}

fn member_type<'a>(name: &str, declared: Option<&'a Struct>, ty: Option<&'a Type>) -> Option<&'a Type> {
    match (declared, ty) {
        (Some(declared), _) => declared.field(name).map(|field| &field.ty).or(declared.rest.as_ref()),
        (None, Some(Type::Map(map))) => Some(&map.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::PatchBody;
    use crate::Schema;

    fn text(patch: &PatchBody) -> String {
        let schema = Schema::builtin("v1", "ConfigMap").unwrap();
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"},
            "generation": 1, "uid": "u", "managedFields": [{"apiVersion": "v1", "manager": "m", "operation": "Update"}]}});
        let patched = patch.apply(&live, &schema).unwrap();
        patch.patched_text(&patched, &schema)
    }

    const OWNERS: &str = r#"[{"manager":"m","operation":"Update","apiVersion":"v1"}]"#;

    #[test]
    fn unchanged_objects_keep_the_order_of_go() {
        let expected = format!(
            r#"{{"apiVersion":"v9","kind":"ConfigMap","metadata":{{"name":"a","uid":"u","generation":1,"labels":{{"x":"y"}},"managedFields":{OWNERS}}}}}"#
        );
        assert_eq!(text(&PatchBody::merge(br#"{"apiVersion":"v9"}"#, true).unwrap()), expected);
    }

    #[test]
    fn values_from_the_patch_are_sorted() {
        let owner = r#"[{"apiVersion":"v1","controller":true,"kind":1,"name":"n","uid":"u"}]"#;
        let pointer = "/metadata/ownerReferences";
        let json = format!(r#"[{{"op":"add","path":"{pointer}","from":"/metadata/labels/x","value":{owner}}}]"#);
        for patch in [
            PatchBody::merge(format!(r#"{{"metadata":{{"ownerReferences":{owner}}}}}"#).as_bytes(), true),
            PatchBody::json(json.as_bytes()),
        ] {
            assert!(text(&patch.unwrap()).contains(&format!(r#""ownerReferences":{owner}"#)));
        }
    }

    #[test]
    fn objects_along_a_pointer_are_sorted() {
        let expected = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"generation":1,"labels":{{"a":1}},"managedFields":{OWNERS},"name":"a","uid":"u"}}}}"#
        );
        let patch = PatchBody::json(br#"[{"op":"add","path":"/metadata/labels","value":{"a":1}}]"#);
        assert_eq!(text(&patch.unwrap()), expected);
    }
}
