//! Test controllers without a network: the objects of a resource in memory, clients that fail on demand, a stepped clock.
//!
//! ```
//! use pintle_meta::{ApiError, ListOptions, ListPart, ListWatch, ObjectMeta, WatchEvent, WatchOptions};
//! use pintle_testing::{Break, Collection, Outcome, Verb};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Deserialize, Serialize)]
//! struct Website {
//!     metadata: ObjectMeta,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! fn site(name: &str) -> Website {
//!     Website { metadata: ObjectMeta::new("team-a", name) }
//! }
//!
//! #[tokio::main(flavor = "current_thread")] // In a test: #[tokio::test(start_paused = true)].
//! async fn main() -> Result<(), ApiError> {
//!     let sites = Collection::from([site("blog")]);
//!     sites.faults().next_of(Verb::List, [Outcome::Fails(ApiError::connection_refused("nobody is home"))]);
//!
//!     // What code under test does, here by hand. It is given `sites`, or a `sites.client("replica-1")`.
//!     assert!(sites.list(&ListOptions::default()).await.unwrap_err().is_connection_refused());
//!     let mut page = sites.list(&ListOptions::default()).await?;
//!     let Some(Ok(ListPart::Metadata(list))) = page.next().await else { panic!("no metadata") };
//!     let Some(Ok(ListPart::Item(object))) = page.next().await else { panic!("no item") };
//!     assert_eq!(object.decode::<Website>()?.metadata.name, "blog");
//!
//!     let from_there = WatchOptions { resource_version: list.resource_version, ..WatchOptions::default() };
//!     let mut events = sites.watch(&from_there).await?;
//!     sites.put(site("shop"));
//!     sites.break_watches(Break::expired());
//!     assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
//!     assert!(matches!(events.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
//!     assert!(events.next().await.is_none());
//!
//!     let requests: Vec<_> = sites.requests().iter().map(ToString::to_string).collect();
//!     assert_eq!(requests, ["LIST rv= limit=0", "LIST rv= limit=0", "WATCH rv=1"]);
//!     Ok(())
//! }
//! ```
//!
//! # Nouns
//!
//! - A [`Collection`] keeps the objects of one resource as an API server does. It is asked as a
//!   [`ListWatch`](pintle_meta::ListWatch) or an [`ObjectApi`](pintle_meta::ObjectApi), and changed behind everybody's back by its
//!   own methods. A [`CollectionConfig`] makes one that is not as usual.
//! - A [`Client`] is one of those who ask: it has a name in the log, and faults of its own.
//! - A [`FaultScript`] says what goes wrong: an [`Outcome`] says what becomes of a request, a [`Break`] how a page or a watch ends.
//! - A [`RecordedRequest`] is a line of the log: a [`Call`], and who made it. Its [`Verb`] is what faults are lined up by.
//! - A [`Page`] and [`Events`] are what lists and watches give: streams.
//! - A [`PanickingProvider`] is told metrics, and panics.
//! - [`replay_corpus`] puts kept inputs, and changes of them, through what reads bytes from outside.
//! - A [`SteppedClock`] is both clocks of a process, for who asks what time it is.
//!
//! # What it does as a kube-apiserver
//!
//! - Each write has the next revision; one that changes nothing has none. A stale resourceVersion, another uid, a name that is taken
//!   or missing are refused by the statuses of a real server.
//! - An object with finalizers stays until the last is gone; a write of the main part leaves the status, and the other way round;
//!   the generation goes up with everything but metadata and status, where there is a `spec`.
//! - A watch from a revision tells all that came later, in order. With a selector, it tells what comes to match as added, and what
//!   ceases to as deleted. Streaming lists, bookmarks, pages and expired revisions are as they are there.
//!
//! # What it does not
//!
//! - There is no schema, no defaulting, no admission, and no other resource: no namespace has to exist, nothing is collected as
//!   garbage. Deletions are immediate but for finalizers.
//! - Patches are merge patches and apply patches, and others are refused with 415. An apply is merged as if it were a merge patch:
//!   nobody owns fields, so there are no conflicts, and what an applier no longer mentions stays. Lists are replaced.
//! - A field selector may name `metadata.name` and `metadata.namespace`.
//! - A watch ends when it is broken, never by its timeout.
//!
//! Where that matters, `pintle-apiserver` is a whole server in the test's process.

mod client;
mod clock;
mod collection;
mod corpus;
mod events;
mod faults;
mod metrics;
mod request;
mod store;

pub use client::Client;
pub use clock::SteppedClock;
pub use collection::{Collection, CollectionConfig};
pub use corpus::replay_corpus;
pub use events::{Events, Page};
pub use faults::{Break, FaultScript, Outcome};
pub use metrics::PanickingProvider;
pub use request::{Call, RecordedRequest, Verb};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
