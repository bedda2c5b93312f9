//! Records Kubernetes Events and writes them to a server.
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
//! async fn announce(events: impl ObjectApi<Event>, site: &Website) {
//!     let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
//!     broadcaster.start_recording_to_sink(events);
//!     let recorder = broadcaster.recorder(EventSource { component: "website-controller".into(), ..Default::default() });
//!     recorder.event(site, EventType::Normal, "Published", "The site is up");
//!     let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
//!     println!("{} events written, {} lost", counts.created + counts.patched, counts.dropped + counts.failed);
//! }
//! ```
//!
//! # Main types
//!
//! - An [`EventRecorder`] records events from any code in a program, without blocking.
//! - An [`EventBroadcaster`] delivers the events to sinks, to [`EventWatcher`]s and to the log. Each sink writes these
//!   events to a server. The broadcaster's `shutdown` returns the [`EventCounts`]. [`BroadcasterConfig::metrics`] sets
//!   the metrics provider.
//! - An [`Event`] is a `v1` event. An [`ObjectReference`] names the object that an event describes. A [`Correlator`]
//!   decides whether to create an event, count it as a repetition, combine it with similar events, or drop it. The
//!   correlator performs no I/O.
//! - A [`SeriesEvent`] is an `events.k8s.io/v1` event, whose repetitions form an [`EventSeries`].
//! - A [`FakeRecorder`] stores recorded events for tests.

mod broadcaster;
mod correlator;
mod event;
mod fake;
mod hub;
mod lru;
mod metrics;
mod queue;
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

// Runs the README's examples as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
