//! The cache of discovery and OpenAPI documents.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{Document, DocumentScope, DocumentSubject};

/// The maximum total size of the cached documents, in bytes. Above this limit, the cache drops the bytes of some
/// documents and keeps only their ETags. If a client requests such a document, the server creates it again. OpenAPI 2
/// documents do not count towards this limit, and are always cached, because creating them takes longest.
const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct DocumentCache {
    documents: HashMap<DocumentScope, CachedDocument>,
    /// The documents whose bytes are cached, from least to most recently used.
    whole: BTreeMap<u64, DocumentScope>,
    bytes: usize,
    uses: u64,
    /// If the number of documents reaches this threshold, the cache removes all documents of outdated kinds.
    sweep_at: usize,
}

#[derive(Debug)]
struct CachedDocument {
    /// The described kinds, identified by their address. The weak pointer does not keep the kinds alive, but prevents a
    /// reuse of the address.
    subject: Weak<dyn Any + Send + Sync>,
    tag: Arc<str>,
    bytes: Option<Bytes>,
    last_use: u64,
}

impl CachedDocument {
    fn describes(&self, subject: &DocumentSubject) -> bool {
        std::ptr::addr_eq(self.subject.as_ptr(), Arc::as_ptr(subject))
    }
}

impl DocumentCache {
    pub(super) fn find(&mut self, scope: &DocumentScope, subject: &DocumentSubject) -> Option<Document> {
        let kept = self.documents.get_mut(scope).filter(|kept| kept.describes(subject))?;
        let bytes = kept.bytes.clone()?;
        self.uses += 1;
        if let Some(scope) = self.whole.remove(&kept.last_use) {
            kept.last_use = self.uses;
            self.whole.insert(self.uses, scope);
        }
        Some(Document { tag: kept.tag.clone(), bytes })
    }

    pub(super) fn tag(&self, scope: &DocumentScope, subject: &DocumentSubject) -> Option<Arc<str>> {
        let kept = self.documents.get(scope).filter(|kept| kept.describes(subject))?;
        Some(kept.tag.clone())
    }

    /// Caches a document, or only its ETag if `whole` is `false`. Evicts documents until the total size is within the
    /// limit.
    pub(super) fn keep(&mut self, scope: DocumentScope, subject: &DocumentSubject, document: &Document, whole: bool) {
        self.remove(&scope);
        self.sweep();
        self.uses += 1;
        let bytes = whole.then(|| document.bytes.clone());
        if let Some(bytes) = bytes.as_ref().filter(|_| counts(&scope)) {
            self.bytes += bytes.len();
            self.whole.insert(self.uses, scope.clone());
        }
        let kept =
            CachedDocument { subject: Arc::downgrade(subject), tag: document.tag.clone(), bytes, last_use: self.uses };
        self.documents.insert(scope, kept);
        while self.bytes > LARGEST
            && let Some((_, oldest)) = self.whole.pop_first()
        {
            let bytes = self.documents.get_mut(&oldest).and_then(|kept| kept.bytes.take());
            self.bytes -= bytes.map_or(0, |bytes| bytes.len());
        }
    }

    /// Removes the documents of kinds that no longer exist. Does nothing if the number of cached documents has not
    /// doubled since the last removal.
    fn sweep(&mut self) {
        if self.documents.len() < self.sweep_at {
            return;
        }
        let gone = self.documents.iter().filter(|(_, kept)| kept.subject.strong_count() == 0);
        let gone: Vec<_> = gone.map(|(scope, _)| scope.clone()).collect();
        gone.iter().for_each(|scope| self.remove(scope));
        self.sweep_at = 64 + 2 * self.documents.len();
    }

    fn remove(&mut self, scope: &DocumentScope) {
        if let Some(CachedDocument { bytes: Some(bytes), last_use, .. }) = self.documents.remove(scope)
            && self.whole.remove(&last_use).is_some()
        {
            self.bytes -= bytes.len();
        }
    }
}

/// Returns `true` if the cache limit includes the size of the document. OpenAPI 2 documents do not count towards the
/// limit, because there is only one per encoding.
fn counts(scope: &DocumentScope) -> bool {
    !matches!(scope, DocumentScope::All(_))
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;
    use pintle_meta::GroupVersion;

    use super::super::DocumentForm;
    use super::*;

    impl DocumentCache {
        pub(crate) fn is_empty(&self) -> bool {
            self.documents.is_empty()
        }

        pub(crate) fn whole(&self) -> Vec<DocumentScope> {
            self.whole.values().cloned().collect()
        }

        pub(crate) fn tags(&self) -> HashMap<DocumentScope, Arc<str>> {
            self.documents.iter().map(|(scope, kept)| (scope.clone(), kept.tag.clone())).collect()
        }
    }

    fn scope(at: usize) -> DocumentScope {
        DocumentScope::Version(GroupVersion::new(format!("g{at}.com"), "v1"), DocumentForm::Json)
    }

    fn document(bytes: usize) -> Document {
        Document { tag: "tag".into(), bytes: vec![0; bytes].into() }
    }

    #[test]
    fn eviction_is_lru_and_keeps_the_tag() {
        let mut cache = DocumentCache::default();
        let subject: DocumentSubject = Arc::new(());
        let put = |cache: &mut DocumentCache, at: usize| cache.keep(scope(at), &subject, &document(LARGEST / 2), true);
        put(&mut cache, 0);
        put(&mut cache, 1);
        assert!(cache.find(&scope(0), &subject).is_some());
        put(&mut cache, 2);
        assert_eq!((cache.whole(), cache.bytes), (vec![scope(0), scope(2)], LARGEST));
        assert!(cache.find(&scope(1), &subject).is_none());
        assert_eq!(cache.tag(&scope(1), &subject).as_deref(), Some("tag"));
        // Caching a document replaces its old entry. A document above the size limit is not cached.
        put(&mut cache, 2);
        assert_eq!((cache.whole(), cache.bytes), (vec![scope(0), scope(2)], LARGEST));
        cache.keep(scope(3), &subject, &document(LARGEST + 1), true);
        assert_eq!((cache.whole(), cache.bytes), (vec![], 0));
    }

    #[test]
    fn documents_of_all_kinds_are_never_evicted() {
        let mut cache = DocumentCache::default();
        let subject: DocumentSubject = Arc::new(());
        let all = [DocumentForm::Json, DocumentForm::Protobuf].map(DocumentScope::All);
        for scope in &all {
            cache.keep(scope.clone(), &subject, &document(LARGEST + 1), true);
        }
        (0..3).for_each(|at| cache.keep(scope(at), &subject, &document(LARGEST / 2), true));
        assert!(all.iter().all(|scope| cache.find(scope, &subject).is_some()));
        assert_eq!((cache.whole(), cache.bytes), (vec![scope(1), scope(2)], LARGEST));
        let others: DocumentSubject = Arc::new(1);
        assert!(cache.find(&all[0], &others).is_none());
        cache.keep(all[0].clone(), &others, &document(1), true);
        assert!(cache.find(&all[0], &others).is_some() && cache.find(&all[0], &subject).is_none());
        assert_eq!(cache.bytes, LARGEST);
    }

    #[test]
    fn documents_of_dropped_kinds_are_swept() {
        let mut cache = DocumentCache::default();
        let stays: DocumentSubject = Arc::new(());
        cache.keep(scope(0), &stays, &document(1), true);
        for at in 1..1000 {
            cache.keep(scope(at), &(Arc::new(at) as DocumentSubject), &document(1), at % 2 == 0);
            assert!(cache.documents.len() <= 70 && cache.bytes <= 70, "{at}");
        }
        assert!(cache.find(&scope(0), &stays).is_some());
    }

    #[test]
    fn cost_of_caching_does_not_grow_with_the_count() {
        let subject: DocumentSubject = Arc::new(());
        let document = document(1);
        let keep = |count: usize| {
            let mut cache = DocumentCache::default();
            (0..count).for_each(|at| cache.keep(scope(at), &subject, &document, true));
            assert!((0..count).all(|at| cache.find(&scope(at), &subject).is_some()));
        };
        assert!(is_linear(500, keep));
    }
}
