//! What all metrics stand on: a component asks a provider for its instruments, owns them, and takes its series along when it goes.
//!
//! ```
//! use pintle_metrics::{Counter, InMemoryProvider, Metric, MetricKind, Provider};
//!
//! static SENT: Metric =
//!     Metric { name: "mails_sent_total", help: "Mails that were sent", kind: MetricKind::Counter, labels: &["host"] };
//!
//! /// Counts what it sends, if anyone wants to know.
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
//! # Nouns
//!
//! - A [`Metric`] is a static description: name, help, [`MetricKind`] and the names of its labels. With a value for each label it is a
//!   series.
//! - A [`Provider`] hands out instruments: [`Counter`], [`Gauge`], [`Histogram`], or a gauge that is [pulled](Provider::pulled).
//!   The configuration of each component has it as `metrics: Option<Arc<dyn Provider>>`; there is no global one.
//! - [`InMemoryProvider`] is the provider that comes with this crate (feature `memory`): its [`Sample`]s are read in the process, or by a
//!   `prometheus_client` registry (feature `prometheus-client`). A [`Distribution`] is what its histograms hold.
//!
//! # Rules
//!
//! - **An instrument is a share of its series.** Several components may have instruments of one series, say two queues of one
//!   name. Gauges add up, and what one of them has told leaves with it. What counters and histograms have told stays until the
//!   last one is gone, since a counter that falls is taken for one that began anew.
//! - **Nothing is told without a provider**, and nothing is kept: a component holds an `Option` of its instruments.
//! - **Instruments may be used under a component's locks**, so they must not block, nor use the component. What is pulled is read
//!   under no lock of the provider, so it may take the component's.
//! - **A provider is somebody else's code.** A component whose work may not suffer from a panic of it keeps it behind [`CatchPanic`].
//! - **Names are those of client-go and controller-runtime** where they have one.

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

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
