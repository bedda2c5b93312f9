//! Records the responses of a `ListWatch` in a file, and replays them to an informer in a test.
//!
//! With this crate, an incident in a production cluster can become a test. Recording does not add test code to a
//! program.
//!
//! ```
//! use pintle_informer::{InformerConfig, SharedInformer};
//! use pintle_meta::{ApiResource, PartialObject, Scope};
//! use pintle_recorder::{Recorder, Recording};
//! use pintle_testing::{Collection, CollectionConfig};
//! use serde_json::json;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
//!     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
//!     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "web"}}));
//!     let directory = tempfile::tempdir()?;
//!     let path = directory.path().join("pods.recording");
//!
//!     let recorder = Recorder::create(pods, &path, 64 << 20)?;
//!     let written = recorder.written();
//!     let informer = SharedInformer::new(recorder, InformerConfig::default());
//!     informer.start();
//!     informer.wait_for_sync().await?;
//!     informer.shutdown().await;
//!     written.await?;
//!
//!     let informer = SharedInformer::new(Recording::<PartialObject>::open(&path)?, InformerConfig::default());
//!     informer.start();
//!     informer.wait_for_sync().await?;
//!     assert_eq!(informer.lister().list()[0].metadata.name, "web");
//!     Ok(())
//! }
//! ```
//!
//! # Overview
//!
//! - A [`Recorder`] wraps a source and records its responses. The sources of several namespaces can
//!   [share](Recorder::record) a file. See [`Recorder`] for the format of the file.
//! - A [`Recording`] replays a file to an informer, with the recorded delays.

#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod line;
mod recorder;
mod recording;
mod writer;

pub use recorder::{Recorded, Recorder};
pub use recording::{Recording, Replayed};

// Runs the README examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
