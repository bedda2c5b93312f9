//! How deep objects may nest.

use pintle_json::Json;
use pintle_meta::Reason;

use crate::failure::{Failure, Outcome, details};
use crate::kinds::Kind;
use crate::object::metadata;

/// So many lists and objects may stand one in another in a stored object, with its managed fields: these nest deeper than what
/// they tell of. Readers of JSON, this server among them, often take 127, and a watch of tables lays four around each object.
const DEEPEST_STORED: usize = 120;

/// Refuses an object that would nest too deeply to be read once it is served.
pub(super) fn check(kind: &Kind, object: &Json) -> Outcome<()> {
    if fits(object, DEEPEST_STORED) {
        return Ok(());
    }
    let (resource, name) = (kind.resource(), metadata::name(object));
    let message = format!(
        "{resource} {name:?} is invalid: with its managed fields, which nest deeper than the fields they tell of, it may nest at \
         most {DEEPEST_STORED} lists and objects in one another"
    );
    Err(Failure::new(422, Reason::Invalid, message).with(details(&resource.group, &kind.kind, name)))
}

/// Whether no more than `room` containers stand one in another. It goes no deeper than that.
fn fits(value: &Json, room: usize) -> bool {
    match value {
        Json::Object(members) => room > 0 && members.values().all(|value| fits(value, room - 1)),
        Json::Array(items) => room > 0 && items.iter().all(|item| fits(item, room - 1)),
        _ => true,
    }
}
