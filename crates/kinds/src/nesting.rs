//! Limits the nesting of objects.

use pintle_apimachinery::failure::{Failure, Outcome, details};
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_meta::Reason;

use crate::Kind;

/// The maximum nesting depth of a stored object. The depth of an object includes its managed fields, which are nested
/// deeper than the fields that they describe. Many JSON parsers, including the parser of this server, accept 127
/// levels. A table in a watch event adds four levels around the object.
const MAX_STORED_DEPTH: usize = 120;

/// Returns an error if the served object is nested too deeply for common JSON parsers.
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

/// Returns `true` if `value` has at most `levels` nesting levels. Recurses at most `levels` times, to protect the
/// stack.
fn fits(value: &Json, levels: usize) -> bool {
    match value {
        Json::Object(members) => levels > 0 && members.values().all(|value| fits(value, levels - 1)),
        Json::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        _ => true,
    }
}
