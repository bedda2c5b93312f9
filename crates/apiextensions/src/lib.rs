//! Custom resource definitions, and the kinds that they define.
//!
//! This crate is a part of `pintle-apiserver` and has **no stability promise**. Use `pintle-apiserver` instead.
//!
//! - [`settle`] corresponds to kube-apiserver's naming and establishing controllers: it accepts names and establishes definitions.
//! - [`kinds`] converts an established definition to [`Kind`]s. The strategy of these kinds prunes, defaults and validates objects with the
//!   schema of the definition, and evaluates the CEL rules in the schema.
//! - [`with_definition_strategy`] adds the strategy for the definitions themselves.
//! - [`rule_costs`] estimates the costs of the CEL rules ([`RuleCost`]).
//!
//! The crate does not access a store, and it does not run controllers. Start with `custom_strategy.rs`.
//!
//! ```
//! use pintle_json::json;
//!
//! let definition = json!({"spec": {"group": "example.com", "names": {"plural": "widgets"}}});
//! assert_eq!(pintle_apiextensions::resource(&definition).to_string(), "widgets.example.com");
//! assert!(!pintle_apiextensions::is_established(&definition));
//! ```

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
pub mod json_path;
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

pub use custom_resource::{kinds, stored_kind};
pub use definition::CLEANUP;
pub use definition_errors::rules::RuleCost;
pub use definition_errors::rules::costs as rule_costs;
pub use naming::{Taken, has_accepted_names, settle};
use pintle_apimachinery::object::holds;
use pintle_kinds::{Kind, Kinds};
use pintle_meta::GroupResource;
use pintle_store::MemberOrder as Order;

/// Returns the built-in kinds. In the result, the kind CustomResourceDefinition has the strategy from this crate.
pub fn with_definition_strategy(builtin: Kinds) -> Kinds {
    builtin.with_strategy("apiextensions.k8s.io", "CustomResourceDefinition", &(Arc::new(Definition) as _))
}

/// The name under which the store keeps the definitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Returns the name of the definition that defines this kind.
pub fn name(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

/// The prefix of the names under which custom resources are stored.
const CUSTOM: &str = "custom/";

/// Returns the group and the plural name that a definition defines, even if the resource is not served.
pub fn resource(definition: &Json) -> GroupResource {
    GroupResource::new(definition.text("/spec/group"), definition.text("/spec/names/plural"))
}

/// Returns the name under which the objects of a definition are stored. No built-in kind has this name.
pub fn store(group: &str, plural: &str) -> pintle_meta::GroupResource {
    pintle_meta::GroupResource::new(group, format!("{CUSTOM}{plural}"))
}

/// Returns the order of the members in the objects that are stored under the name `stored`.
pub fn order(stored: &str) -> Order {
    if stored.starts_with(CUSTOM) { Order::Sorted } else { Order::Declared }
}

/// Returns whether a definition's objects are served.
pub fn is_established(definition: &Json) -> bool {
    holds(definition, "Established")
}

/// Returns whether a definition is being deleted.
pub fn is_terminating(definition: &Json) -> bool {
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
