//! The built-in kinds of a Kubernetes API server: their names, defaults, validation, table columns and subresources.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`kinds`] returns the registry of all built-in kinds, as [`Kinds`](pintle_kinds::Kinds). The table
//!   `src/builtin.txt` contains the names and flags of the kinds, `src/columns.txt` contains the table columns, and
//!   `src/defaults.txt` contains the default values without conditions. All other rules of a kind are in its
//!   [`Strategy`](pintle_kinds::Strategy).
//! - [`selectable`] and [`claims`] return the values by which a store indexes an object. [`caches_decoded`] returns
//!   whether a store should keep the objects of a resource in decoded form.
//! - [`token_status`], [`access_status`] and [`rules_status`] build the `status` of token and access reviews.
//!
//! Custom resources are in `pintle-apiextensions`. The crate does not access a store and does not send requests. To
//! read the code, start with `src/served_kinds.rs`, and then read a strategy such as `src/core/config_map.rs`.
//!
//! ```
//! let kinds = pintle_builtin::kinds();
//! let deployments = kinds.resource("apps", "v1", "deployments").expect("a built-in kind");
//! assert_eq!(deployments.short_names, ["deploy"]);
//! ```

mod admission_registration;
pub mod api_service;
mod apps;
mod authentication;
mod authorization;
mod batch;
mod certificate_signing_request;
mod core;
mod default_class;
mod devices;
mod flow_control;
mod go_struct;
mod horizontal_pod_autoscaler;
mod int_or_percent;
mod lease;
mod lease_candidate;
mod meta_conditions;
mod network_rules;
mod networking;
mod pem;
mod pod_disruption_budget;
mod priority_class;
mod rbac;
mod resource_quantities;
mod runtime_class;
mod sections;
mod served_kinds;
mod storage;
mod warnings;

pub use self::core::{NAMESPACES, unknown_namespace};
pub use apps::partial_metadata;
pub use authentication::token_status;
pub use authorization::{access_status, rules_status};
pub use certificate_signing_request::fuzz as fuzz_certification_request;
use default_class::default_class;
pub use served_kinds::{caches_decoded, claims, coordinated_kinds, kinds, selectable};
