//! Limits the memory for the default values of list keys. Paths of list items contain these default values.

use pintle_json::Json;
use pintle_schema::{Topology, Type};

use super::compare::{keyed, member};

/// The maximum total size of the default values in the paths of one object, in bytes. The server cannot store an object that exceeds this
/// limit, because the object is too large.
const MAX_DEFAULTS: usize = 32 << 20;

/// Returns whether the default values in the paths of an object's list items need at most the allowed memory. The path of a list item
/// contains the default value of each key field that the item omits. Without a limit, the paths of a small object could need an unbounded
/// amount of memory.
pub(super) fn is_within_limit(of: &Type, object: &Json) -> bool {
    take(of, object, &mut { MAX_DEFAULTS }).is_some()
}

fn take(of: &Type, value: &Json, left: &mut usize) -> Option<()> {
    match value {
        Json::Object(members) => members.iter().try_for_each(|(name, value)| take(member(of, name), value, left)),
        Json::Array(items) => {
            let Some(list) = keyed(of) else { return Some(()) };
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

/// Returns the approximate memory that a default value needs, in bytes. The default value of a list key is always a scalar.
fn weight(default: &Json) -> usize {
    2 * size_of::<Json>() + default.as_str().map_or(0, str::len)
}
