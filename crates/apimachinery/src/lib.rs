//! The basic types of an API server: objects, field errors, Status failures, and the parts of a request.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`object`] reads and changes Kubernetes objects as JSON values. [`selector`] matches labels against label
//!   selectors.
//! - [`object_diff`] lists the differing fields of two objects.
//! - [`validate`] contains field errors ([`FieldErrors`](validate::FieldErrors)), and the rules for names and labels.
//! - [`failure`] contains the request error [`Failure`](failure::Failure), which becomes a `Status` on the wire.
//! - [`request`] parses paths, queries, options, headers and users. [`verb`] contains the verbs of resource requests.
//! - [`cluster`] contains the trait [`Cluster`](cluster::Cluster), a read-only view of all objects, which a store
//!   implements.
//! - [`clock`] contains the server's clock, and [`metrics`] the request metrics.
//!
//! The crate contains no kinds and no store, and does no I/O. To read the code, start with `object.rs` and
//! `failure.rs`.
//!
//! ```
//! use pintle_apimachinery::failure::Failure;
//! use pintle_meta::GroupResource;
//!
//! let failure = Failure::not_found(&GroupResource::new("", "pods"), "a");
//! assert_eq!(failure.code(), 404);
//! ```

#![allow(missing_docs, reason = "internal crate: the crate page is the contract")]

pub mod clock;
pub mod cluster;
pub mod failure;
pub mod metrics;
pub mod object;
pub mod object_diff;
pub mod request;
pub mod selector;
pub mod validate;
pub mod verb;
