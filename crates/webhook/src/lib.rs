//! Webhooks for Kubernetes: typed handlers that validate, change and convert objects, as a `tower` service.

#![cfg_attr(docsrs, feature(doc_cfg))]
mod admission;
mod answer;
#[cfg(feature = "server")]
mod certificate;
mod change;
mod decode;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handler;
mod hub;
mod registration;
mod review;
#[cfg(feature = "server")]
mod server;
mod service;
mod webhook;
mod webhooks;

pub use admission::Admission;
pub use answer::{Allowed, Denial};
#[cfg(feature = "server")]
pub use certificate::{CertificateError, CertificateFiles};
pub use hub::Hub;
pub use registration::{Endpoint, MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
pub use review::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, ConversionRequest, ConversionResponse, ConversionReview,
    Operation, UserInfo,
};
#[cfg(feature = "server")]
pub use server::{WebhookServer, WebhookServerError};
pub use webhook::{FailurePolicy, Webhook};
pub use webhooks::Webhooks;
