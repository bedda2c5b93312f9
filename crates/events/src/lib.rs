//! Record Kubernetes Events: recorder, correlator, broadcaster.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource, EventType};
//! use pintle_meta::{ObjectApi, ObjectMeta};
//!
//! struct Website {
//!     metadata: ObjectMeta,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! async fn tell(events: impl ObjectApi<Event>, site: &Website) {
//!     let broadcaster = EventBroadcaster::start(events, BroadcasterConfig::default());
//!     let recorder = broadcaster.recorder(EventSource { component: "website-controller".into(), ..Default::default() });
//!     recorder.event(site, EventType::Normal, "Published", "The site is up");
//!     let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
//!     println!("{} events written, {} lost", counts.created + counts.patched, counts.dropped + counts.failed);
//! }
//! ```
//!
//! # Nouns
//!
//! - An [`EventRecorder`] takes events from anywhere in a program, and never waits.
//! - An [`EventBroadcaster`] owns the one task that writes them; its end tells by [`EventCounts`] what became of them, and while
//!   it is there [`BroadcasterConfig::metrics`] says who is told.
//! - A [`Correlator`] decides, without I/O, whether an event is new, a repetition to count on the one that is stored, one
//!   of many similar ones to combine, or one too many.
//! - An [`Event`] is about the object of an [`ObjectReference`].

mod broadcaster;
mod correlator;
mod event;
mod lru;
mod metrics;
mod recorder;

pub use broadcaster::{BroadcasterConfig, EventBroadcaster};
pub use correlator::{COMBINED_PREFIX, Correlated, Correlator, CorrelatorConfig, Verdict};
pub use event::{Event, EventSource, EventType, ObjectReference};
pub use metrics::EventCounts;
pub use recorder::EventRecorder;

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
