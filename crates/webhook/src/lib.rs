//! Admission and conversion webhooks for Kubernetes, with typed handlers in a `tower` service.
//!
//! A handler is an async function that receives an [`Admission`] with the decoded object, and returns `()`, the changed
//! object, or a [`Denial`]. This crate decodes the API server's reviews, encodes the responses, computes JSON patches,
//! and creates the objects that register the webhooks.
//!
//! ```
//! use pintle_meta::ObjectMeta;
//! use pintle_webhook::{Admission, Denial, Endpoint, Webhook, Webhooks};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Deserialize, Serialize)]
//! struct Website {
//!     metadata: ObjectMeta,
//!     domain: String,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! async fn lower_case(request: Admission<Website>) -> Result<Website, Denial> {
//!     let mut site = request.object;
//!     site.domain.make_ascii_lowercase();
//!     Ok(site) // The patch is computed.
//! }
//!
//! async fn keep_domain(request: Admission<Website>) -> Result<(), Denial> {
//!     match request.old {
//!         Some(Ok(old)) if old.domain != request.object.domain => Err(Denial::invalid("domain", "cannot change")),
//!         _ => Ok(()),
//!     }
//! }
//!
//! let webhooks = Webhooks::new()
//!     .add(Webhook::mutate(lower_case))
//!     .add(Webhook::validate(keep_domain))
//!     .endpoint(Endpoint::service("website-system", "website-controller"));
//! let paths: Vec<_> = webhooks.paths().collect();
//! assert_eq!(paths, ["/mutate/example.com/v1/websites", "/validate/example.com/v1/websites"]);
//!
//! // The configuration calls the webhooks for creations and updates of websites.
//! let configuration = webhooks.mutating_configuration("website-controller", b"").unwrap();
//! assert_eq!(configuration.webhooks[0]["rules"][0]["operations"], serde_json::json!(["CREATE", "UPDATE"]));
//!
//! // A test calls a handler directly.
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async {
//! let site = |domain: &str| Website { metadata: ObjectMeta::new("team-a", "blog"), domain: domain.into() };
//! let denial = keep_domain(Admission::update(site("a.example"), site("b.example"))).await.unwrap_err();
//! assert_eq!(denial.status().code, 422);
//! # });
//! ```
//!
//! `Manager::webhooks` in `pintle-operator` serves webhooks over TLS and registers them in the cluster. Without a
//! manager, use `WebhookServer`, which requires the `server` feature. [`Webhooks`] is a `tower` service for HTTP
//! requests, so it can also be used in another server.
//!
//! # Main types
//!
//! - A [`Webhook`] consists of a validating or mutating handler, and of rules that select the requests for the webhook.
//! - A [`Hub`] converts objects between the versions of a kind.
//! - [`Webhooks`] contains all webhooks and hubs of a program. `Webhooks` implements the `tower` service, and creates
//!   the objects that register the webhooks: a [`ValidatingWebhookConfiguration`], a [`MutatingWebhookConfiguration`]
//!   and the `conversion` of a CustomResourceDefinition.
//! - An [`Admission`] is the request that a handler receives. The handler returns [`Allowed`] or a [`Denial`].
//! - An [`Endpoint`] is the address at which the API server calls the webhooks.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `server` | `WebhookServer`, which serves the handlers over TLS, and reloads its certificate files when they change |
//!
//! # Guarantees
//!
//! - If a handler panics, fails or times out, only its request is denied.
//! - A patch contains only the changes of the handler, and keeps fields that the Rust type does not declare. See
//!   [`Webhook::mutate`] for the computation of patches for lists.
//! - A conversion cannot change any metadata except labels and annotations.
//! - The bodies of requests and responses in flight have a memory budget of 256 MiB. Request bodies wait in order while
//!   the budget is exhausted. Only responses can exceed it. Decoded objects can need more memory than their JSON. A conversion
//!   decodes one object at a time. The server rejects request bodies that are too large, invalid or late.
//! - `WebhookServer` serves up to 256 connections. In addition to the budget, it buffers up to 8 MiB of received data for
//!   each HTTP/2 connection. It closes the connection of a client that does not receive a response within 10 s.
//! - An update can repair a stored object that cannot be decoded, and an operator can still remove the finalizers of
//!   such an object.
//! - Text from requests is shortened in logs, and in the error messages of this crate.
//! - `Debug` output, logs and errors do not contain objects or the private key.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod answer;
mod budget;
#[cfg(feature = "server")]
mod certificate;
mod change;
#[cfg(feature = "server")]
mod connections;
mod decode;
mod elements;
mod endpoint;
mod failure_log;
mod failure_policy;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handler;
mod hub;
mod objects;
mod registration;
mod respond;
mod review;
#[cfg(feature = "server")]
mod server;
#[allow(clippy::result_large_err, reason = "an error is a response, too")]
mod service;
mod shortened;
mod webhook;
mod webhooks;

pub use admission::Admission;
pub use answer::{Allowed, Denial};
#[cfg(feature = "server")]
pub use certificate::{CertificateError, CertificateFiles};
pub use endpoint::Endpoint;
pub use failure_policy::FailurePolicy;
pub use hub::Hub;
pub use registration::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
pub use review::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, ConversionRequest, ConversionResponse, ConversionReview,
    Operation, UserInfo,
};
#[cfg(feature = "server")]
pub use server::{WebhookServer, WebhookServerError};
pub use webhook::Webhook;
pub use webhooks::Webhooks;

// Runs the example in the README as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
