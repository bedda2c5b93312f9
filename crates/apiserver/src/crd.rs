//! Custom resource definitions and the kinds that they define.
//!
//! [`settle`] corresponds to kube-apiserver's naming and establishing controllers: it accepts names and establishes definitions.
//! [`kinds`] converts an established definition to [`Kind`]s. The strategy of these kinds prunes, defaults and validates objects with the
//! definition's schema.

mod allowed;
mod approval;
mod columns;
mod custom_resource;
mod custom_strategy;
mod default;
mod definition;
mod definition_errors;
mod embedded;
mod field_path;
mod formats;
pub(crate) mod json_path;
mod naming;
mod pattern;
mod prune;
mod ratchet;
mod rules;
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
pub use definition_errors::rules::RuleCost;
pub(crate) use definition_errors::rules::costs as rule_costs;
pub(crate) use naming::{Taken, has_accepted_names, settle};

use crate::kinds::{GroupResource, Kind, Kinds};
use crate::object::holds;
use crate::store::Order;

/// Returns the built-in kinds. In the result, the kind CustomResourceDefinition has the strategy of this module.
pub(crate) fn with_definition_strategy(builtin: Kinds) -> Kinds {
    builtin.with_strategy("apiextensions.k8s.io", "CustomResourceDefinition", &(Arc::new(Definition) as _))
}

/// The name under which the store keeps the definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Returns the name of the definition that defines this kind.
pub(crate) fn name(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// The prefix of the names under which custom resources are stored.
const CUSTOM: &str = "custom/";

/// Returns the group and the plural name that a definition defines, even if the resource is not served.
pub(crate) fn resource(definition: &Json) -> GroupResource {
    GroupResource::new(definition.text("/spec/group"), definition.text("/spec/names/plural"))
}

/// Returns the name under which the objects of a definition are stored. No built-in kind has this name.
pub(crate) fn store(group: &str, plural: &str) -> crate::kinds::GroupResource {
    crate::kinds::GroupResource::new(group, format!("{CUSTOM}{plural}"))
}

/// Returns the order of the members of an object, for objects that the store keeps under this name.
pub(crate) fn order(stored: &str) -> Order {
    if stored.starts_with(CUSTOM) { Order::Sorted } else { Order::Declared }
}

/// Returns whether a definition's objects are served.
pub(crate) fn is_established(definition: &Json) -> bool {
    holds(definition, "Established")
}

/// Returns whether a definition is being deleted.
pub(crate) fn is_terminating(definition: &Json) -> bool {
    definition.has("/metadata/deletionTimestamp")
}

/// Returns the storage versions. A valid definition has exactly one storage version.
fn storage_versions(definition: &Json) -> impl Iterator<Item = &str> {
    let stored = definition.list("/spec/versions").filter(|version| version.is_true("/storage"));
    stored.map(|version| version.text("/name"))
}

/// Returns a hash of the value. Never returns 0, because 0 means "no hash".
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}
