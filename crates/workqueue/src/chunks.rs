//! A vector that never moves its elements when it grows.

use std::ops::{Index, IndexMut};

/// A vector that stores its elements in chunks of limited size. Growing the vector allocates at most one chunk and
/// moves no elements. A push into a long vector therefore holds the queue's lock no longer than a push into a short
/// vector. A short vector takes no more memory than a [`Vec`].
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
}

const CHUNK: usize = 1024;

impl<T> Chunks<T> {
    pub(crate) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(crate) fn is_large(&self) -> bool {
        self.chunks.len() > 1
    }

    pub(crate) fn push(&mut self, value: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(value),
            last => {
                let mut chunk = Vec::with_capacity(if last.is_some() { CHUNK } else { 1 });
                chunk.push(value);
                self.chunks.push(chunk);
            }
        }
    }
}

impl<T: Clone> Chunks<T> {
    /// Grows the vector with copies of `with` until it contains `index`. Chunks before `index` that were never
    /// accessed stay empty.
    pub(crate) fn fill(&mut self, index: usize, with: T) {
        let (chunk, at) = (index / CHUNK, index % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Vec::new);
        }
        let chunk = &mut self.chunks[chunk];
        if chunk.len() <= at {
            chunk.resize(at + 1, with);
        }
    }
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::order::tests::config;

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn filled_values_stay(puts in proptest::collection::vec((0..20 * CHUNK, any::<u32>()), 1..200)) {
            let (mut chunks, mut expected) = (Chunks::default(), BTreeMap::new());
            for (index, value) in puts {
                chunks.fill(index, 0);
                if !expected.contains_key(&index) {
                    prop_assert_eq!(chunks[index], 0);
                }
                chunks[index] = value;
                expected.insert(index, value);
                for (index, value) in &expected {
                    prop_assert_eq!(chunks[*index], *value);
                }
            }
            for (at, chunk) in chunks.chunks.iter().enumerate() {
                let last = expected.range(at * CHUNK..(at + 1) * CHUNK).next_back();
                prop_assert_eq!(chunk.len(), last.map_or(0, |(at, _)| at % CHUNK + 1));
            }
        }
    }

    #[test]
    fn growth_does_not_move_elements() {
        let mut chunks = Chunks::default();
        (0..CHUNK).for_each(|value| chunks.push(value));
        assert_eq!((chunks.len(), chunks.is_large()), (CHUNK, false));
        let place = std::ptr::from_ref(&chunks[0]);
        (CHUNK..10 * CHUNK).for_each(|value| chunks.push(value));
        assert_eq!((chunks.len(), chunks.is_large()), (10 * CHUNK, true));
        assert!((0..10 * CHUNK).all(|value| chunks[value] == value));
        assert_eq!(std::ptr::from_ref(&chunks[0]), place);
    }
}
