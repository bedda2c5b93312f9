//! The limit of nesting in objects.

use pintle_json::Json;
use pintle_meta::Reason;

use crate::failure::{Failure, Outcome, details};
use crate::kinds::Kind;
use crate::object::metadata;

/// The maximum nesting of lists and objects in a stored object. The limit also applies to managed fields, which nest
/// deeper than the fields that they describe. Many JSON parsers, including the parser of this server, accept 127
/// levels. A watch of tables adds four levels around each object.
const MAX_STORED_DEPTH: usize = 120;

/// Returns an error if the object, in the form in which it is served, would nest too deeply for JSON parsers.
pub(super) fn check(kind: &Kind, object: &Json) -> Outcome<()> {
    if fits(object, MAX_STORED_DEPTH) {
        return Ok(());
    }
    let (resource, name) = (kind.resource(), metadata::name(object));
    let message = format!(
        "{resource} {name:?} is invalid: including its managed fields, which nest deeper than the fields they describe, it may nest at \
         most {MAX_STORED_DEPTH} lists and objects in one another"
    );
    Err(Failure::new(422, Reason::Invalid, message).with(details(&resource.group, &kind.kind, name)))
}

/// Returns whether `value` has at most `levels` levels of nesting. The recursion depth is at most `levels`.
fn fits(value: &Json, levels: usize) -> bool {
    match value {
        Json::Object(members) => levels > 0 && members.values().all(|value| fits(value, levels - 1)),
        Json::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        _ => true,
    }
}
