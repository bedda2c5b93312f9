//! The metrics interface of all Pintle crates.
//!
//! A component gets its instruments from a provider and owns them. When it is dropped, its series disappear.
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
//! - A [`Metric`] is a static description: name, help, [`MetricKind`] and label names. With a value for each label, it identifies a
//!   series.
//! - A [`Provider`] creates instruments: [`Counter`], [`Gauge`], [`Histogram`], or a [pulled](Provider::pulled) gauge. Each component has
//!   it in its configuration as `metrics: Option<Arc<dyn Provider>>`. There is no global provider.
//! - [`InMemoryProvider`] is this crate's provider (feature `memory`). Read its [`Sample`]s in the process, or register it in a
//!   `prometheus_client` registry (feature `prometheus-client`). A [`Distribution`] is the value of a histogram.
//!
//! # Rules
//!
//! - **An instrument is a share of its series.** Several components may have instruments of the same series, such as two queues with the
//!   same name. The values of gauges are added, and the value of a gauge is removed when it is dropped. The values of counters and
//!   histograms stay until the last share is dropped, because Prometheus treats a decreasing counter as reset.
//! - **Without a provider, nothing is recorded.** A component stores an `Option` of its instruments.
//! - **Instruments may be used under a component's locks.** So they must not block or call the component. A pulled gauge is read without a
//!   lock of the provider, so it may take the component's locks.
//! - **A provider is foreign code.** A component that must survive its panics wraps it in [`CatchPanic`].
//! - **Names match client-go and controller-runtime** where they have the metric.

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

// Runs the examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
