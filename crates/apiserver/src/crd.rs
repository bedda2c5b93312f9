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
mod pattern;
mod prune;
mod resource;
mod structural;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use definition::Definition;
use serde_json::Value;

pub(crate) use names::{condition, set_condition, settle};
pub(crate) use resource::kinds;

use crate::kinds::{GroupResource, Kinds};
use crate::object::{has, text_at};

/// What of a custom resource has no effect, and why. Those who write objects that such a rule is about are warned.
pub(crate) const RULES: (&str, &str) =
    ("x-kubernetes-validations in the schemas of custom resources", "this server evaluates no CEL rules");

/// The built-in kinds, with what this module says of definitions.
pub(crate) fn ruled(builtin: Kinds) -> Kinds {
    builtin.ruled("apiextensions.k8s.io", "CustomResourceDefinition", &(Arc::new(Definition) as _))
}

/// What the names begin with under which custom resources are stored.
const CUSTOM: &str = "custom/";

/// The group and plural that a definition is about, whatever it is in the registry now.
pub(crate) fn resource(definition: &Value) -> GroupResource {
    GroupResource::new(text_at(definition, "/spec/group"), text_at(definition, "/spec/names/plural"))
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
pub(crate) fn is_established(definition: &Value) -> bool {
    condition(definition, "Established").is_some_and(|condition| text_at(condition, "/status") == "True")
}

/// Whether a definition is being deleted.
pub(crate) fn is_terminating(definition: &Value) -> bool {
    has(definition, "/metadata/deletionTimestamp")
}
