//! A connection to a Kubernetes cluster, with shared clients, informers, recorders and electors.
//!
//! ```no_run
//! use pintle_cluster::Cluster;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::infer()?;
//! println!("connected to {}", cluster.config().server);
//! # Ok(())
//! # }
//! ```
//!
//! # Main types
//!
//! - A [`Cluster`] creates clients, informers, recorders and electors, which share connections and caches.
//! - A [`Reader`] reads objects from a cache or from the server.
//! - A [`ClusterConfig`] contains the connection settings, the metrics provider and the transport layer.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `apiserver` | `Cluster::embedded` and `Cluster::plan`, with an API server in the same process |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod cluster;
mod config;
mod error;
#[cfg(feature = "apiserver")]
mod plan;
mod reader;

pub use cluster::Cluster;
pub use config::ClusterConfig;
pub use error::Error;
pub use reader::Reader;

// Runs the README example as a doc test.
#[cfg(all(doctest, feature = "apiserver"))]
#[doc = include_str!("../README.md")]
struct Readme;
