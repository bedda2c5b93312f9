//! Limits how deeply objects can be nested.

use pintle_apimachinery::failure::{Failure, Outcome, details};
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_meta::Reason;

use crate::Kind;

/// The maximum nesting depth of lists and objects in a stored object. This limit also applies to managed fields, although they are nested
/// deeper than the fields that they describe. Many JSON parsers, including the parser of this server, accept 127 levels. If a watch sends
/// tables, each object is nested four levels deeper than in the store.
const MAX_STORED_DEPTH: usize = 120;

/// Returns an error if the served form of the object is nested so deeply that common JSON parsers reject it.
pub fn check(kind: &Kind, object: &Json) -> Outcome<()> {
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
