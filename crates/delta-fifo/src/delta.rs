//! What can happen to an object, and what waits for one key.

use std::fmt;

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<K, T> {
    /// The object is new.
    Added(T),
    /// The object changed.
    Updated(T),
    /// The object is gone.
    Deleted(DeletedObject<K, T>),
    /// The object is part of a list that replaces everything. It may be new, changed, or as before.
    Replaced(T),
    /// Nothing happened: the object is delivered again, so that the consumer looks at it again.
    Sync(T),
}

/// The kinds of [`Delta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// [`Delta::Added`].
    Added,
    /// [`Delta::Updated`].
    Updated,
    /// [`Delta::Deleted`].
    Deleted,
    /// [`Delta::Replaced`].
    Replaced,
    /// [`Delta::Sync`].
    Sync,
}

/// What is known of an object that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletedObject<K, T> {
    /// The deletion was seen; this is the object as it was then.
    Observed(T),
    /// The deletion was inferred.
    Tombstone(DeletedFinalStateUnknown<K, T>),
}

/// A tombstone: an object is gone, and its last state was not seen. The name is client-go's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedFinalStateUnknown<K, T> {
    /// The key of the object.
    pub key: K,
    /// The last state that was seen, if any was. It may be older than the one in which the object was deleted.
    pub object: Option<T>,
}

/// All changes of one key that wait together, oldest first. There is always at least one.
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
    /// Most keys have one change when their turn comes, and then this takes no allocation.
    rest: Vec<Delta<K, T>>,
}

impl<K, T> Delta<K, T> {
    /// Which kind of change it is.
    pub fn delta_type(&self) -> DeltaType {
        match self {
            Self::Added(_) => DeltaType::Added,
            Self::Updated(_) => DeltaType::Updated,
            Self::Deleted(_) => DeltaType::Deleted,
            Self::Replaced(_) => DeltaType::Replaced,
            Self::Sync(_) => DeltaType::Sync,
        }
    }

    /// The object, in the last state that was seen. Only a tombstone may have none.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => Some(object),
            Self::Deleted(deleted) => deleted.object(),
        }
    }

    /// The same, by value.
    pub fn into_object(self) -> Option<T> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => Some(object),
            Self::Deleted(deleted) => deleted.into_object(),
        }
    }
}

impl<K, T> DeletedObject<K, T> {
    /// The object, in the last state that was seen.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Observed(object) => Some(object),
            Self::Tombstone(tombstone) => tombstone.object.as_ref(),
        }
    }

    /// The same, by value.
    pub fn into_object(self) -> Option<T> {
        match self {
            Self::Observed(object) => Some(object),
            Self::Tombstone(tombstone) => tombstone.object,
        }
    }

    /// Whether the deletion was inferred.
    pub fn is_tombstone(&self) -> bool {
        matches!(self, Self::Tombstone(_))
    }
}

impl<K, T> Deltas<K, T> {
    /// The changes of a key that has only this one.
    pub fn new(delta: Delta<K, T>) -> Self {
        Self { oldest: delta, rest: Vec::new() }
    }

    /// The first change.
    pub fn oldest(&self) -> &Delta<K, T> {
        &self.oldest
    }

    /// The last change.
    pub fn newest(&self) -> &Delta<K, T> {
        self.rest.last().unwrap_or(&self.oldest)
    }

    /// How many there are: at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// All changes, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Delta<K, T>> {
        std::iter::once(&self.oldest).chain(&self.rest)
    }

    /// Appends a change. Two deletions in a row are one: the first, which saw more of the object, unless it is a tombstone.
    /// Nothing else merges.
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

    /// Oldest first.
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

/// There are no [`Deltas`] without a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLengthDeltas;

impl fmt::Display for ZeroLengthDeltas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key has at least one delta, and here is none")
    }
}

impl std::error::Error for ZeroLengthDeltas {}
