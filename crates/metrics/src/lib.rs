//! The metrics interface for all Pintle crates.
//!
//! A component gets its instruments from a provider and owns them. When the component is dropped, the provider removes
//! the component's series.
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
//!   gauges. Each component's configuration has a field `metrics: Option<Arc<dyn Provider>>`. There is no global
//!   provider.
//! - This crate contains one provider, the [`InMemoryProvider`] (feature `memory`). A program can read the provider's
//!   [`Sample`]s, or register the provider in a `prometheus_client` registry (feature `prometheus-client`). A
//!   [`Distribution`] contains a histogram's values.
//!
//! # Rules
//!
//! - **A series combines the values of its instruments.** Several components may have instruments for the same series,
//!   such as two queues with the same name. The value of a gauge series is the sum of the gauges that have not been
//!   dropped. A counter or histogram series keeps the values of dropped instruments until its last instrument is
//!   dropped. Otherwise, a counter could decrease, which Prometheus interprets as a reset.
//! - **Without a provider, nothing is recorded.** A component stores its instruments in an `Option`.
//! - **A component may use its instruments while it holds locks.** Instruments must not block and must not call the
//!   component. The provider reads a pulled gauge without holding a lock, so the gauge's function may take the
//!   component's locks.
//! - **A provider is user code.** A component that must survive its provider's panics wraps the provider in
//!   [`CatchPanic`].
//! - **Metric names match client-go and controller-runtime** for each metric that these libraries also have.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod catch_panic;
#[cfg(feature = "memory")]
mod distribution;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "prometheus-client")]
mod prometheus;
mod provider;

pub use catch_panic::CatchPanic;
#[cfg(feature = "memory")]
pub use distribution::Distribution;
#[cfg(feature = "memory")]
pub use memory::{InMemoryProvider, Sample, Value};
pub use provider::{Counter, Gauge, Histogram, Metric, MetricKind, Provider, Pulled};

// Runs the README examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
