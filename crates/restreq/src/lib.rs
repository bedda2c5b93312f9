//! A REST client for the Kubernetes API: requests, watches, TLS, throttling and retries.
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
//! // By type:
//! let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
//! for map in maps.list(&ListOptions::default()).await?.items {
//!     println!("{}: {} entries", map.metadata.name, map.data.len());
//! }
//!
//! // By hand:
//! let version = client.get().abs_path(["/version"]).object::<serde_json::Value>().await?;
//! println!("{}", version["gitVersion"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Nouns
//!
//! - [`RestClient`] reaches one server, as a [`ClientConfig`](pintle_meta::ClientConfig) describes it.
//! - [`Request`] is one request, built by chained setters and sent by itself; [`Response`], [`ByteStream`] and [`Watch`] are
//!   what comes back.
//! - [`Api`] is the typed handle on one resource. It is the [`ListWatch`](pintle_meta::ListWatch) of a reflector and the
//!   [`ObjectApi`](pintle_meta::ObjectApi) of an elector or controller.
//! - [`Pages`] are a long list in pieces, a [`Subresource`] is a part of an object, and a [`RetryWatch`] goes on where a watch ended.
//! - [`RestMapper`] finds the resource that a name or a kind means on a server.
//! - [`Error`] is how a request fails; [`ConfigError`] is why a client cannot be made.
//! - [`RestClientConfig::metrics`] says who is told how many requests there are and how long they take.
//! - [`Warning`]s are what a server has to remark on requests that it served.

mod api;
mod auth;
mod backoff;
mod base;
mod body_log;
mod client;
#[cfg(feature = "gzip")]
mod compression;
mod error;
mod execute;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http2;
mod json;
#[cfg(feature = "tower")]
mod layer;
mod list;
mod managed_fields;
mod mapper;
mod metrics;
mod oversized;
mod pages;
mod request;
mod response;
mod retry;
mod span;
mod status;
mod stream;
mod throttle;
mod transport;
mod warning;
mod watch;

pub use api::{
    Api, Deletion, EventStream, OperationResult, PageStream, RawEventStream, RetryWatch, Subresource, Table,
    TableColumn, TableRow, retry_on_conflict,
};
pub use client::{RestClient, RestClientConfig, Timeouts};
pub use error::{AuthError, ConfigError, Error, Flow, InvalidRequest, Phase, Throttling};
pub use http2::Http2Config;
#[cfg(feature = "tower")]
pub use layer::{TransportBody, TransportLayer, TransportService};
pub use list::ListStream;
pub use managed_fields::{InvalidManagedFields, extract_managed_fields};
pub use mapper::{DiscoveredResource, MappingError, RestMapper};
pub use pages::Pages;
pub use request::Request;
pub use response::Response;
pub use stream::ByteStream;
pub use warning::{IgnoreWarnings, LogWarnings, Warning, WarningHandler};
pub use watch::{FrameSplitter, FrameTooLarge, RawWatch, Watch};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
