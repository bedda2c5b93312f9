//! The objects of a list.

use std::sync::{Arc, OnceLock};

use crate::store::Pages;
use crate::stored::Stored;

pub(crate) struct Listed<T> {
    pages: Pages<Stored<T>>,
    /// The slots (positions in the pages) of the undecodable objects, which the list omits, in ascending order.
    unreadable: Vec<usize>,
    /// The slot of each object in the list, computed at the first access to an object by its position in the list.
    slots: OnceLock<Vec<u32>>,
    decoded: OnceLock<Box<[OnceLock<Arc<T>>]>>,
}

impl<T> Listed<T> {
    pub(crate) fn new(pages: Pages<Stored<T>>, unreadable: Vec<usize>) -> Self {
        Self { pages, unreadable, slots: OnceLock::new(), decoded: OnceLock::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len() - self.unreadable.len()
    }

    pub(crate) fn next(&self, slot: &mut usize) -> Option<&Stored<T>> {
        loop {
            let object = self.pages.next(slot)?;
            if self.unreadable.is_empty() || self.unreadable.binary_search(&(*slot - 1)).is_err() {
                return Some(object);
            }
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Arc<T>> {
        let slot = *self.slots.get_or_init(|| self.slots()).get(index)?;
        match self.pages.at(slot as usize)? {
            Stored::Eager(object, _) => Some(object),
            object @ Stored::Lazy(_) => {
                let decoded = self.decoded.get_or_init(|| (0..self.len()).map(|_| OnceLock::new()).collect());
                let place = decoded.get(index)?;
                if place.get().is_none() {
                    // Another thread may have stored the same decoded object in the meantime.
                    let _ = place.set(object.read()?);
                }
                place.get()
            }
        }
    }

    fn slots(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.len());
        let mut slot = 0;
        while self.next(&mut slot).is_some() {
            slots.push(slot as u32 - 1);
        }
        slots
    }
}
