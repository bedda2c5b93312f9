//! The metrics interface for all Pintle crates.
//!
//! A component creates its instruments with a provider. When the component is dropped, the provider removes the
//! component's metric series.
//!
//! ```
//! use pintle_metrics::{Counter, InMemoryProvider, Metric, MetricKind, Provider};
//!
//! static SENT: Metric =
//!     Metric { name: "mails_sent_total", help: "Mails sent", kind: MetricKind::Counter, labels: &["host"] };
//!
//! /// Counts sent mails if there is a provider.
//! struct Mailer {
//!     sent: Option<Box<dyn Counter>>,
//! }
//!
//! impl Mailer {
//!     fn new(host: &str, metrics: Option<&dyn Provider>) -> Self {
//!         Self { sent: metrics.map(|metrics| metrics.counter(&SENT, &[host])) }
//!     }
//!
//!     fn send(&self) {
//!         if let Some(sent) = &self.sent {
//!             sent.add(1);
//!         }
//!     }
//! }
//!
//! let memory = InMemoryProvider::new();
//! let mailer = Mailer::new("example.com", Some(&memory));
//! mailer.send();
//! assert_eq!(memory.value("mails_sent_total", &[("host", "example.com")]), Some(1.0));
//! drop(mailer);
//! assert_eq!(memory.value("mails_sent_total", &[]), None);
//! ```
//!
//! # Concepts
//!
//! - A [`Metric`] is a static description: a name, a help text, a [`MetricKind`] and label names. A series is a metric
//!   with one value for each label.
//! - A [`Provider`] creates instruments: [`Counter`]s, [`Gauge`]s, [`Histogram`]s and [pulled](Provider::pulled)
//!   gauges. The configuration of each component has a field `metrics` of the type ` Option<Arc<dyn Provider>>`. There
//!   is no global provider.
//! - This crate contains one provider, the [`InMemoryProvider`] (feature `memory`). A program can read the [`Sample`]s
//!   of this provider, or register the provider with a `prometheus_client` registry (feature `prometheus-client`). A
//!   [`Distribution`] contains the values that a histogram has recorded.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `memory` | `InMemoryProvider`, a provider that keeps the series in memory |
//! | `prometheus-client` | registers an `InMemoryProvider` with a `prometheus_client` registry; enables `memory` |
//!
//! # Rules
//!
//! - **A series combines the values of its instruments.** Several components, such as two queues with the same name,
//!   can have instruments for the same series. The value of a gauge series is the sum of all gauges that have not been
//!   dropped. A counter or histogram series includes the values of dropped instruments until its last instrument is
//!   dropped, because Prometheus interprets a decrease of a counter as a reset.
//! - **Without a provider, nothing is recorded.** A component stores its instruments in an `Option`.
//! - **A component may use its instruments while it holds locks.** Instruments must not block, and must not call back
//!   into the component. The provider reads pulled gauges while it holds no lock, so the function of a gauge may lock
//!   the component.
//! - **A provider is user code.** Components that must survive panics of the provider wrap it in [`CatchPanic`].
//! - **Metric names match client-go and controller-runtime** if these libraries have the same metric.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod catch_panic;
#[cfg(feature = "memory")]
mod distribution;
#[cfg(feature = "memory")]
mod memory;
mod panic;
#[cfg(feature = "prometheus-client")]
mod prometheus;
mod provider;

pub use catch_panic::CatchPanic;
#[cfg(feature = "memory")]
pub use distribution::Distribution;
#[cfg(feature = "memory")]
pub use memory::{InMemoryProvider, Sample, Value};
pub use provider::{Counter, Gauge, Histogram, Metric, MetricKind, Provider, Pulled};

/// Items for the other crates of this workspace.
#[doc(hidden)]
pub mod __private {
    pub use crate::panic::{catch, caught, caught_payload, message, text};
}

// Runs the README examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
