//! Reflectors, indexers, shared informers and listers: a local, indexed, live copy of API objects.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pintle_informer::{Event, SharedInformer};
//! use pintle_meta::{ObjectKey, ObjectMeta};
//! # use pintle_meta::{ApiError, List, ListMeta, ListOptions, ListWatch, WatchEvent, WatchOptions};
//! # use tokio::sync::mpsc;
//!
//! struct Website {
//!     metadata: ObjectMeta,
//!     owner: String,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//! # struct Websites;
//! # struct Events(mpsc::Receiver<Result<WatchEvent<Website>, ApiError>>);
//! # impl futures_core::Stream for Events {
//! #     type Item = Result<WatchEvent<Website>, ApiError>;
//! #     fn poll_next(
//! #         mut self: std::pin::Pin<&mut Self>,
//! #         context: &mut std::task::Context<'_>,
//! #     ) -> std::task::Poll<Option<Self::Item>> {
//! #         self.0.poll_recv(context)
//! #     }
//! # }
//! # impl ListWatch<Website> for Websites {
//! #     type Events = Events;
//! #     async fn list(&self, _: &ListOptions) -> Result<List<Website>, ApiError> {
//! #         let items = vec![Website { metadata: ObjectMeta::new("team-a", "blog"), owner: "ann".into() }];
//! #         let metadata = ListMeta { resource_version: "7".into(), ..ListMeta::default() };
//! #         Ok(List { types: Default::default(), metadata, items })
//! #     }
//! #     async fn watch(&self, _: &WatchOptions) -> Result<Events, ApiError> {
//! #         let (sender, events) = mpsc::channel(1);
//! #         tokio::spawn(async move { sender.closed().await });
//! #         Ok(Events(events))
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `Websites` is the `ListWatch` of a resource: what a REST client makes, or a few lines of your own in a test.
//! let informer: SharedInformer<Website> = SharedInformer::builder(Websites)
//!     .index("owner", |site: &Website| vec![site.owner.clone()])
//!     .build();
//!
//! let mut events = informer.subscribe();
//! informer.start();
//! informer.wait_for_sync().await?;
//!
//! let sites = informer.lister();
//! assert!(sites.get(&ObjectKey::new("team-a", "blog")).is_some());
//! assert_eq!(sites.by_index("owner", "ann")?.len(), 1);
//!
//! let Some(Event::Added { object, is_initial: true }) = events.next().await else { panic!("no event") };
//! assert_eq!(object.metadata.name, "blog");
//!
//! informer.shutdown().await;
//! assert!(events.next().await.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! # Nouns
//!
//! - A [`SharedInformer`] keeps the copy of one resource. An [`InformerFactory`] shares informers between those who want
//!   the same resource. [`InformerState`] tells what keeps one from being up to date.
//! - A [`Subscription`] yields [`Event`]s: what changed, after it has changed. An [`EventHandler`] is called with them.
//! - A [`Lister`] reads the copy: by key, namespace, [`Selector`] or index, or as a [`Snapshot`].
//! - An [`Indexer`] is the store below, a [`Reflector`] the state machine that lists and watches to fill it.

mod cache;
mod driver;
mod error;
mod event;
mod factory;
mod handler;
mod indexer;
mod lister;
mod reflector;
mod selector;
mod shared_informer;
mod snapshot;
mod state;
mod subscription;

pub use error::{NotSynced, UnknownIndex, WaitError};
pub use event::Event;
pub use factory::InformerFactory;
pub use handler::{EventHandler, HandlerGuard};
pub use indexer::{IndexExists, Indexer, NAMESPACE_INDEX};
pub use lister::{Lister, NamespaceLister};
pub use reflector::{Backoff, Command, Input, Output, Reflector, ReflectorConfig, ReflectorError, Step};
pub use selector::{InvalidSelector, Selector};
pub use shared_informer::{Builder, SharedInformer};
pub use snapshot::Snapshot;
pub use state::InformerState;
pub use subscription::{Subscription, SyncHandle};
