//! The connections of an API server: limits, timeouts, TLS, compression, and offloading of work to other threads.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`activity`], [`heads`], [`header_blocks`] and [`streams`] limit the memory, the number of tasks and the time that
//!   a connection uses.
//! - [`framing`] rejects ambiguous HTTP/1.1 requests. [`tls`] creates certificates.
//! - [`body_budget`] limits the memory that request bodies use ([`BodyBudget`](body_budget::BodyBudget)).
//! - [`offload`] moves long computations to other threads ([`Offload`](offload::Offload)).
//! - [`webhook_client`] sends reviews to webhooks.
//! - [`body`], [`gzip`] and [`indent`] create response bodies.
//!
//! The crate works with any resource and verb. To read the code, start with `activity.rs`.
//!
//! ```
//! use pintle_serving::indent::Indent;
//!
//! assert_eq!(Indent::default().part(br#"{"a":1}"#), b"{\n  \"a\": 1\n}");
//! ```

pub mod activity;
pub mod body;
pub mod body_budget;
pub mod framing;
pub mod gzip;
pub mod header_blocks;
pub mod heads;
pub mod indent;
pub mod offload;
pub mod streams;
pub mod tls;
pub mod webhook_client;
