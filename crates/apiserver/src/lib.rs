//! An in-process Kubernetes API server: real HTTP on loopback, no cluster, no binaries, scripted faults.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pintle_apiserver::faults::{Answer, Fault, Rule};
//! use pintle_apiserver::{ApiServer, ApiServerConfig};
//!
//! let server = ApiServer::start(ApiServerConfig::default()).await?;
//! server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}")?;
//!
//! // Any client can use it now: `server.client_config()`, or a file with `server.kubeconfig()` for kubectl.
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//!
//! // The next list of config maps is refused; the one after is served.
//! let (verb, resource) = (Some("list".into()), Some("configmaps".into()));
//! server.faults().add(Rule { verb, resource, ..Rule::new(Fault::Answer(Answer::new(503))) });
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Nouns
//!
//! - [`ApiServer`] is a running server; [`ApiServerConfig`] says how it runs. It ends when it is [shut down](ApiServer::shutdown)
//!   or dropped.
//! - A [`faults::Rule`] is what goes wrong on purpose, for whom, and how often: [`ApiServer::faults`].
//! - A [`kinds::Kind`] is one resource in one version, with its [`kinds::Strategy`]; the [`kinds::Registry`] holds all of
//!   them, and custom resource definitions add theirs while the server runs.
//!
//! # One object's way, from the socket to a watcher
//!
//! | step | what happens | where |
//! |---|---|---|
//! | accept | a connection is a task that the server owns; HTTP/1.1 or HTTP/2 | `server/listen.rs` |
//! | checks | path, `timeout=`, who asks, whether they may: in the order of a real server | `serve.rs`, `request/`, `auth/` |
//! | faults | a rule may hold the request up or answer in its place | `faults/` |
//! | route | the path finds its [`kinds::Kind`]; the method, its verb | `serve/resource.rs`, `serve/write.rs` |
//! | negotiate | JSON or YAML, the object, its metadata alone, or a table | `serve/negotiate.rs` |
//! | decode | bytes become a value, checked against the types of the kind | `decode.rs`, [`schema`], `protobuf/` |
//! | rules | patches, defaults, [`managed`] fields, admission, [validation](validate), all on what the store holds now | `rest/`, `kinds/`, `admission/`, [`patch`] |
//! | commit | the value is put under a new revision, if nothing came between: neither to it nor to what it follows from | `db.rs`, `store/` |
//! | feed | those who watch the resource are told, and read the change from the log | `db.rs` |
//! | watch | each watcher turns the change into its own event: added, modified, deleted, or none | `watch/event.rs` |
//! | frame | the event is encoded; once for all watchers where the object goes out as it is stored | `watch/frame.rs` |
//! | send | a frame is a part of the answer's body, or a message of a WebSocket | `serve/body.rs`, `serve/websocket.rs` |
//!
//! The store is a pure engine: one sequence of revisions for everything, no clock, no lock, no task. Lists of the past, pages,
//! watches and bookmarks all read from it. The handlers in `rest/` never await, so a request that is dropped half-way leaves each
//! write whole or undone. Besides the connections and the task that accepts them there is one more: `background/`, which
//! establishes custom resource definitions, collects garbage, empties deleted namespaces and looks after the Service
//! `kubernetes`, through the same handlers as everybody.

mod admission;
mod api;
mod audit;
mod auth;
mod background;
mod clock;
pub mod crd;
mod db;
mod decode;
pub mod discovery;
mod failure;
pub mod faults;
mod health;
pub mod kinds;
pub mod managed;
mod manager;
pub mod patch;
mod protobuf;
mod request;
mod rest;
pub mod schema;
mod selector;
mod serve;
mod server;
mod store;
pub mod table;
pub mod validate;
mod wait;
mod watch;

pub use audit::{Audit, AuditRecord};
pub use auth::TokenFileError;
pub use server::{
    ApiServer, ApiServerConfig, Controllers, InProcess, InProcessBody, InvalidSnapshot, LoadError, ServerSnapshot,
    StartError,
};
pub use wait::{consistently, eventually};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
