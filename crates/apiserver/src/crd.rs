//! Custom resource definitions, and the kinds that they make.
//!
//! [`settle`] does what the controllers of a real server do with definitions: it accepts names and establishes. [`kinds`] turns an
//! established definition into [`Kind`](crate::kinds::Kind)s, whose strategy prunes, defaults and validates by the definition's schema.

mod at;
mod check;
mod columns;
mod default;
mod definition;
mod embedded;
mod formats;
mod names;
mod path;
mod prune;
mod resource;
mod structural;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::Value;

pub(crate) use definition::Definition;
pub use names::{condition, set_condition, settle};
pub use resource::kinds;

use crate::kinds::edit::{has, text_at};

/// What the names begin with under which custom resources are stored.
const CUSTOM: &str = "custom/";

/// The group and plural that a definition is about, whatever it is in the registry now.
pub fn resource(definition: &Value) -> crate::kinds::GroupResource {
    crate::kinds::GroupResource::new(text_at(definition, "/spec/group"), text_at(definition, "/spec/names/plural"))
}

/// Under which name the objects of a definition are stored: never that of a built-in kind, whatever the definition calls them.
pub(crate) fn store(group: &str, plural: &str) -> crate::kinds::GroupResource {
    crate::kinds::GroupResource::new(group, format!("{CUSTOM}{plural}"))
}

/// Whether objects that are stored under that name are custom resources.
pub(crate) fn is_custom(stored: &str) -> bool {
    stored.starts_with(CUSTOM)
}

/// Whether a definition's objects are served.
pub fn is_established(definition: &Value) -> bool {
    condition(definition, "Established").is_some_and(|condition| text_at(condition, "/status") == "True")
}

/// Whether a definition is being deleted.
pub fn is_terminating(definition: &Value) -> bool {
    has(definition, "/metadata/deletionTimestamp")
}
