//! Compression dictionaries.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Weak};

use pintle_meta::ObjectMeta;

use super::codec::{Places, compress, decompress};
use super::common::{Common, Commons};
use super::recent::Recent;
use crate::sync::{Mutex, RwLock};

/// The dictionary and the shared metadata of one type. The dictionary is dropped when the last compressed object of
/// the type is dropped.
pub(super) struct Dictionary {
    learnt: RwLock<Arc<GrowingText>>,
    commons: Commons,
    pub(super) recent: Recent,
}

/// A dictionary text that only grows at its end. Each compressed object stores the length that the text had at
/// compression time. Decompressing the object requires only the text up to that length.
#[derive(Clone)]
struct GrowingText {
    text: Vec<u8>,
    places: Places,
}

const MAX_LEN: usize = 32 << 10;

/// The maximum number of bytes that one object adds to a dictionary.
const MAX_OBJECT_LEN: usize = 8 << 10;

/// The expected compression ratio. An object whose ratio is below this value is added to the dictionary. With a
/// ratio of 8, the dictionary contains about one pod of each kind. A ratio of 7 would add too few pods.
const RATIO: usize = 8;

/// All compression dictionaries that are in use. Each type has one dictionary per process, because the `Deserialize`
/// implementation of `Compact` cannot access the informer.
static DICTIONARIES: LazyLock<Mutex<BTreeMap<TypeId, Weak<Dictionary>>>> = LazyLock::new(Mutex::default);

impl Dictionary {
    pub(super) fn of<T: 'static>() -> Arc<Self> {
        let mut dictionaries = DICTIONARIES.lock();
        let dictionary = dictionaries.entry(TypeId::of::<T>()).or_default();
        dictionary.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Self::new());
            *dictionary = Arc::downgrade(&new);
            new
        })
    }

    fn new() -> Self {
        let learnt = GrowingText { text: Vec::new(), places: Places::new(14) };
        Self { learnt: RwLock::new(Arc::new(learnt)), commons: Commons::default(), recent: Recent::default() }
    }

    pub(super) fn common(&self, metadata: &ObjectMeta) -> serde_json::Result<Arc<Common>> {
        self.commons.share(metadata)
    }

    /// Compresses `json`. Returns the compressed object and the length of the dictionary during the compression. The
    /// compressed object may refer to the text in `before`, so `decompress` needs the same text.
    pub(super) fn compress(&self, before: &str, json: &str) -> (Vec<u8>, u32) {
        let learnt = self.learnt.read().clone();
        let known = learnt.text.len();
        let text = [&learnt.text, before.as_bytes(), json.as_bytes()].concat();
        let compressed = compress(&text, &learnt.places, known, known + before.len());
        if known < MAX_LEN && compressed.len() * RATIO > json.len() {
            self.learn(&learnt, json);
        }
        (compressed, known as u32)
    }

    pub(super) fn decompress(
        &self,
        before: [&[u8]; 2],
        compressed: &[u8],
        learnt: usize,
        size: usize,
    ) -> Option<String> {
        let mut text = Vec::with_capacity(learnt + before[0].len() + before[1].len() + size);
        text.extend_from_slice(self.learnt.read().text.get(..learnt)?);
        before.iter().for_each(|part| text.extend_from_slice(part));
        let begin = text.len();
        decompress(compressed, size, &mut text)?;
        String::from_utf8(text.split_off(begin)).ok()
    }

    /// Appends an object to the dictionary. Does nothing if another thread has changed the dictionary since `before`
    /// was read, because that thread may have added a similar object.
    fn learn(&self, before: &Arc<GrowingText>, json: &str) {
        let mut learnt = GrowingText::clone(before);
        let begin = learnt.text.len();
        let more = json.len().min(MAX_OBJECT_LEN).min(MAX_LEN - begin);
        learnt.text.extend_from_slice(&json.as_bytes()[..more]);
        for at in begin..learnt.text.len() {
            learnt.places.enter(&learnt.text, at);
        }
        let mut current = self.learnt.write();
        if Arc::ptr_eq(&current, before) {
            *current = Arc::new(learnt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seed: u64, size: usize) -> String {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..size).map(|_| random.alphanumeric()).collect()
    }

    fn learnt(dictionary: &Dictionary) -> usize {
        dictionary.learnt.read().text.len()
    }

    #[test]
    fn full_dictionary_keeps_old_texts_readable() {
        let dictionary = Dictionary::new();
        let texts: Vec<String> = (0..9).flat_map(|seed| [text(seed, 6000), text(seed, 6000)]).collect();
        let compressed: Vec<_> = texts.iter().map(|text| dictionary.compress("", text)).collect();
        for (pair, new) in compressed.chunks(2).zip([true, true, true, true, true, false, false, false, false]) {
            assert!(pair[0].0.len() > 6000, "the text was unknown");
            assert_eq!(pair[1].0.len() < 100, new, "the text was added");
        }
        assert_eq!(learnt(&dictionary), MAX_LEN);
        for (text, (compressed, learnt)) in texts.iter().zip(&compressed) {
            let back = dictionary.decompress([b"", b""], compressed, *learnt as usize, text.len());
            assert_eq!(back.as_ref(), Some(text));
        }
        assert_eq!(dictionary.decompress([b"", b""], &compressed[0].0, MAX_LEN + 1, 6000), None);
    }

    #[test]
    fn large_object_does_not_fill_the_dictionary() {
        let dictionary = Dictionary::new();
        dictionary.compress("", &text(1, 100_000));
        assert_eq!(learnt(&dictionary), MAX_OBJECT_LEN);
        dictionary.compress("", &text(2, 1_000));
        assert_eq!(learnt(&dictionary), MAX_OBJECT_LEN + 1_000);
    }

    #[test]
    fn dictionary_is_freed_with_its_last_user() {
        struct Kind;
        let first = Dictionary::of::<Kind>();
        assert!(Arc::ptr_eq(&first, &Dictionary::of::<Kind>()));
        assert!(!Arc::ptr_eq(&first, &Dictionary::of::<&Kind>()));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        Dictionary::of::<Kind>();
    }
}
