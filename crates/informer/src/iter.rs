//! Iterators over cached objects.

use std::sync::Arc;

use crate::listed::Listed;
use crate::store::{Pin, Reading};
use crate::stored::Stored;

/// An iterator over the objects of a [`Snapshot`](crate::Snapshot) or a [list](crate::Objects). The iterator keeps the
/// snapshot or list in memory.
pub struct Iter<T> {
    objects: Source<T>,
}

enum Source<T> {
    Snapshot(Reading<Stored<T>, Stored<T>>),
    /// Iterates over the objects of `list`, starting at `slot`.
    List {
        list: Arc<Listed<T>>,
        slot: usize,
    },
}

impl<T> Iter<T> {
    pub(crate) fn of_snapshot(pin: Pin<Stored<T>>) -> Self {
        Self { objects: Source::Snapshot(Reading::new(pin)) }
    }

    pub(crate) fn of_list(list: Arc<Listed<T>>) -> Self {
        Self { objects: Source::List { list, slot: 0 } }
    }

    fn next_stored(&mut self) -> Option<Stored<T>> {
        match &mut self.objects {
            Source::Snapshot(reading) => {
                let next = reading.next(|_, object| Some(object.clone()));
                drop(reading.take_read_pages());
                next
            }
            Source::List { list, slot } => list.next(slot).cloned(),
        }
    }
}

impl<T> Iterator for Iter<T> {
    type Item = Arc<T>;

    fn next(&mut self) -> Option<Arc<T>> {
        loop {
            if let Some(object) = self.next_stored()?.into_read() {
                return Some(object);
            }
        }
    }
}
