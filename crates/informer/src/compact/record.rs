//! A compressed object.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pintle_meta::{Metadata, ObjectMeta, OwnerRef};
use serde::Deserialize;
use serde::de::Error as _;

use super::common::Common;
use super::dictionary::Dictionary;

pub(super) struct Record {
    dictionary: Arc<Dictionary>,
    common: Arc<Common>,
    /// The name, namespace, uid and resourceVersion, followed by the compressed JSON. One allocation contains all of
    /// these fields, because allocators round up the size of each allocation.
    data: Box<[u8]>,
    ends: [u32; 4],
    size: u32,
    /// The length of the dictionary in bytes at the time when this object was compressed.
    learnt: u32,
    generation: i64,
    is_terminating: bool,
    /// Whether the JSON contains the finalizers of the stored object. The JSON of a decoded object contains only the
    /// fields that its type serializes.
    has_finalizers: bool,
    /// Whether the object was decoded. The cache of decoded objects can contain the object only if this field is
    /// `true`.
    was_decoded: AtomicBool,
    #[expect(clippy::box_collection, reason = "rarely present")]
    annotations: OnceLock<Box<BTreeMap<String, String>>>,
}

#[derive(Deserialize)]
struct MetadataOnly {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// The maximum size of an object, in bytes. The size limit ensures that all positions, including positions in the
/// dictionary, fit into 32 bits.
const MAX_LEN: u32 = 1 << 30;

impl Record {
    pub(super) fn new<T: 'static>(json: &str, has_finalizers: bool) -> serde_json::Result<Self> {
        let MetadataOnly { mut metadata } = serde_json::from_str(json)?;
        let dictionary = Dictionary::of::<T>();
        let common = dictionary.common(&ObjectMeta {
            labels: take(&mut metadata.labels),
            owner_references: take(&mut metadata.owner_references),
            finalizers: take(&mut metadata.finalizers),
            ..ObjectMeta::default()
        })?;
        let ObjectMeta { name, namespace, uid, resource_version, generation, deletion_timestamp, .. } = metadata;
        let head = [name, namespace, uid, resource_version];
        let mut ends = [0; 4];
        let size = u32::try_from(json.len()).ok().filter(|&size| size <= MAX_LEN);
        let size = size.ok_or_else(|| serde_json::Error::custom("the object is larger than 1 GiB"))?;
        let mut end = 0;
        for (text, at) in head.iter().zip(&mut ends) {
            end += text.len() as u32;
            *at = end;
        }
        let head = head.concat();
        let (compressed, learnt) = dictionary.compress(&[common.text(), &head].concat(), json);
        Ok(Self {
            data: [head.as_bytes(), &compressed].concat().into(),
            dictionary,
            common,
            ends,
            size,
            learnt,
            generation,
            is_terminating: deletion_timestamp.is_some(),
            has_finalizers,
            was_decoded: AtomicBool::new(false),
            annotations: OnceLock::new(),
        })
    }

    /// Returns the object's JSON, or `None` if the compressor has a bug.
    pub(super) fn json(&self) -> Option<String> {
        let (head, compressed) = self.data.split_at_checked(self.ends[3] as usize)?;
        let before = [self.common.text().as_bytes(), head];
        self.dictionary.decompress(before, compressed, self.learnt as usize, self.size as usize)
    }

    pub(super) fn recent<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.dictionary.recent.find(self.place())?.downcast().ok()
    }

    pub(super) fn keep(&self, decoded: Arc<dyn Any + Send + Sync>) {
        self.was_decoded.store(true, Ordering::Relaxed);
        self.dictionary.recent.put(self.place(), decoded);
    }

    /// Returns the address of the compressed data. The address identifies the object among all existing compressed
    /// objects.
    fn place(&self) -> usize {
        self.data.as_ptr().addr()
    }

    fn head(&self, n: usize) -> &str {
        let begin = n.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        str::from_utf8(&self.data[begin..self.ends[n] as usize]).unwrap_or_default()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if *self.was_decoded.get_mut() {
            self.dictionary.recent.forget(self.place());
        }
    }
}

impl Metadata for Record {
    fn name(&self) -> &str {
        self.head(0)
    }

    fn namespace(&self) -> &str {
        self.head(1)
    }

    fn uid(&self) -> &str {
        self.head(2)
    }

    fn resource_version(&self) -> &str {
        self.head(3)
    }

    fn generation(&self) -> i64 {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.common.metadata().labels
    }

    fn annotations(&self) -> &BTreeMap<String, String> {
        self.annotations.get_or_init(|| {
            // Parsing cannot fail, because the JSON was already parsed when the object was compressed.
            let partial = self.json().and_then(|json| serde_json::from_str::<MetadataOnly>(&json).ok());
            partial.map(|partial| partial.metadata.annotations).unwrap_or_default().into()
        })
    }

    fn finalizers(&self) -> &[String] {
        &self.common.metadata().finalizers
    }

    fn supports_finalizers(&self) -> bool {
        self.has_finalizers
    }

    fn owners(&self) -> Vec<OwnerRef<'_>> {
        self.common.metadata().owners()
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (self.namespace(), self.name());
        write!(f, "{namespace}/{name}, {} bytes for {}", self.data.len(), self.size)
    }
}
