//! Client tests. Most tests use a scripted server on loopback.

#![allow(clippy::unwrap_used)]

mod api;
mod bounds;
mod builder;
mod credentials;
mod deadlines;
#[cfg(unix)]
mod environment;
mod exec;
#[cfg(feature = "gzip")]
mod gzip;
mod handles;
mod http2;
#[cfg(feature = "tower")]
mod layer;
mod limits;
mod list;
mod logs;
mod mapper;
mod metrics;
#[cfg(feature = "oidc")]
mod oidc;
mod pool;
#[cfg(feature = "ws")]
mod port_forward;
#[cfg(feature = "ws")]
mod process;
mod proxy;
mod real;
#[cfg(feature = "ws")]
mod real_streams;
mod real_verbs;
#[cfg(unix)]
mod secrets;
mod send;
mod span;
mod support;
mod tls;
#[cfg(feature = "ws")]
mod upgrade;
mod upload;
mod verbs;
mod wait;
mod wakes;
mod watch;
mod watcher;
#[cfg(feature = "ws")]
mod websocket_server;
