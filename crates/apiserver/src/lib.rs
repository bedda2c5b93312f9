//! An in-process Kubernetes API server for tests.
//!
//! The server listens on loopback, accepts real HTTP requests and injects scripted faults. Tests need no cluster and no
//! external binaries.
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
//! // Any client can use it now: pass it `server.client_config()`, or write `server.kubeconfig()` to a file for kubectl.
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//!
//! // Fail the next list of config maps. The list after that succeeds.
//! let (verb, resource) = (Some(RequestVerb::List), Some("configmaps".into()));
//! server.faults().add(Rule { verb, resource, ..Rule::new(Fault::Answer(Answer::new(503))) });
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Main types
//!
//! - An [`ApiServer`] is a running server, configured by [`ApiServerConfig`]. Dropping the `ApiServer` or calling
//!   [`shutdown`](ApiServer::shutdown) stops the server.
//! - A [`Plan`] is a server that reads from a live cluster, and reports the changes that a controller would make,
//!   without writing to the cluster.
//! - A [`CrdChecker`] checks which custom resources a definition accepts, without running a server.
//! - A [`faults::Rule`] injects a fault into some requests, up to a maximum number of times. [`ApiServer::faults`]
//!   returns the rules of a server.
//!
//! # An object's path, from the socket to a watcher
//!
//! | step | what happens | where |
//! |---|---|---|
//! | accept | each connection is a task that the server owns; HTTP/1.1 or HTTP/2 | `server/listen.rs` |
//! | checks | path, `timeout=`, authentication, authorization, in the order of kube-apiserver | `http.rs`, the crates `pintle-apimachinery` (`request/`) and `pintle-authz` |
//! | faults | a rule may delay the request or replace the response | `faults/` |
//! | route | the path selects the `Kind`, and the method selects the verb; the kind has a handler for POSTs that store no object | `http/resource.rs`, the crate `pintle-kinds` (`post_handler.rs`) |
//! | negotiate | the client chooses JSON, YAML or protobuf, and the object, its metadata, or a table | `http/negotiate.rs` |
//! | decode | the bytes become a value, which is checked against the kind's types; from this step on, large bodies are processed on another thread | the crates `pintle-kinds` (`decode.rs`), `pintle-serving` (`offload.rs`) and `pintle-schema` |
//! | rules | patches, defaults, managed fields, admission and validation, applied to the stored object | `registry/pipeline.rs`, the crates `pintle-builtin`, `pintle-apiextensions`, `pintle-admission` and `pintle-fieldmanager` |
//! | commit | the value is encoded to the bytes that are served; they are stored under a new revision, unless the object or another input of the write has changed | the crates `pintle-storage` and `pintle-store` |
//! | notify | the server notifies the watchers of the resource, which read the change from the log | the crate `pintle-storage` |
//! | watch | each watcher maps the change to an event: added, modified, deleted, or no event | `watch/watch_event.rs` |
//! | frame | the event contains the stored bytes, and the object is not decoded if it is served in its stored form; protobuf is encoded once for each version | `watch/frame.rs`, the crate `pintle-schema` |
//! | send | all ready frames are sent as one chunk of the body; over a WebSocket, each frame is a message | `http/body.rs`, `http/websocket.rs` |
//!
//! The store does no I/O, does not read the clock, and starts no tasks. All resources share one sequence of revisions.
//! The type `Db` protects the store with a lock and publishes the current state for lock-free reads. Watches,
//! bookmarks, lists at an old revision and later pages of a list lock the store to read from it.
//!
//! In the folder `registry/`, the code for a single write attempt contains no `.await`. Therefore, a write is either complete
//! or has no effect, even if the request's future is dropped. Long operations regularly yield to other tasks: a write between
//! two attempts, a list while it scans objects, and a `deletecollection` request between two objects.
//!
//! Each connection, the accept loop and each controller in the folder `background/` has its own task.
//! The controllers establish custom resource definitions, collect garbage, empty deleted namespaces,
//! aggregate cluster roles, check the types in ValidatingAdmissionPolicies, and manage APIServices and
//! the Service `kubernetes`. The controllers call the same functions as the handlers of client requests.

/// Asserts at compile time that no listed type implements `Debug`. Debug output of these types could write Secrets and
/// tokens to logs.
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

mod audit;
mod background;
mod config;
mod crd_checker;
pub mod faults;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http;
mod live;
mod plan;
mod registry;
mod server;
mod wait;
mod watch;

pub use audit::{AuditRecord, ServerAudit};
pub use config::{ApiServerConfig, Controllers};
pub use crd_checker::{CheckedManifest, CheckedObject, CrdChecker, Rejection, RuleCost, check_manifests};
#[doc(inline)]
pub use pintle_apimachinery::verb::{RequestVerb, UnknownVerb};
#[doc(inline)]
pub use pintle_authz::TokenFileError;
#[doc(inline)]
pub use pintle_storage::committed::Commit;
pub use plan::{Plan, PlanAction, PlanError, PlannedChange, PlannedChanges, PlannedField};
pub use server::{ApiServer, InProcess, InProcessBody, InvalidSnapshot, LoadError, ServerSnapshot, StartError};
pub use wait::{consistently, eventually};

// Runs the examples in the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
