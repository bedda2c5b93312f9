//! Tests of webhooks: handlers, patches, conversions, hostile bodies, registration and TLS.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod conversions;
mod hostile;
mod patches;
mod registration;
mod reviews;
mod support;
mod tls;
