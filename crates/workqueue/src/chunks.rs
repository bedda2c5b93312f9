//! A vector that grows without moving what is in it.

use std::ops::{Index, IndexMut};

/// A vector in pieces of bounded size, so that no step under the lock takes longer the more there is: growing one allocates one
/// piece. A small one is as small as a [`Vec`].
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
    /// Sees to it that there is something at `index`. Pieces that nothing has been asked of are left out.
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
