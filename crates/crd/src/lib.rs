//! Creates CustomResourceDefinitions from Rust structs.
//!
//! `#[derive(Resource)]` turns a struct with the fields `metadata`, `spec` and `status` into a custom resource. The
//! struct must also implement serde's traits and schemars' `JsonSchema` trait. [`CustomResource::crd`] returns the
//! definition, with the structural schema that kube-apiserver requires.
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
//! If you use the `pintle` crate, omit `crate = pintle_crd`.
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
//! This crate converts the schemars schema of the struct to a
//! [structural](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema)
//! schema:
//!
//! - An enum of unit variants becomes a string with an `enum` list. An enum of structs (tagged, untagged or flattened) becomes an object
//!   with the properties of all variants. The `oneOf` or `anyOf` of this object lists the required properties and the rules of each
//!   variant. The CEL rules of a variant apply only to objects with the tag and the required properties of the variant.
//! - An `Option` field becomes an optional property. kube-apiserver drops `null` values of optional properties. An `Option` inside a list
//!   or a map becomes `nullable`.
//! - A map becomes an object with `additionalProperties`. A `serde_json::Value` preserves unknown fields.
//! - A type for integers or strings, such as k8s-openapi's `IntOrString`, is marked with `x-kubernetes-int-or-string`.
//!   A `Quantity` also has the pattern of quantities, so kube-apiserver rejects an invalid quantity. Kubernetes' own types need the feature
//!   `schemars` of `k8s-openapi`.
//! - A set of scalars becomes a list of the list type `set`. [`Conditions`](pintle_meta::Conditions) become a list of the list type `map`.
//! - Formats that kube-apiserver does not support, such as `uint32`, are removed, but the schema keeps the bounds of the
//!   numbers.
//! - Keywords with the prefix `x-kubernetes-` stay in the schema: `#[schemars(extend("x-kubernetes-validations" =
//!   [{"rule": "self > 0"}]))]`.
//!
//! If the status is a subresource, the `status` field must be an `Option` or have a serde default. Other types of `status` cause a compile
//! error, because a new object has no status.
//!
//! A recursive type has no structural schema, so [`crd`](CustomResource::crd) panics. The panic message names the field and suggests the
//! schema [`preserve_unknown_fields`]. A test that calls `crd` detects the panic.
//!
//! # Main items
//!
//! - [`Resource`] is the derive macro for custom resources.
//! - [`CustomResource`] is the trait that the derive macro implements.
//! - [`CustomResourceDefinition`] is the definition, which programs can apply to a cluster.

mod build;
mod columns;
mod declaration;
mod definition;
mod quantity;
mod schema_object;
mod selectable;
mod structural;
mod union;

pub use build::CustomResource;
pub use declaration::{Column, Declaration, Scale};
pub use definition::{CustomResourceDefinition, DefinitionStatus, MergeError, PACKAGE_VERSION};
pub use pintle_derive::Resource;
pub use structural::preserve_unknown_fields;

/// Items that the generated code of the derive macro uses.
#[doc(hidden)]
pub mod __private {
    pub use pintle_meta::{ClusterScope, Metadata, NamespaceScope, Object, Resource, resource};

    pub use crate::declaration::NO_DECLARATION;
}

// Runs the README example as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
