//! Limits the memory for default values of list keys, which the paths of list items contain.

use pintle_json::Json;
use pintle_schema::{Topology, Type};

use super::compare::{keyed, member};

/// The maximum total size of the default values in the paths of one object, in bytes. An object
/// that exceeds this size is too large for the server to store.
const MAX_DEFAULTS: usize = 32 << 20;

/// Returns `true` if the default values in the paths of an object's list items stay within the
/// limit. A list item's path contains the default value of each key field that the item omits.
/// Without a limit, the paths of a small object could need an unbounded amount of memory.
pub(super) fn is_within_limit(ty: &Type, object: &Json) -> bool {
    take(ty, object, &mut { MAX_DEFAULTS }).is_some()
}

fn take(ty: &Type, value: &Json, left: &mut usize) -> Option<()> {
    match value {
        Json::Object(members) => members.iter().try_for_each(|(name, value)| take(member(ty, name), value, left)),
        Json::Array(items) => {
            let Some(list) = keyed(ty) else { return Some(()) };
            let keys = if let Topology::Keyed(keys) = &list.topology { &keys[..] } else { &[] };
            let defaults: Vec<_> = keys
                .iter()
                .filter_map(|key| Some((&key.name, key.name.len() + weight(key.default.as_ref()?))))
                .collect();
            items.iter().try_for_each(|item| {
                for (_, weight) in defaults.iter().filter(|(name, _)| item.get(name).is_none()) {
                    *left = left.checked_sub(*weight)?;
                }
                take(&list.item, item, left)
            })
        }
        _ => Some(()),
    }
}

/// Returns a default value's approximate memory size, in bytes. The default value of a list key is always a scalar.
fn weight(default: &Json) -> usize {
    2 * size_of::<Json>() + default.as_str().map_or(0, str::len)
}
