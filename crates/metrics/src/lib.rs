//! The metrics interface of all Pintle crates.
//!
//! A component gets its instruments from a provider, and owns the instruments. When the component is dropped, its series
//! are removed from the provider.
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
//! - A [`Metric`] is a static description with a name, a help text, a [`MetricKind`] and label names. A metric and a value for
//!   each of its labels identify a series.
//! - A [`Provider`] creates instruments: [`Counter`], [`Gauge`], [`Histogram`], or a [pulled](Provider::pulled) gauge. The configuration of
//!   each component has a field `metrics: Option<Arc<dyn Provider>>`. There is no global provider.
//! - An [`InMemoryProvider`] is the metrics provider in this crate (feature `memory`). A program can read its [`Sample`]s, or register
//!   the provider in a `prometheus_client` registry (feature `prometheus-client`). A [`Distribution`] contains the values of a histogram.
//!
//! # Rules
//!
//! - **An instrument is a share of its series.** Several components may have instruments for the same series, such as two queues with
//!   the same name. The value of a gauge series is the sum of its gauges, and a dropped gauge is removed from this sum. The values of
//!   counters and histograms are kept until the last share is dropped. Otherwise, Prometheus would interpret the decrease of a counter
//!   as a reset.
//! - **Without a provider, nothing is recorded.** A component stores an `Option` with its instruments.
//! - **A component may use its instruments while it holds its locks.** Therefore, instruments must not block or call the component. The
//!   provider reads a pulled gauge without holding a lock, so the function of the gauge may take the component's locks.
//! - **A provider is user code.** A component that must survive a panic of its provider wraps the provider in [`CatchPanic`].
//! - **If client-go or controller-runtime has a metric, Pintle uses the same name.**

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

// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
