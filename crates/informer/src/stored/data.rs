//! The data of cached objects. These types are in one module, because they refer to each other: a record refers to the
//! source of its informer, the source refers to the records with decoded objects, and a record refers to earlier states.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak, atomic};

use pintle_meta::{__private, ObjectMeta};
use tokio::sync::Notify;

use crate::catch_drop::CatchDrop;
use crate::no_subscriber::NoSubscriberWarning;
use crate::sync::atomic::{AtomicBool, AtomicU8};
use crate::sync::{Condvar, Mutex};
use crate::undecodable::Undecodable;
use crate::writer::LastWrite;

/// A shared reference to a cached object. A clone is cheap.
pub(crate) enum Stored<T> {
    /// An object that was decoded when it arrived, or that the caller of a [`Cache`](crate::Cache) stored.
    Eager(CatchDrop<T>, LastWrite),
    /// An object that is decoded on read.
    Lazy(Arc<Record<T>>),
}

/// An object that is decoded on the first read and then shared by all readers. The decoded object stays in memory until
/// the memory budget of the informer is exceeded. After the decoded object was dropped, the next read decodes the
/// object again.
pub(crate) struct Record<T> {
    pub(super) source: Arc<Source<T>>,
    /// The JSON of the object, followed by the unescaped text of each identity field that contains escape sequences.
    pub(super) data: Box<[u8]>,
    pub(super) json_len: u32,
    /// The positions of the name, the namespace, the uid and the resourceVersion in `data`.
    pub(super) head: [Range<u32>; 4],
    pub(super) metadata_at: Range<u32>,
    pub(super) generation: i64,
    pub(super) last_write: LastWrite,
    pub(super) is_terminating: bool,
    /// Whether the object can be decoded: one of [`UNCHECKED`], [`GOOD`] and [`BAD`].
    pub(super) quality: AtomicU8,
    pub(super) is_unknown: AtomicBool,
    /// Whether the object has been read since the clock hand last passed this record.
    pub(super) was_read: AtomicBool,
    /// Whether a read found no decodable state. `was_unreadable` is written while `fallback` is locked.
    pub(super) was_unreadable: AtomicBool,
    pub(super) slot: Mutex<Slot<T>>,
    pub(super) decoded: Condvar,
    /// The earlier state that reads return if this state cannot be decoded. There is no fallback if this state was
    /// decoded successfully.
    pub(super) fallback: Mutex<Fallback<T>>,
    /// The labels, annotations, finalizers and owners, if they have been read.
    pub(super) more: OnceLock<Box<ObjectMeta>>,
}

pub(super) const UNCHECKED: u8 = 0;
pub(super) const GOOD: u8 = 1;
pub(super) const BAD: u8 = 2;

pub(super) enum Slot<T> {
    Empty,
    Busy,
    Ready(CatchDrop<T>),
}

pub(super) enum Fallback<T> {
    None,
    State(Stored<T>),
    /// An earlier state that is not known to be decodable yet. The number is the position of the undecodable state in
    /// the sequence.
    Unproven(Arc<Sequence<T>>, u32),
}

/// Consecutive states of an object that were all stored before the first successful decoding. Only two states of the
/// sequence stay in memory: the oldest state, and the oldest state that a reader has decoded.
pub(super) struct Sequence<T> {
    pub(super) oldest: Stored<T>,
    /// The decoded state with the lowest position, and this position.
    pub(super) decoded: Mutex<Option<(u32, Stored<T>)>>,
}

pub(crate) struct Source<T> {
    pub(super) informer: String,
    pub(super) decode: fn(&[u8]) -> Result<T, String>,
    pub(super) hot: Hot<T>,
    /// Objects that could not be decoded and that the informer has not handled yet.
    pub(super) found: __private::Mutex<Vec<Found<T>>>,
    pub(super) has_unchecked: atomic::AtomicBool,
    /// The number of records without a known decodable state.
    pub(super) unknown: atomic::AtomicUsize,
    /// Notifies waiting tasks when an object is stored or cannot be decoded.
    pub(crate) changed: Notify,
    pub(super) no_subscriber: NoSubscriberWarning,
}

pub(crate) struct Found<T> {
    /// A weak reference, because the record refers to the source.
    pub(crate) record: Weak<Record<T>>,
    pub(crate) entry: Undecodable,
}

/// The decoded objects of an informer. If the objects exceed the budget, the clock algorithm for page replacement
/// removes objects. A clock hand passes over the objects in rounds. The hand removes each object that has not been read
/// since the previous round and is not in use.
pub(super) struct Hot<T> {
    pub(super) limit: usize,
    pub(super) ring: Mutex<Ring<T>>,
}

pub(super) struct Ring<T> {
    /// The records that contain decoded objects, with the estimated size of each object. The clock hand points to the
    /// first record.
    pub(super) records: VecDeque<(Weak<Record<T>>, usize)>,
    pub(super) bytes: usize,
}
