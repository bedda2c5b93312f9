//! An in-process Kubernetes API server: real HTTP on loopback, no cluster, no binaries, scripted faults.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pintle_apiserver::faults::{Answer, Fault, Rule};
//! use pintle_apiserver::{ApiServer, ApiServerConfig, RequestVerb};
//!
//! let server = ApiServer::start(ApiServerConfig::default()).await?;
//! server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}")?;
//!
//! // Any client can use it now: `server.client_config()`, or a file with `server.kubeconfig()` for kubectl.
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//!
//! // The next list of config maps is refused; the one after is served.
//! let (verb, resource) = (Some(RequestVerb::List), Some("configmaps".into()));
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
//! - A [`Plan`] is a server laid over a live cluster: it tells what a controller would do, and does nothing of it.
//! - A [`faults::Rule`] is what goes wrong on purpose, for whom, and how often: [`ApiServer::faults`].
//!
//! # One object's way, from the socket to a watcher
//!
//! | step | what happens | where |
//! |---|---|---|
//! | accept | a connection is a task that the server owns; HTTP/1.1 or HTTP/2 | `server/listen.rs` |
//! | checks | path, `timeout=`, who asks, whether they may: in the order of a real server | `http.rs`, `request/`, `auth/` |
//! | faults | a rule may hold the request up or answer in its place | `faults/` |
//! | route | the path finds its `Kind`; the method, its verb; of what is posted and not stored, the kind says what is done for it | `http/resource.rs`, `kinds/posting.rs` |
//! | negotiate | JSON, YAML or protobuf, the object, its metadata alone, or a table | `http/negotiate.rs` |
//! | decode | bytes become a value, checked against the types of the kind; of many bytes, from here on, on another thread | `http/decode.rs`, `apart.rs`, the crate `pintle-schema` |
//! | rules | patches, defaults, owners of fields, admission, validation, all on what the store holds now | `registry/pipeline.rs`, `kinds/`, `admission/`, the crate `pintle-fieldmanager` |
//! | commit | the value becomes the bytes that are served, and these are put under a new revision, if nothing came between: neither to it nor to what it follows from; whoever reads finds them there | `store/db.rs`, the crate `pintle-store` |
//! | feed | those who watch the resource are told, and read the change from the log | `store/db.rs` |
//! | watch | each watcher turns the change into its own event: added, modified, deleted, or none | `watch/watch_event.rs` |
//! | frame | the bytes of the object, between those that make an event of them; no tree, where it goes out as it is stored. In protobuf they are made of the JSON once a version | `watch/frame.rs`, the crate `pintle-schema` |
//! | send | the frames that are there go out together, as a part of the answer's body; over a WebSocket each is a message | `http/body.rs`, `http/websocket.rs` |
//!
//! The store is a pure engine: one sequence of revisions for everything, no clock, no lock, no task. `Db` has it behind a lock, and
//! what is there now beside that, for all who read. Lists of the past, pages, watches and bookmarks all read from it. No try of a write
//! in `registry/` awaits, so a request that is dropped half-way leaves each write whole or undone; writes that others come before, between
//! two tries, lists, and deletions of collections between two objects, let others have their turns. Besides the connections and the task
//! that accepts them, each controller has a task: `background/` establishes custom resource definitions, collects garbage, empties deleted namespaces, aggregates cluster roles and looks after
//! APIServices and the Service `kubernetes`, through the same handlers as everybody.

/// Does not compile where one of these types has Debug: what may hold a Secret or a token is not printed by chance.
#[cfg(test)]
macro_rules! assert_no_debug {
    ($($of:ty),+) => {
        const _: fn() = || {
            trait Ambiguous<A> {
                fn any() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + std::fmt::Debug> Ambiguous<u8> for T {}
            $(let _ = <$of as Ambiguous<_>>::any;)+
        };
    };
}

mod admission;
mod audit;
mod auth;
mod background;
mod clock;
mod config;
mod crd;
mod discovery;
mod failure;
pub mod faults;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod health;
mod http;
mod kinds;
mod live;
mod metrics;
mod object;
mod offload;
mod plan;
mod registry;
mod request;
mod selector;
mod server;
mod shared_map;
mod store;
mod validate;
mod verb;
mod wait;
mod watch;

pub use audit::{AuditRecord, Commit, ServerAudit};
pub use auth::TokenFileError;
pub use config::{ApiServerConfig, Controllers};
pub use plan::{Plan, PlanAction, PlanError, PlannedChange, PlannedChanges, PlannedField};
pub use server::{ApiServer, InProcess, InProcessBody, InvalidSnapshot, LoadError, ServerSnapshot, StartError};
pub use verb::{RequestVerb, UnknownVerb};
pub use wait::{consistently, eventually};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
