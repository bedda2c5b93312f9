//! Limits the memory for the default values of list keys, which are part of the paths of list items.

use pintle_json::Json;
use pintle_schema::{Topology, Type};

use super::compare::{associative_list, member};

/// The maximum total size of the default values in the paths of one object, in bytes. The server could not store an
/// object with larger defaults.
const MAX_DEFAULTS: usize = 32 << 20;

/// Returns `true` if the default values in the paths of all list items are within the limit. The path of a list item
/// contains the default value of each omitted key field. Without a limit, the paths of a small object could use an
/// unbounded amount of memory.
pub(super) fn is_within_limit(ty: &Type, object: &Json) -> bool {
    count_defaults(ty, object, &mut { MAX_DEFAULTS }).is_some()
}

fn count_defaults(ty: &Type, value: &Json, remaining: &mut usize) -> Option<()> {
    match value {
        Json::Object(members) => {
            members.iter().try_for_each(|(name, value)| count_defaults(member(ty, name), value, remaining))
        }
        Json::Array(items) => {
            let Some(list) = associative_list(ty) else { return Some(()) };
            let keys = if let Topology::Keyed(keys) = &list.topology { &keys[..] } else { &[] };
            let defaults: Vec<_> = keys
                .iter()
                .filter_map(|key| Some((&key.name, key.name.len() + weight(key.default.as_ref()?))))
                .collect();
            items.iter().try_for_each(|item| {
                for (_, weight) in defaults.iter().filter(|(name, _)| item.get(name).is_none()) {
                    *remaining = remaining.checked_sub(*weight)?;
                }
                count_defaults(&list.item, item, remaining)
            })
        }
        _ => Some(()),
    }
}

/// Returns the approximate memory size of a default value, in bytes. The default value of a list key is always a
/// scalar.
fn weight(default: &Json) -> usize {
    2 * size_of::<Json>() + default.as_str().map_or(0, str::len)
}
