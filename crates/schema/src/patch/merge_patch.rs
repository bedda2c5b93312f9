//! JSON merge patches (RFC 7386).

use pintle_json::Json;

/// Applies a merge patch. A null in the patch deletes a member, and a list in the patch replaces the old list. Null
/// members of new objects are dropped, but nulls in lists are kept.
pub fn merge(object: &Json, patch: &Json) -> Json {
    let mut merged = object.clone();
    apply(&mut merged, patch);
    merged
}

fn apply(object: &mut Json, patch: &Json) {
    let (Json::Object(members), Json::Object(patch)) = (&mut *object, patch) else {
        let mut new = patch.clone();
        if !object.is_object() {
            drop_nulls(&mut new);
        }
        *object = new;
        return;
    };
    for (name, value) in patch {
        match members.get_mut(name) {
            _ if value.is_null() => drop(members.remove(name)),
            Some(old) if !old.is_null() => apply(old, value),
            _ => {
                let mut new = value.clone();
                drop_nulls(&mut new);
                members.insert(name.clone(), new);
            }
        }
    }
}

/// Drops the null members of an object and of all nested objects, including objects in lists.
pub(super) fn drop_nulls(value: &mut Json) {
    match value {
        Json::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Json::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
