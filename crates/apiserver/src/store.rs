//! The server's store. The store itself is the crate `pintle-store`. [`Db`] protects this store with a lock, and
//! publishes the current state for lock-free reads. The type [`Db`] also adds a clock and notifications for watchers.
//!
//! Some types of `pintle-store` have shorter names in this crate, such as `Change` and `Range`. In this crate, the
//! short names are unambiguous.

mod db;

pub(crate) use db::{Changes, Charge, Db, Feed, FeedEnd, FeedScope, Lagged, LocalWrite, UpstreamObject, key};
pub(crate) use pintle_store::{
    ChangeKind, Compacted, Draft, Encoding, Expect, History, Interner, Key, KeyRange as Range, MemberOrder as Order,
    Neighbours, Objects, Present, Refused, ResourceKey, Run, SAME, StoreChange as Change, Stored,
    VersionedStore as Store,
};

/// Returns an object of the API version `v1` in its stored form. The object does not belong to a store.
#[cfg(test)]
pub(crate) fn sample(object: &pintle_json::Json) -> Stored {
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    Stored::of(Draft::new(&Default::default(), &object, Order::Declared, Vec::new()))
}
