//! The decoder and the memory budget that all objects of an informer share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pintle_meta::__private::Mutex;
use pintle_meta::{DecodeError, Object, ObjectKey};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::data::{Found, Hot, Source};
use crate::no_subscriber::NoSubscriberWarning;
use crate::panic::catch;
use crate::undecodable::{Undecodable, cannot_decode};

impl<T> Source<T> {
    /// Creates the source of an informer. The decoded objects may take about `hot_bytes` bytes of memory in total.
    pub(crate) fn new(informer: String, hot_bytes: usize) -> Self
    where
        T: Object + DeserializeOwned,
    {
        Self {
            informer,
            decode,
            hot: Hot::new(hot_bytes),
            found: Mutex::default(),
            has_unchecked: AtomicBool::new(false),
            unknown: AtomicUsize::new(0),
            changed: Notify::new(),
            no_subscriber: NoSubscriberWarning::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn replace_decode(&mut self, decode: fn(&[u8]) -> Result<T, String>) {
        self.decode = decode;
    }

    pub(super) fn decode(&self, json: &[u8]) -> Result<T, String> {
        (self.decode)(json)
    }

    pub(super) fn report(&self, found: Found<T>) {
        let entry = found.entry.clone();
        self.found.lock().push(found);
        self.changed.notify_one();
        // Log last, because a `tracing` subscriber may panic.
        let Undecodable { key, error, .. } = &entry;
        tracing::warn!(informer = %self.informer, %key, error, "cannot decode an object");
        self.no_subscriber.warn(|| cannot_decode(&self.informer, &entry));
    }

    /// Returns the undecodable objects that the informer has not handled yet, in the order of their detection.
    pub(crate) fn found(&self) -> Vec<Found<T>> {
        let found = self.found.lock();
        let cloned = |found: &Found<T>| Found { record: found.record.clone(), entry: found.entry.clone() };
        found.iter().map(cloned).collect()
    }

    /// Removes the `count` objects that were found first, because the informer has handled them.
    pub(crate) fn forget_found(&self, count: usize) {
        let mut found = self.found.lock();
        let count = count.min(found.len());
        found.drain(..count);
    }

    pub(crate) fn stored_unchecked(&self) {
        if !self.has_unchecked.swap(true, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// Returns `true` if there is a record without a known decodable state. A record that was created before this call
    /// is included, unless a decodable state has become known since.
    pub(crate) fn has_unknown(&self) -> bool {
        self.unknown.load(Ordering::Acquire) > 0
    }

    pub(super) fn adds_unknown(&self) {
        self.unknown.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn removes_unknown(&self) {
        self.unknown.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn has_unchecked(&self) -> bool {
        self.has_unchecked.load(Ordering::Acquire)
    }

    pub(crate) fn clear_unchecked(&self) {
        self.has_unchecked.store(false, Ordering::Release);
    }
}

/// Decodes an object. If the object's `Deserialize` or `Metadata` implementation panics, the panic is returned as an
/// error.
fn decode<T: Object + DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    let object = match catch(|| from_json::<T>(json)) {
        Ok(Ok(object)) => object,
        Ok(Err(error)) => return Err(DecodeError::from(error).to_string()),
        Err(panic) => return Err(format!("its Deserialize panicked: {panic}")),
    };
    // Read the metadata once here, where a panic affects only this object.
    match catch(|| probe(&object)) {
        Ok(_) => Ok(object),
        Err(panic) => {
            // If the `Metadata` implementation panics, the `Drop` implementation may panic as well.
            if let Err(again) = catch(|| drop(object)) {
                tracing::error!(object = std::any::type_name::<T>(), panic = again, "the Drop of an object panicked");
            }
            Err(format!("its Metadata panicked on it: {panic}"))
        }
    }
}

/// Like `serde_json::from_slice`, but validates the UTF-8 of all strings in a single pass. If the validation fails,
/// this function falls back to `from_slice`, because skipped fields do not need to be valid UTF-8.
pub(crate) fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    str::from_utf8(json).map_or_else(|_| serde_json::from_slice(json), serde_json::from_str)
}

fn probe(object: &impl Object) -> ObjectKey {
    std::hint::black_box((object.uid(), object.resource_version()));
    object.key()
}
