//! A REST client for the Kubernetes API, with watches, TLS, throttling and retries.
//!
//! ```no_run
//! use pintle_meta::{ClientConfig, ListOptions, ObjectMeta, Secret};
//! use pintle_restreq::{Api, RestClient};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Deserialize, Serialize)]
//! struct ConfigMap {
//!     metadata: ObjectMeta,
//!     #[serde(default)]
//!     data: std::collections::BTreeMap<String, String>,
//! }
//! pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = ClientConfig::new("https://10.0.0.1:6443");
//! config.token = Some(Secret::new("…"));
//! let client = RestClient::new(config)?;
//!
//! // With a type:
//! let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
//! for map in maps.list(&ListOptions::default()).await?.items {
//!     println!("{}: {} entries", map.metadata.name, map.data.len());
//! }
//!
//! // As a request:
//! let version = client.get().abs_path(["/version"]).object::<serde_json::Value>().await?;
//! println!("{}", version["gitVersion"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Main types
//!
//! - A [`RestClient`] sends requests to one API server, which is described by a
//!   [`ClientConfig`](pintle_meta::ClientConfig).
//! - [`Request`] is a request builder. Methods such as [`send`](Request::send) send a request and return a
//!   [`Response`], a [`ByteStream`] or a [`Watch`].
//! - An [`Api`] is a typed client for one resource. An `Api` implements [`ListWatch`](pintle_meta::ListWatch) for
//!   reflectors, and [`ObjectApi`](pintle_meta::ObjectApi) for leader electors and controllers.
//! - [`Pages`] reads a list page by page. [`Subresource`] reads and writes a subresource of an object. [`RetryWatch`]
//!   is a watch that resumes after its connection is lost.
//! - A [`Watcher`] is a stream of the existing objects and all later changes. A `Watcher` has no cache.
//! - [`Api::logs`] and [`Api::log_lines`] read logs. [`Api::evict`], [`Api::scale`], [`Api::restart`], [`Api::cordon`]
//!   and [`Api::create_token`] are operations for specific kinds.
//! - With the feature `ws`, `Api::exec`, `Api::attach` and `Api::port_forward` open streams to pods.
//! - A [`RestMapper`] finds a resource by its name or its kind.
//! - [`ApiError`](pintle_meta::ApiError) is the error type for requests. Its method
//!   [`cause`](pintle_meta::ApiError::cause) returns an [`AuthError`], [`DeadlineExceeded`], [`InvalidRequest`],
//!   [`ResponseTooLarge`] or [`ThrottleError`](pintle_ratelimit::ThrottleError). [`ConfigError`] is the error type for
//!   [`RestClient::new`].
//! - [`RestClientConfig::metrics`] is the metrics provider.
//! - A [`Warning`] is a warning from the server in a response.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `gzip` | gzip-compressed responses, with `RestClientConfig::gzip` |
//! | `oidc` | OpenID Connect logins with token refresh |
//! | `tower` | `tower` layers around the transport, and a `tower` service that sends requests with the client |
//! | `ws` | `Api::exec`, `Api::attach` and `Api::port_forward`, over WebSocket |
//! | `yaml` | credential plugins that print YAML |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod auth;
mod backoff;
mod base;
mod body;
mod body_log;
#[cfg(feature = "ws")]
mod channels;
mod client;
#[cfg(feature = "gzip")]
mod compression;
mod config;
mod error;
mod execute;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod json;
#[cfg(feature = "tower")]
mod layer;
mod list;
mod managed_fields;
mod mapper;
mod metrics;
#[cfg(feature = "oidc")]
mod oidc;
mod oversized;
mod path;
#[cfg(feature = "ws")]
mod process;
mod request;
mod response;
mod retry;
#[cfg(feature = "tower")]
mod service;
mod shared;
mod span;
mod status;
mod stream;
mod throttle;
mod warning;
mod watch;
#[cfg(feature = "ws")]
mod websocket;

pub use api::{
    Api, BoundObjectReference, Deletion, EvictionOutcome, LogLines, LogOptions, LogSource, OperationResult, Pages,
    RetryWatch, ScaleSpec, ScaleStatus, ServiceAccountToken, Subresource, Table, TableColumn, TableRow, TokenRequest,
    WatchedObjects, Watcher, WatcherEvent, WorkloadScale, retry_on_conflict,
};
#[cfg(feature = "ws")]
pub use api::{ExecOptions, PortForward};
pub use client::RestClient;
pub use config::{RestClientConfig, Timeouts};
pub use error::{AuthError, DeadlineExceeded, InvalidRequest, Phase, ResponseTooLarge};
#[cfg(feature = "tower")]
pub use layer::{TransportBody, TransportLayer, TransportService};
pub use list::ListStream;
pub use managed_fields::{InvalidManagedFields, extract_managed_fields};
pub use mapper::{DiscoveredResource, MappingError, RestMapper};
#[doc(inline)]
pub use pintle_transport::{ConfigError, Http2Config};
#[cfg(feature = "ws")]
pub use process::{AttachedProcess, CommandOutput, ExecError, ProcessInput, ProcessOutput, Terminal, TerminalSize};
pub use request::Request;
pub use response::Response;
pub use stream::ByteStream;
pub use warning::{IgnoreWarnings, LogWarnings, Warning, WarningHandler};
pub use watch::{FrameSplitter, FrameTooLarge, RawWatch, Watch};

// Runs the README examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
