//! Custom resource definitions, and the kinds that they define.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`settle`] accepts the names of a definition and establishes the definition, like kube-apiserver's naming and
//!   establishing controllers.
//! - [`kinds`] converts an established definition to [`Kind`]s. The strategy of these kinds prunes, defaults and
//!   validates objects with the definition's schema, and evaluates the schema's CEL rules.
//! - [`with_definition_strategy`] adds the strategy of the kind CustomResourceDefinition.
//! - [`rule_costs`] estimates the costs of CEL rules ([`RuleCost`]).
//!
//! The crate does not access a store and does not run controllers. To read the code, start with `custom_strategy.rs`.
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
mod duplicates;
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

pub use custom_resource::{kinds, storage_version_kind};
pub use definition::CLEANUP;
pub use definition_errors::rules::RuleCost;
pub use definition_errors::rules::costs as rule_costs;
pub use naming::{Taken, has_accepted_names, settle};
use pintle_apimachinery::object::holds;
use pintle_kinds::{Kind, Kinds};
use pintle_meta::GroupResource;
use pintle_store::MemberOrder as Order;

/// Sets this crate's strategy for the kind CustomResourceDefinition.
pub fn with_definition_strategy(builtin: Kinds) -> Kinds {
    builtin.with_strategy("apiextensions.k8s.io", "CustomResourceDefinition", &(Arc::new(Definition) as _))
}

/// The store name of CustomResourceDefinitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Returns the name of a kind's definition.
pub fn name(kind: &Kind) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

const CUSTOM: &str = "custom/";

/// Returns a definition's group and plural name, even if the definition is not served.
pub fn resource(definition: &Json) -> GroupResource {
    GroupResource::new(definition.text("/spec/group"), definition.text("/spec/names/plural"))
}

/// Returns the store name of a definition's custom resources, which differs from the store names of all built-in kinds.
pub fn stored_as(group: &str, plural: &str) -> pintle_meta::GroupResource {
    pintle_meta::GroupResource::new(group, format!("{CUSTOM}{plural}"))
}

/// Returns the order of the members of objects with the store name `stored_as`.
pub fn member_order(stored_as: &str) -> Order {
    if stored_as.starts_with(CUSTOM) { Order::Sorted } else { Order::Declared }
}

/// Returns `true` if the definition is established, which means that the server serves its objects.
pub fn is_established(definition: &Json) -> bool {
    holds(definition, "Established")
}

/// Returns `true` if the definition is being deleted.
pub fn is_terminating(definition: &Json) -> bool {
    definition.has("/metadata/deletionTimestamp")
}

/// Returns the storage versions of a definition. A valid definition has exactly one storage version.
fn storage_versions(definition: &Json) -> impl Iterator<Item = &str> {
    let stored = definition.list("/spec/versions").filter(|version| version.is_true("/storage"));
    stored.map(|version| version.text("/name"))
}

/// Returns a nonzero hash of the value, because 0 means "no hash".
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().max(1)
}
