//! How much the items of keyed lists take from the defaults of their keys.

use pintle_json::Json;
use pintle_schema::{Topology, Type};

use super::compare::{keyed, member};

/// So many bytes of defaults stand in the steps to the items of one object. With all of them filled in it is too large to be stored.
const MOST_DEFAULTS: usize = 32 << 20;

/// Whether the steps to the items of an object can be held. Each has the defaults of all keys that its item leaves out, so that a few
/// bytes of an object could ask for any number.
pub(super) fn are_few(of: &Type, object: &Json) -> bool {
    take(of, object, &mut { MOST_DEFAULTS }).is_some()
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

/// What a default takes in memory, about. It is a single value.
fn weight(default: &Json) -> usize {
    2 * size_of::<Json>() + default.as_str().map_or(0, str::len)
}
