//! The storage of an API server, which adds a lock, a clock, watchers and lock-free reads to `pintle-store`.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - [`Db`] protects the store with a lock, publishes the current state for lock-free reads, and notifies followers of
//!   changes.
//! - A [`Feed`] delivers the changes of one resource, and [`Changes`] delivers the changes of several resources.
//! - A [`ContinueToken`](continue_token::ContinueToken) identifies the next page of a list.
//! - [`Committed`](committed::Committed) records the last write of a request.
//!
//! Some types of `pintle-store` have shorter names in this crate, such as [`Change`] and [`Range`]. The crate does not validate objects
//! and has no code for specific kinds. To read the code, start with `db.rs`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pintle_apimachinery::clock::Clock;
//! use pintle_json::json;
//! use pintle_storage::{Db, Draft, Expect, History, Order};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = Arc::new(Clock::new(None));
//! let db = Db::new(1, History::default(), |names, _, object| Draft::new(names, object, Order::Declared, Vec::new()), clock);
//! let created = db.put(&"configmaps".into(), "default/a", Expect::Absent, json!({"metadata": {"name": "a"}})).expect("no such object");
//! assert_eq!(db.revision(), created.revision());
//! # }
//! ```

#![allow(missing_docs, reason = "internal crate: the crate page is the contract")]

mod cluster;
pub mod committed;
pub mod continue_token;
mod db;
pub mod health;

pub use db::{Changes, Charge, Db, Feed, FeedEnd, FeedScope, Lagged, LocalWrite, UpstreamObject};
pub use pintle_store::{
    ChangeKind, ChangeLog, Compacted, Draft, Encoding, Expect, History, Interner, Key, KeyRange as Range,
    MemberOrder as Order, Neighbours, Objects, Present, Refused, ResourceKey, Run, SAME, StoreChange as Change, Stored,
    Tree, VersionedStore as Store,
};
