//! Cached objects. Objects are decoded when they arrive, or at their first read.

mod hot;
mod record;
mod source;

use std::sync::Arc;

use pintle_meta::{Metadata, Object, ObjectMeta};

use crate::catch_drop::CatchDrop;
use crate::store::Value;

pub(crate) use self::record::{Content, Record};
pub(crate) use self::source::{Found, Source};

/// Whether a state can be read, and whether the check had to decode the state.
pub(crate) struct Readability {
    pub(crate) is_readable: bool,
    pub(crate) has_decoded: bool,
}

/// A shared reference to a cached object. A clone is cheap.
pub(crate) enum Stored<T> {
    /// An object that was decoded when it arrived, or that the caller of a [`Cache`](crate::Cache) stored.
    Eager(CatchDrop<T>),
    /// An object that is decoded when it is read.
    Lazy(Arc<Record<T>>),
}

impl<T> Stored<T> {
    /// Returns the object. Decodes the object first if it is not decoded yet. If the object cannot be decoded, returns
    /// its last decodable state. Returns `None` if no state could be decoded.
    ///
    /// Decoding runs user code, so the caller must hold no lock.
    pub(crate) fn read(&self) -> Option<Arc<T>> {
        let mut state = self.clone();
        loop {
            let earlier = match &state {
                Self::Eager(object) => return Some(Arc::clone(object)),
                Self::Lazy(record) => match record.object() {
                    Some(object) => return Some(Arc::clone(&object)),
                    None => record.earlier()?,
                },
            };
            state = earlier;
        }
    }

    /// Returns whether [`read`](Self::read) is already known to return an object. The result is correct only if the
    /// object's `Deserialize` is deterministic.
    fn is_readable(&self) -> bool {
        let mut state = self.clone();
        loop {
            let earlier = match &state {
                Self::Eager(_) => return true,
                Self::Lazy(record) if record.is_good() => return true,
                Self::Lazy(record) => record.earlier(),
            };
            match earlier {
                Some(earlier) => state = earlier,
                None => return false,
            }
        }
    }

    /// Returns whether [`read`](Self::read) returns an object. Decodes the state if it is not known yet whether the
    /// state can be decoded.
    pub(crate) fn check(&self) -> Readability {
        match self {
            Self::Lazy(_) if self.is_readable() => Readability { is_readable: true, has_decoded: false },
            Self::Lazy(_) => Readability { is_readable: self.read().is_some(), has_decoded: true },
            Self::Eager(_) => Readability { is_readable: true, has_decoded: false },
        }
    }

    /// Returns the state that [`read`](Self::read) reads.
    pub(crate) fn good_state(&self) -> Option<Self> {
        let mut state = self.clone();
        loop {
            let earlier = match &state {
                Self::Lazy(record) if record.object().is_none() => record.earlier()?,
                Self::Lazy(_) | Self::Eager(_) => return Some(state),
            };
            state = earlier;
        }
    }

    /// Returns whether both references point to the same stored state.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Eager(one), Self::Eager(other)) => Arc::ptr_eq(one, other),
            (Self::Lazy(one), Self::Lazy(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Sets the state to which reads fall back if this state cannot be decoded. `known` is the state that this state
    /// replaces.
    pub(crate) fn falls_back_to(&self, known: &Self) {
        if let Self::Lazy(record) = self
            && !self.is_same(known)
        {
            record.set_earlier(known);
        }
    }
}

impl<T> From<Arc<T>> for Stored<T> {
    fn from(object: Arc<T>) -> Self {
        Self::Eager(object.into())
    }
}

impl<T> Clone for Stored<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Eager(object) => Self::Eager(object.clone()),
            Self::Lazy(record) => Self::Lazy(record.clone()),
        }
    }
}

impl<T> Value for Stored<T> {
    fn warm(&self) -> bool {
        match self {
            Self::Eager(object) => Arc::strong_count(object) > 0,
            Self::Lazy(record) => Arc::strong_count(record) > 0,
        }
    }
}

impl<T: Object> Object for Stored<T> {
    /// Returns the metadata. If the object is not decoded, the metadata comes from its JSON.
    fn metadata(&self) -> &dyn Metadata {
        match self {
            Self::Eager(object) => object.metadata(),
            Self::Lazy(record) => &**record,
        }
    }
}

/// Parses the metadata of an object. If the metadata cannot be parsed, the result is empty. The decode error of the
/// object then contains the reason.
fn parse_metadata(json: &[u8]) -> ObjectMeta {
    serde_json::from_slice(json).unwrap_or_default()
}
