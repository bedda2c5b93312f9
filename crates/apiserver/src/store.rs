//! The store as the server has it: [`Db`] puts the engine, which is a crate of its own, behind a lock, and what is there beside it, for
//! those who read; and adds a clock and the watchers' wake-ups. The words of the engine are short here, where there is no other change and no other order.

mod db;

pub(crate) use db::{Changes, Charge, Db, Feed, FeedScope, Lagged, Over, Shown, WrittenHere, key};
pub(crate) use pintle_store::{
    ChangeKind, Compacted, Draft, Encoding, Expect, History, Interner, Key, KeyRange as Range, MemberOrder as Order,
    Neighbours, Objects, Present, Refused, ResourceKey, Run, SAME, StoreChange as Change, Stored,
    VersionedStore as Store,
};

/// An object as it is stored in `v1`, of no store.
#[cfg(test)]
pub(crate) fn sample(object: &pintle_json::Json) -> Stored {
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    Stored::of(Draft::new(&Default::default(), &object, Order::Declared, Vec::new()))
}
