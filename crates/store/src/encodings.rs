//! A cache of limited size for encodings of objects that differ from the stored JSON.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The maximum number of recently used objects that one eviction skips.
const MAX_SPARED: usize = 64;

/// A cached encoding of one object or of a group of objects, other than the stored JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The whole object as a protobuf message.
    Message,
    /// The metadata as JSON, with this `apiVersion`.
    Metadata(String),
    /// The metadata as a protobuf message.
    MetadataMessage,
    /// The compressed items of a list response with this `apiVersion`, as protobuf if the flag is `true`, and as JSON
    /// otherwise.
    Zipped(String, bool),
    /// The cells of the object's table row, with the `apiVersion`, the number of the object form, and a time in
    /// seconds. The cells are valid only for one second, because they contain the object's age.
    Cells(String, u64, i64),
}

impl Encoding {
    /// Returns the second in which the encoding is valid, or `None` if it is always valid.
    fn second(&self) -> Option<i64> {
        match self {
            Self::Cells(.., second) => Some(*second),
            _ => None,
        }
    }
}

/// The cached encodings of all objects of a store, including their past versions. The cache evicts encodings with the
/// second-chance algorithm, which checks the object at the front of the queue. If an encoding of this object was used
/// since the object was queued, the object moves to the back. If no encoding was used, the cache drops the object's
/// encodings.
#[derive(Debug, Default)]
pub(super) struct EncodingCache {
    max_bytes: usize,
    used_bytes: AtomicUsize,
    /// The objects with cached encodings, in eviction order. When the queue has doubled in length, removed objects are
    /// dropped from it.
    queue: Mutex<EvictionQueue>,
    /// The current second, and the objects with encodings that are valid only in this second.
    of_second: Mutex<(i64, Vec<Weak<Encodings>>)>,
}

#[derive(Debug, Default)]
struct EvictionQueue {
    next: VecDeque<Weak<Encodings>>,
    swept_at: usize,
}

#[derive(Debug)]
pub(super) struct Encodings {
    cache: Arc<EncodingCache>,
    cached: Mutex<Vec<(Encoding, Arc<[u8]>)>>,
    is_queued: AtomicBool,
    is_used: AtomicBool,
}

impl EncodingCache {
    pub(super) fn new(bytes: usize) -> Self {
        Self { max_bytes: bytes, ..Self::default() }
    }

    /// Adds the object `added`, if any, to the eviction queue, and evicts encodings until the cache is within its size
    /// limit.
    fn queue_and_evict(&self, added: Option<Weak<Encodings>>) {
        let mut queue = lock(&self.queue);
        if let Some(added) = added {
            if queue.next.len() >= queue.swept_at {
                queue.next.retain(|of| of.strong_count() > 0);
                queue.swept_at = 64 + 2 * queue.next.len();
            }
            queue.next.push_back(added);
        }
        let mut spared_left = MAX_SPARED;
        while self.used_bytes.load(Ordering::Relaxed) > self.max_bytes
            && let Some(next) = queue.next.pop_front()
        {
            let Some(of) = next.upgrade() else { continue };
            if of.is_used.swap(false, Ordering::Relaxed) && spared_left > 0 {
                spared_left -= 1;
                queue.next.push_back(next);
            } else {
                of.is_queued.store(false, Ordering::Relaxed);
                of.drop_if(|_| true);
            }
        }
    }

    /// Records that an object has an encoding that is valid only during `second`, such as table cells with ages. Drops
    /// the encodings of earlier seconds.
    fn record_second(&self, second: i64, of: Weak<Encodings>) {
        let mut of_second = lock(&self.of_second);
        let expired = if of_second.0 == second { Vec::new() } else { std::mem::take(&mut of_second.1) };
        of_second.0 = second;
        of_second.1.push(of);
        drop(of_second);
        let expired = expired.iter().filter_map(Weak::upgrade);
        expired.for_each(|of| of.drop_if(|encoding| encoding.second().is_some_and(|cached| cached != second)));
    }
}

impl Encodings {
    pub(super) fn new(cache: &Arc<EncodingCache>) -> Self {
        Self { cache: cache.clone(), cached: Mutex::default(), is_queued: false.into(), is_used: false.into() }
    }

    /// Returns an encoding of the object from the cache, or creates it with `make`. A new encoding is cached unless it
    /// exceeds the size limit of the cache.
    pub(super) fn find_or_make<E>(
        self: &Arc<Self>,
        encoding: Encoding,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let known = lock(&self.cached).iter().find(|(of, _)| *of == encoding).map(|(_, bytes)| bytes.clone());
        if let Some(known) = known {
            self.is_used.store(true, Ordering::Relaxed);
            return Ok(known);
        }
        let made: Arc<[u8]> = make()?.into();
        if used_bytes(&made) <= self.cache.max_bytes {
            self.keep(encoding, made.clone());
        }
        Ok(made)
    }

    fn keep(self: &Arc<Self>, encoding: Encoding, made: Arc<[u8]>) {
        let second = encoding.second();
        let mut cached = lock(&self.cached);
        // Drop table cells for other seconds from the cache. Also drop an equal encoding that another thread cached in
        // the meantime.
        self.drop_from(&mut cached, |of| *of == encoding || second.is_some() && of.second().is_some());
        self.cache.used_bytes.fetch_add(used_bytes(&made), Ordering::Relaxed);
        // Reserve space for only one encoding, because most objects have only one or two.
        cached.reserve_exact(1);
        cached.push((encoding, made));
        drop(cached);
        let is_new = !self.is_queued.swap(true, Ordering::Relaxed);
        self.cache.queue_and_evict(is_new.then(|| Arc::downgrade(self)));
        if let Some(second) = second {
            self.cache.record_second(second, Arc::downgrade(self));
        }
    }

    fn drop_if(&self, is_expired: impl Fn(&Encoding) -> bool) {
        self.drop_from(&mut lock(&self.cached), is_expired);
    }

    fn drop_from(&self, cached: &mut Vec<(Encoding, Arc<[u8]>)>, is_expired: impl Fn(&Encoding) -> bool) {
        let dropped: usize = cached.extract_if(.., |(of, _)| is_expired(of)).map(|(_, bytes)| used_bytes(&bytes)).sum();
        self.cache.used_bytes.fetch_sub(dropped, Ordering::Relaxed);
    }
}

impl Drop for Encodings {
    fn drop(&mut self) {
        self.drop_if(|_| true);
    }
}

fn used_bytes(bytes: &[u8]) -> usize {
    size_of::<(Encoding, Arc<[u8]>)>() + bytes.len()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn encode(of: &Arc<Encodings>, encoding: Encoding, made: &AtomicUsize) {
        let Ok(bytes) = of.find_or_make(encoding, || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![0; 1000])
        });
        assert_eq!(bytes.len(), 1000);
    }

    fn is_cached(of: &Arc<Encodings>) -> bool {
        !lock(&of.cached).is_empty()
    }

    #[test]
    fn used_encodings_outlive_unused_ones() {
        let (cache, made) = (Arc::new(EncodingCache::new(10_500)), AtomicUsize::new(0));
        let hot = Arc::new(Encodings::new(&cache));
        let cold: Vec<_> = (0..100).map(|_| Arc::new(Encodings::new(&cache))).collect();
        for of in &cold {
            encode(&hot, Encoding::Message, &made);
            encode(of, Encoding::Message, &made);
            assert!(cache.used_bytes.load(Ordering::Relaxed) <= 10_500);
        }
        assert_eq!(made.into_inner(), 101, "the hot object is encoded once");
        let cached: Vec<_> = cold.iter().map(is_cached).collect();
        assert!(
            cached[..90].iter().all(|cached| !cached) && cached[92..].iter().all(|cached| *cached),
            "the latest are cached: {cached:?}"
        );
        assert!(lock(&cache.queue).next.len() <= 10);
        drop((hot, cold));
        assert_eq!(cache.used_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn limit_holds_if_all_encodings_are_used() {
        let (cache, made) = (Arc::new(EncodingCache::new(200_000)), AtomicUsize::new(0));
        let all: Vec<_> = (0..300).map(|_| Arc::new(Encodings::new(&cache))).collect();
        for of in all.iter().chain(&all) {
            encode(of, Encoding::Message, &made);
            encode(of, Encoding::Message, &made);
            assert!(cache.used_bytes.load(Ordering::Relaxed) <= 200_000);
        }
    }

    #[test]
    fn too_large_encodings_and_dropped_objects_are_not_kept() {
        let (none, cache, made) = (Arc::default(), Arc::new(EncodingCache::new(1 << 20)), AtomicUsize::new(0));
        let of = Arc::new(Encodings::new(&none));
        encode(&of, Encoding::Message, &made);
        assert!(!is_cached(&of));
        for _ in 0..10_000 {
            encode(&Arc::new(Encodings::new(&cache)), Encoding::Message, &made);
        }
        assert!(lock(&cache.queue).next.len() <= 64);
    }

    #[test]
    fn table_cells_are_cached_for_one_second() {
        let (cache, made) = (Arc::new(EncodingCache::new(1 << 20)), AtomicUsize::new(0));
        let [one, other] = [(); 2].map(|()| Arc::new(Encodings::new(&cache)));
        let cells = |of, second| encode(of, Encoding::Cells("v1".into(), 0, second), &made);
        encode(&one, Encoding::Message, &made);
        [&one, &other, &one, &other].into_iter().for_each(|of| cells(of, 7));
        assert_eq!(made.load(Ordering::Relaxed), 3);
        cells(&other, 8);
        assert_eq!(*lock(&one.cached).iter().map(|(of, _)| of.clone()).collect::<Vec<_>>(), [Encoding::Message]);
        (9..100).for_each(|second| cells(&one, second));
        assert_eq!(cache.used_bytes.load(Ordering::Relaxed), 2 * used_bytes(&[0; 1000]));
        assert_eq!(lock(&cache.queue).next.len(), 2);
    }
}
