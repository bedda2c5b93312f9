//! Connections to an API server, with HTTP/1.1, HTTP/2, TLS, proxies and connection pools.
//!
//! This crate is part of `pintle-restreq` and has **no stability guarantee**. Use `pintle-restreq` instead.
//!
//! - A [`Transport`] sends requests over pooled connections and returns the responses. A [`TransportConfig`] describes
//!   the server, its certificates and its proxy.
//! - [`RequestBody`] and [`ResponseBody`] are the bodies of requests and responses. A response body owns its connection
//!   until the body ends.
//! - [`ExchangeOptions`] are the options for sending a request. A [`Failure`] describes why a request received no
//!   response.
//! - [`Upgraded`] is a connection after a protocol upgrade.
//! - [`Timers`] adds timeouts to short futures, and is cheaper than a new tokio timer for each future.
//! - [`authorization`] creates `Authorization` headers. [`files`] reads files that may change, such as tokens and
//!   certificates.
//!
//! The crate works with any resource and verb. A request is retried only if a reused connection fails before any byte
//! of the request was sent. To read the code, start with `transport.rs`.
//!
//! ```
//! # use std::time::Duration;
//! use http::Request;
//! use pintle_meta::TlsClientConfig;
//! use pintle_transport::{
//!     ConnectionUse, ExchangeOptions, Failure, Http2Config, Origin, RequestBody, Transport, TransportConfig,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let transport = Transport::new(TransportConfig {
//!     origin: Origin::new(false, "127.0.0.1:1"),
//!     tls: TlsClientConfig::default(),
//!     proxy_url: None,
//!     proxy_from_environment: false,
//!     connect_timeout: Duration::from_secs(5),
//!     http2: Http2Config::default(),
//!     drop_connection_on_cancel: false,
//!     metrics: None,
//! })?;
//! let mut request = Request::get("/version").body(RequestBody::default())?;
//! let options = ExchangeOptions { usage: ConnectionUse::Short, headers: None };
//! let response = transport.round_trip(&mut request, options).await;
//! assert!(matches!(response.err(), Some(Failure::Connect { refused: true, .. })));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `gzip` | gzip-compressed responses |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod authorization;
mod connect;
mod connection_group;
mod error;
mod exchange;
mod eyeballs;
mod failure;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http1;
mod http2_config;
mod malformed;
mod metrics;
mod origin;
mod pool;
mod proxy;
mod reads;
mod request_body;
mod response_body;
mod timers;
mod tls;
mod transport;
mod tunnel;
mod upgrade;

pub use connect::Conn;
pub use error::{BoxError, ConfigError, causes};
pub use exchange::{ConnectionUse, ExchangeOptions};
pub use failure::Failure;
pub use http2_config::Http2Config;
pub use malformed::is_invalid_response;
pub use origin::Origin;
pub use request_body::{ByteSource, LastChunk, RequestBody};
pub use response_body::ResponseBody;
pub use timers::Timers;
pub use tls::{ClientPair, PluginCertificate, ca_pem};
pub use transport::{Transport, TransportConfig};
pub use upgrade::Upgraded;
