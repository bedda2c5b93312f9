//! Cached objects, which are decoded when they arrive or when they are first read.

mod data;
mod fallback;
mod hot;
mod lease;
mod record;
mod source;

use std::sync::Arc;

use pintle_meta::{Metadata, Object};

use crate::catch_drop::CatchDrop;
use crate::store::Value;
use crate::writer::LastWrite;

pub(crate) use self::data::{Found, Record, Source, Stored};
pub(crate) use self::lease::Lease;
pub(crate) use self::record::{Content, HeadText};
pub(crate) use self::source::from_json;

pub(crate) struct Readability<T> {
    pub(crate) is_readable: bool,
    pub(crate) has_decoded: bool,
    pub(crate) lease: Option<Lease<T>>,
}

impl<T> Stored<T> {
    /// Returns the object, and decodes it first if it is not decoded yet. If the object cannot be decoded, this method
    /// returns an earlier decodable state. Returns `None` if the object has no decodable state.
    ///
    /// Decoding runs user code, so the caller must not hold a lock.
    pub(crate) fn read(&self) -> Option<Arc<T>> {
        match self {
            Self::Eager(object, _) => Some(Arc::clone(object)),
            Self::Lazy(record) => read_record(record),
        }
    }

    pub(crate) fn into_read(self) -> Option<Arc<T>> {
        match self {
            Self::Eager(object, _) => Some(object.into_arc()),
            Self::Lazy(record) => read_record(&record),
        }
    }

    /// Calls `look` with the object that [`read`](Self::read) would return. Does not change the reference count of a
    /// decoded object.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Arc<T>) -> R) -> Option<R> {
        match self {
            Self::Eager(object, _) => Some(look(object)),
            Self::Lazy(record) => read_record(record).as_ref().map(look),
        }
    }

    /// Returns `true` if it is already known that [`read`](Self::read) will return an object. The result is correct
    /// only if the object's `Deserialize` implementation is deterministic.
    pub(crate) fn is_readable(&self) -> bool {
        let Self::Lazy(record) = self else { return true };
        let is_readable = record.is_readable();
        if is_readable {
            record.becomes_known();
        }
        is_readable
    }

    /// Checks whether [`read`](Self::read) will return an object. Decodes the state if it is not known yet whether the
    /// state can be decoded. The lease in the result keeps the decoded object in memory. The object stays in memory
    /// longer if a reader has read it.
    pub(crate) fn check(&self) -> Readability<T> {
        match self {
            Self::Lazy(record) if !self.is_readable() => {
                let lease = record.lend();
                let is_readable = lease.is_some() || self.is_readable() || self.read().is_some();
                Readability { is_readable, has_decoded: true, lease }
            }
            Self::Lazy(_) | Self::Eager(..) => Readability { is_readable: true, has_decoded: false, lease: None },
        }
    }

    /// Returns this state, or the earlier state that reads return if this state is known to be undecodable.
    pub(crate) fn good_state(&self) -> Option<Self> {
        match self {
            Self::Lazy(record) if record.is_bad() => record.earlier(),
            Self::Lazy(_) | Self::Eager(..) => Some(self.clone()),
        }
    }

    /// Returns `true` if a read of this undecodable state found no decodable state. A later read may find a decodable
    /// state if an earlier state was decoded in the meantime.
    pub(crate) fn was_unreadable(&self) -> bool {
        matches!(self, Self::Lazy(record) if record.was_unreadable())
    }

    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::Lazy(record) if record.is_bad())
    }

    /// Returns the field managers of the newest write in this state of the object.
    pub(crate) fn last_write(&self) -> LastWrite {
        match self {
            Self::Eager(_, last_write) => *last_write,
            Self::Lazy(record) => record.last_write,
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Eager(one, _), Self::Eager(other, _)) => Arc::ptr_eq(one, other),
            (Self::Lazy(one), Self::Lazy(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Sets the state that reads return if this state cannot be decoded. `known` is the previous state of the object.
    pub(crate) fn falls_back_to(&self, known: &Self) {
        if let Self::Lazy(record) = self
            && !self.is_same(known)
        {
            record.follows(known);
        }
    }
}

impl<T> From<Arc<T>> for Stored<T> {
    fn from(object: Arc<T>) -> Self {
        Self::Eager(object.into(), LastWrite::default())
    }
}

impl<T> Clone for Stored<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Eager(object, last_write) => Self::Eager(object.clone(), *last_write),
            Self::Lazy(record) => Self::Lazy(record.clone()),
        }
    }
}

impl<T> Value for Stored<T> {
    fn warm(&self) -> bool {
        match self {
            Self::Eager(object, _) => Arc::strong_count(object) > 0,
            Self::Lazy(record) => Arc::strong_count(record) > 0,
        }
    }
}

impl<T: Object> Object for Stored<T> {
    /// Returns the metadata. If the object is not decoded, the metadata comes from its JSON.
    fn metadata(&self) -> &dyn Metadata {
        match self {
            Self::Eager(object, _) => object.metadata(),
            Self::Lazy(record) => &**record,
        }
    }
}

/// Returns the decoded object of a record, or an earlier decodable state of the object.
fn read_record<T>(record: &Arc<Record<T>>) -> Option<Arc<T>> {
    if let Some(object) = record.object() {
        return Some(object.into_arc());
    }
    match record.earlier()? {
        Stored::Eager(object, _) => Some(object.into_arc()),
        Stored::Lazy(earlier) => earlier.object().map(CatchDrop::into_arc),
    }
}
