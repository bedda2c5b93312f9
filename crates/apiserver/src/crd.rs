//! Custom resource definitions, and the kinds that they make.
//!
//! [`settle`] does what the controllers of a real server do with definitions: it accepts names and establishes. [`kinds`] turns an
//! established definition into [`Kind`](crate::kinds::Kind)s, whose strategy prunes, defaults and validates by the definition's schema.

mod at;
mod columns;
mod custom_resource;
mod default;
mod definition;
mod definition_faults;
mod embedded;
mod formats;
pub(crate) mod json_path;
mod naming;
mod pattern;
mod prune;
mod structural;
#[cfg(test)]
mod tests;
mod validator;

use std::sync::Arc;

use definition::Definition;
use pintle_json::Json;

pub(crate) use custom_resource::kinds;
pub(crate) use naming::{set_condition, settle};

use crate::kinds::{GroupResource, Kind, Kinds};
use crate::object::{has, holds, text_at};

/// The built-in kinds, with what this module says of definitions.
pub(crate) fn ruled(builtin: Kinds) -> Kinds {
    builtin.ruled("apiextensions.k8s.io", "CustomResourceDefinition", &(Arc::new(Definition) as _))
}

/// Where definitions are stored.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What the definition of a custom resource is called.
pub(crate) fn name(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// What the names begin with under which custom resources are stored.
const CUSTOM: &str = "custom/";

/// The group and plural that a definition is about, whatever it is in the registry now.
pub(crate) fn resource(definition: &Json) -> GroupResource {
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
pub(crate) fn is_established(definition: &Json) -> bool {
    holds(definition, "Established")
}

/// Whether a definition is being deleted.
pub(crate) fn is_terminating(definition: &Json) -> bool {
    has(definition, "/metadata/deletionTimestamp")
}
