//! Changes to objects, and the queued changes for one key.

use std::fmt;

/// A change to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<K, T> {
    /// The object is new.
    Added(T),
    /// The object changed.
    Updated(T),
    /// The object was deleted.
    Deleted(DeletedObject<K, T>),
    /// A list that replaces all objects contains the object. The object may be new, changed or unchanged.
    Replaced(T),
    /// A resync delivers the unchanged object again.
    Sync(T),
}

/// The kinds of [`Delta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// The kind of [`Delta::Added`].
    Added,
    /// The kind of [`Delta::Updated`].
    Updated,
    /// The kind of [`Delta::Deleted`].
    Deleted,
    /// The kind of [`Delta::Replaced`].
    Replaced,
    /// The kind of [`Delta::Sync`].
    Sync,
}

/// A deleted object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletedObject<K, T> {
    /// The deletion was observed, and this variant contains the object's final state.
    Observed(T),
    /// The deletion was not observed, but a later list does not contain the object. The object's final state is
    /// unknown.
    Tombstone(DeletedFinalStateUnknown<K, T>),
}

/// A tombstone for a deleted object whose final state was not observed. The name of this type comes from client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedFinalStateUnknown<K, T> {
    /// The key of the object.
    pub key: K,
    /// The last observed state of the object, if known, which may be older than the object's final state.
    pub object: Option<T>,
}

/// The queued changes for one key, oldest first. The list contains at least one change.
///
/// # Examples
///
/// ```
/// use pintle_delta_fifo::{Delta, Deltas, ZeroLengthDeltas};
///
/// let deltas = Deltas::<&str, _>::try_from(vec![Delta::Added(1), Delta::Updated(2)])?;
/// assert_eq!((deltas.oldest(), deltas.newest()), (&Delta::Added(1), &Delta::Updated(2)));
/// # Ok::<(), ZeroLengthDeltas>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deltas<K, T> {
    oldest: Delta<K, T>,
    /// All changes except the oldest change. Most keys have a single change when they are popped, and a separate field
    /// for it avoids an allocation.
    rest: Vec<Delta<K, T>>,
}

impl<K, T> Delta<K, T> {
    /// Returns this change's kind.
    pub fn delta_type(&self) -> DeltaType {
        match self {
            Self::Added(_) => DeltaType::Added,
            Self::Updated(_) => DeltaType::Updated,
            Self::Deleted(_) => DeltaType::Deleted,
            Self::Replaced(_) => DeltaType::Replaced,
            Self::Sync(_) => DeltaType::Sync,
        }
    }

    /// Returns the object's last observed state, or `None` for a tombstone without an object.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => Some(object),
            Self::Deleted(deleted) => deleted.object(),
        }
    }

    /// Converts the change into the object's last observed state, or `None` for a tombstone without an object.
    pub fn into_object(self) -> Option<T> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => Some(object),
            Self::Deleted(deleted) => deleted.into_object(),
        }
    }
}

impl<K, T> DeletedObject<K, T> {
    /// Returns the object's last observed state, or `None` for a tombstone without an object.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Observed(object) => Some(object),
            Self::Tombstone(tombstone) => tombstone.object.as_ref(),
        }
    }

    /// Converts the deletion into the object's last observed state, or `None` for a tombstone without an object.
    pub fn into_object(self) -> Option<T> {
        match self {
            Self::Observed(object) => Some(object),
            Self::Tombstone(tombstone) => tombstone.object,
        }
    }

    /// Returns `true` for a tombstone, which means that the object's final state is unknown.
    pub fn is_tombstone(&self) -> bool {
        matches!(self, Self::Tombstone(_))
    }
}

impl<K, T> Deltas<K, T> {
    /// Creates a list with a single change.
    pub fn new(delta: Delta<K, T>) -> Self {
        Self { oldest: delta, rest: Vec::new() }
    }

    /// Returns the oldest change.
    pub fn oldest(&self) -> &Delta<K, T> {
        &self.oldest
    }

    /// Returns the newest change.
    pub fn newest(&self) -> &Delta<K, T> {
        self.rest.last().unwrap_or(&self.oldest)
    }

    /// Returns the number of changes, which is at least 1.
    #[expect(clippy::len_without_is_empty, reason = "there is always at least one change")]
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// Returns all changes, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Delta<K, T>> {
        std::iter::once(&self.oldest).chain(&self.rest)
    }

    /// Appends a change. If this change and the previous change are both deletions, keeps the previous one if it was
    /// observed, and otherwise the new one. Other changes are never merged.
    pub(crate) fn push(&mut self, delta: Delta<K, T>) {
        let Delta::Deleted(_) = &delta else { return self.rest.push(delta) };
        let newest = self.rest.last_mut().unwrap_or(&mut self.oldest);
        match newest {
            Delta::Deleted(DeletedObject::Observed(_)) => {}
            Delta::Deleted(DeletedObject::Tombstone(_)) => *newest = delta,
            _ => self.rest.push(delta),
        }
    }
}

impl<K, T> TryFrom<Vec<Delta<K, T>>> for Deltas<K, T> {
    type Error = ZeroLengthDeltas;

    fn try_from(deltas: Vec<Delta<K, T>>) -> Result<Self, ZeroLengthDeltas> {
        let mut deltas = deltas.into_iter();
        let oldest = deltas.next().ok_or(ZeroLengthDeltas)?;
        Ok(Self { oldest, rest: deltas.collect() })
    }
}

impl<K, T> From<Deltas<K, T>> for Vec<Delta<K, T>> {
    fn from(deltas: Deltas<K, T>) -> Self {
        deltas.into_iter().collect()
    }
}

impl<K, T> IntoIterator for Deltas<K, T> {
    type Item = Delta<K, T>;
    type IntoIter = std::iter::Chain<std::iter::Once<Delta<K, T>>, std::vec::IntoIter<Delta<K, T>>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.oldest).chain(self.rest)
    }
}

impl fmt::Display for DeltaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The error when an empty list is converted to [`Deltas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLengthDeltas;

impl fmt::Display for ZeroLengthDeltas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key needs at least one delta")
    }
}

impl std::error::Error for ZeroLengthDeltas {}
