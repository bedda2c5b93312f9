//! CustomResourceDefinitions from Rust structs.
//!
//! `#[derive(Resource)]` turns a struct with the fields `metadata`, `spec` and `status` into a custom resource. The struct must also
//! implement serde's traits and schemars' `JsonSchema`. [`CustomResource::crd`] returns the definition with the structural schema that
//! kube-apiserver requires.
//!
//! ```
//! use pintle_crd::{CustomResource, Resource};
//! use pintle_meta::{Conditions, ObjectMeta};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// A site that the operator publishes.
//! #[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[resource(crate = pintle_crd, group = "example.com", version = "v1", short("ws"))]
//! #[resource(column("URL", ".status.url"), scale(spec = ".spec.replicas", status = ".status.replicas"))]
//! struct Website {
//!     metadata: ObjectMeta,
//!     spec: Spec,
//!     status: Option<Status>,
//! }
//!
//! #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! struct Spec {
//!     domain: String,
//!     #[serde(default)]
//!     #[schemars(range(max = 20))]
//!     replicas: u32,
//! }
//!
//! #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! struct Status {
//!     url: String,
//!     replicas: u32,
//!     conditions: Conditions,
//! }
//!
//! let crd = Website::crd();
//! assert_eq!(crd.metadata.name, "websites.example.com");
//! let schema = &crd.spec["versions"][0]["schema"]["openAPIV3Schema"];
//! assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["maximum"], 20);
//! ```
//!
//! With the facade `pintle`, omit `crate = pintle_crd`.
//!
//! # Attributes
//!
//! | attribute | meaning | default |
//! |---|---|---|
//! | `group = "example.com"` | the API group | required |
//! | `version = "v1"` | the version | required |
//! | `kind = "Website"` | the kind | the name of the struct |
//! | `plural = "websites"`, `singular = "website"` | the names in URLs and for kubectl | the plural by the rules of English; the kind in lower case |
//! | `short("ws")`, `category("all")` | short names, and categories, for kubectl | none |
//! | `cluster` | the objects are cluster-scoped | namespaced |
//! | `status = false` | the status is not a subresource | a subresource if there is a field `status` |
//! | `scale(spec = "…", status = "…", selector = "…")` | the JSON paths of the scale subresource | none |
//! | `column("URL", ".status.url")` | a printer column; options: `type`, `format`, `description`, `priority` | the type in the schema; the last column is `Age` |
//! | `selectable(".spec.domain")` | fields for field selectors | none |
//! | `rule("self.spec.replicas < 9", "too many")` | a CEL rule for the whole object, and its message | none |
//! | `deprecated`, `deprecated = "use v2"` | clients get a warning | not deprecated |
//! | `served = false`, `stored = false` | for one of several [versions](CustomResourceDefinition::merge) | true |
//!
//! # Schemas
//!
//! This crate converts the struct's schemars schema to a
//! [structural](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema)
//! schema:
//!
//! - An enum of unit variants is a string with `enum`. A tagged, untagged or flattened enum of structs becomes an object with the
//!   properties of all variants. `oneOf` or `anyOf` lists each variant's required properties.
//! - An `Option` field is not required, and kube-apiserver drops a `null` value. An `Option` as a list item or a map value becomes
//!   `nullable`.
//! - A map has `additionalProperties`. `serde_json::Value` preserves unknown fields.
//! - An integer or string, such as k8s-openapi's `IntOrString`, gets `x-kubernetes-int-or-string`.
//! - A set of scalars is a list with the list type `set`. [`Conditions`](pintle_meta::Conditions) are a list with the list type `map`.
//! - Formats that kube-apiserver does not support, such as `uint32`, are removed, but the numbers' bounds are kept.
//! - Keywords with the prefix `x-kubernetes-` are kept: `#[schemars(extend("x-kubernetes-validations" = [{"rule": "self > 0"}]))]`.
//!
//! If the status is a subresource, the field `status` must be an `Option` or have a serde default. Any other `status` type is a compile
//! error, because a new object has no status.
//!
//! A recursive type has no structural schema, so [`crd`](CustomResource::crd) panics. The panic message names the field, and suggests the
//! schema [`preserve_unknown_fields`]. One test that calls `crd` detects the panic.
//!
//! # Main items
//!
//! - [`Resource`] is the derive macro.
//! - [`CustomResource`] is the trait that the macro implements.
//! - [`CustomResourceDefinition`] is the object to apply.

mod build;
mod columns;
mod declaration;
mod definition;
mod structural;
mod union;

pub use build::CustomResource;
pub use declaration::{Column, Declaration, Scale};
pub use definition::{CustomResourceDefinition, DefinitionStatus, MergeError, PACKAGE_VERSION};
pub use pintle_derive::Resource;
pub use structural::preserve_unknown_fields;

/// Items that the derive macro's generated code uses.
#[doc(hidden)]
pub mod __private {
    pub use pintle_meta::{ClusterScope, Metadata, NamespaceScope, Object, Resource, resource};

    pub use crate::declaration::NO_DECLARATION;
}

// Runs the README example as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
