//! What client-go gives Go, for Rust: the machinery that every Kubernetes controller stands on.
//!
//! This crate only puts the others under one name. Each can be used alone, as `pintle-workqueue` and so on; the lower ones know
//! nothing of Kubernetes or of an async runtime.
//!
//! The example talks to an API server that runs within the test. Against a cluster, take the configuration from
//! [`kubeconfig`] instead; nothing else changes.
//!
//! ```
//! use pintle::apiserver::ApiServer;
//! use pintle::controller::{Action, Controller, Request};
//! use pintle::informer::{InformerConfig, SharedInformer};
//! use pintle::meta::{ObjectMeta, PostOptions};
//! use pintle::restreq::{Api, RestClient};
//! use serde::{Deserialize, Serialize};
//! use tokio_util::sync::CancellationToken;
//!
//! #[derive(Clone, Debug, Deserialize, Serialize)]
//! struct ConfigMap {
//!     metadata: ObjectMeta,
//! }
//! pintle::meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start().await?;
//! let client = RestClient::new(server.client_config())?;
//! let maps: Api<ConfigMap> = Api::namespaced(client, "default");
//! maps.create(&ConfigMap { metadata: ObjectMeta::new("default", "settings") }, &PostOptions::default()).await?;
//!
//! let informer: SharedInformer<ConfigMap> = SharedInformer::new(maps, InformerConfig::default());
//! let (lister, stop) = (informer.lister(), CancellationToken::new());
//! let done = stop.clone();
//! let controller = Controller::of(&informer).reconciler(move |request: Request| {
//!     let (found, done) = (lister.get(&request.key), done.clone());
//!     async move {
//!         // `None` here means that the object was deleted.
//!         println!("{}: {found:?}", request.key);
//!         done.cancel();
//!         Ok(Action::await_change())
//!     }
//! });
//! controller.run(&stop).await?;
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The crates
//!
//! - **On the wire**: [`kubeconfig`] finds out how to reach a server; [`restreq`] sends requests and holds watches.
//! - **In the cache**: [`informer`] keeps a live, indexed copy of objects; [`delta_fifo`] is the queue beneath it.
//! - **At work**: [`controller`] turns changes into keys and hands them to a reconciler; [`workqueue`] and [`ratelimit`] hold
//!   keys back and hand them out; [`leaderelect`] lets one replica work; [`events`] tells users what happened.
//! - **In common**: [`meta`] is the vocabulary.
//! - **For tests and demos**: [`apiserver`], with the feature of that name.
//!
//! # Reading on
//!
//! The site that `cargo xtask docs` builds has the pages of the repository's docs folder as well, in `_documentation`.

#[doc(inline)]
#[cfg(feature = "apiserver")]
pub use pintle_apiserver as apiserver;
#[doc(inline)]
pub use pintle_controller as controller;
#[doc(inline)]
pub use pintle_delta_fifo as delta_fifo;
#[doc(inline)]
pub use pintle_events as events;
#[doc(inline)]
pub use pintle_informer as informer;
#[doc(inline)]
pub use pintle_kubeconfig as kubeconfig;
#[doc(inline)]
pub use pintle_leaderelect as leaderelect;
#[doc(inline)]
pub use pintle_meta as meta;
#[doc(inline)]
pub use pintle_ratelimit as ratelimit;
#[doc(inline)]
pub use pintle_restreq as restreq;
#[doc(inline)]
pub use pintle_workqueue as workqueue;

/// The pages of the repository's docs folder.
#[cfg(pintle_docs)]
pub mod _documentation {
    #[doc = include_str!("../../../docs/ARCHITECTURE.md")]
    pub mod architecture {}

    #[doc = include_str!("../../../docs/STYLE.md")]
    pub mod style {}
}

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
