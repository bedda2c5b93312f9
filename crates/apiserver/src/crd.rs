//! Custom resource definitions, and the kinds that they make.
//!
//! [`settle`] does what the controllers of a real server do with definitions: it accepts names and establishes. [`kinds`] turns an
//! established definition into [`Kind`]s, whose strategy prunes, defaults and validates by the definition's schema.

mod allowed;
mod approval;
mod at;
mod columns;
mod custom_resource;
mod custom_strategy;
mod default;
mod definition;
mod definition_errors;
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
mod weight;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use definition::Definition;
use pintle_json::Json;

pub(crate) use custom_resource::{kinds, stored_kind};
pub(crate) use definition::CLEANUP;
pub(crate) use naming::{Taken, has_its_names, settle};

use crate::kinds::{GroupResource, Kind, Kinds};
use crate::object::holds;
use crate::store::Order;

/// The built-in kinds, with what this module says of definitions.
pub(crate) fn ruled(builtin: Kinds) -> Kinds {
    builtin.with_strategy("apiextensions.k8s.io", "CustomResourceDefinition", &(Arc::new(Definition) as _))
}

/// Under which name definitions are stored.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What the definition of a custom resource is called.
pub(crate) fn name(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// What the names begin with under which custom resources are stored.
const CUSTOM: &str = "custom/";

/// The group and plural that a definition is about, whatever it is in the registry now.
pub(crate) fn resource(definition: &Json) -> GroupResource {
    GroupResource::new(definition.text("/spec/group"), definition.text("/spec/names/plural"))
}

/// Under which name the objects of a definition are stored: never that of a built-in kind, whatever the definition calls them.
pub(crate) fn store(group: &str, plural: &str) -> crate::kinds::GroupResource {
    crate::kinds::GroupResource::new(group, format!("{CUSTOM}{plural}"))
}

/// The order of the members of objects that are stored under that name.
pub(crate) fn order(stored: &str) -> Order {
    if stored.starts_with(CUSTOM) { Order::Sorted } else { Order::Declared }
}

/// Whether a definition's objects are served.
pub(crate) fn is_established(definition: &Json) -> bool {
    holds(definition, "Established")
}

/// Whether a definition is being deleted.
pub(crate) fn is_terminating(definition: &Json) -> bool {
    definition.has("/metadata/deletionTimestamp")
}

/// The versions that say to be stored: one, in a valid definition.
fn storage_versions(definition: &Json) -> impl Iterator<Item = &str> {
    let stored = definition.list("/spec/versions").filter(|version| version.is_true("/storage"));
    stored.map(|version| version.text("/name"))
}

/// 0 stands for none.
fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish().max(1)
}
