//! Metadata that several objects share, such as the labels, owners and finalizers of replicas.

use std::sync::{Arc, OnceLock, Weak};

use hashbrown::{DefaultHashBuilder, HashTable};
use pintle_meta::ObjectMeta;
use std::hash::BuildHasher as _;

use crate::sync::Mutex;

/// Metadata that several objects share. The metadata is parsed when it is first read. The compressor can also copy text
/// from the JSON of the metadata.
pub(super) struct Common {
    text: Box<str>,
    metadata: OnceLock<Box<ObjectMeta>>,
}

#[derive(Default)]
pub(super) struct Commons {
    hasher: DefaultHashBuilder,
    table: Mutex<HashTable<(u64, Weak<Common>)>>,
}

impl Common {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn metadata(&self) -> &ObjectMeta {
        self.metadata.get_or_init(|| serde_json::from_str(&self.text).unwrap_or_default())
    }
}

impl Commons {
    pub(super) fn share(&self, metadata: &ObjectMeta) -> serde_json::Result<Arc<Common>> {
        let text = serde_json::to_string(metadata)?;
        let hash = self.hasher.hash_one(&text);
        let is_same = |(_, known): &(u64, Weak<Common>)| known.upgrade().is_some_and(|known| *known.text == text);
        let mut table = self.table.lock();
        if let Some(known) = table.find(hash, is_same).and_then(|(_, known)| known.upgrade()) {
            return Ok(known);
        }
        if table.len() == table.capacity() {
            table.retain(|(_, known)| known.strong_count() > 0);
            // After a cleanup, double the capacity, so that larger tables are cleaned up less often.
            let more = table.len();
            table.reserve(more, |(hash, _)| *hash);
        }
        let common = Arc::new(Common { text: text.into(), metadata: OnceLock::new() });
        table.insert_unique(hash, (hash, Arc::downgrade(&common)), |(hash, _)| *hash);
        Ok(common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(commons: &Commons, finalizer: usize) -> Arc<Common> {
        let finalizers = vec![finalizer.to_string()];
        commons.share(&ObjectMeta { finalizers, ..ObjectMeta::default() }).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn equal_metadata_is_shared_and_unused_metadata_freed() {
        let commons = Commons::default();
        let kept: Vec<_> = (0..50).map(|n| share(&commons, n)).collect();
        assert!((0..50).all(|n| Arc::ptr_eq(&kept[n], &share(&commons, n))));
        assert_eq!(kept[7].metadata().finalizers, ["7"]);
        (100..20_000).for_each(|n| drop(share(&commons, n)));
        let entries = commons.table.lock().len();
        assert!(entries < 1_000, "{entries} entries for {}", kept.len());
        assert!((0..50).all(|n| Arc::ptr_eq(&kept[n], &share(&commons, n))));
    }
}
