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
//!     let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
//!     broadcaster.start_recording_to_sink(events);
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
//! - An [`EventBroadcaster`] passes them on: to sinks, which write to servers, to each [`EventWatcher`], and to the log. Its end
//!   tells by [`EventCounts`] what became of them, and while it is there [`BroadcasterConfig::metrics`] says who is told.
//! - An [`Event`] of `v1` is about the object of an [`ObjectReference`]. A [`Correlator`] decides, without I/O, whether it is new, a
//!   repetition to count on the one that is stored, one of many similar ones to combine, or one too many.
//! - A [`SeriesEvent`] is its counterpart in `events.k8s.io/v1`, where repetitions form an [`EventSeries`].
//! - A [`FakeRecorder`] keeps events for tests.

mod broadcaster;
mod correlator;
mod event;
mod fake;
mod hub;
mod lru;
mod metrics;
mod recorder;
mod series;
mod series_event;
mod sink;
mod watcher;

pub use broadcaster::{BroadcasterConfig, EventBroadcaster};
pub use correlator::{COMBINED_PREFIX, Correlated, Correlator, CorrelatorConfig, Verdict};
pub use event::{Event, EventSeries, EventSource, EventType, ObjectReference};
pub use fake::FakeRecorder;
pub use metrics::EventCounts;
pub use recorder::EventRecorder;
pub use series::SeriesConfig;
pub use series_event::SeriesEvent;
pub use watcher::EventWatcher;

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
