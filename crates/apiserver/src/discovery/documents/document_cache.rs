//! Where documents are kept.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{Document, DocumentScope, DocumentSubject};

/// How many bytes of documents are kept, but for the documents of all kinds, which take longest to make. Of what is beyond that the tag
/// alone is, and the rest is made anew for whoever asks.
const LARGEST: usize = 16 * 1024 * 1024;

/// What is kept. To find or keep one costs the same however many there are.
#[derive(Debug, Default)]
pub(super) struct DocumentCache {
    documents: HashMap<DocumentScope, KeptDocument>,
    /// Those that are kept whole, by when they were last asked for.
    whole: BTreeMap<u64, DocumentScope>,
    bytes: usize,
    /// How often one was asked for.
    asked: u64,
    /// When there are so many, those that tell of what is no more are let go.
    swept_at: usize,
}

#[derive(Debug)]
struct KeptDocument {
    /// What it tells of: kinds that change are other ones. It does not keep them alive, but their place, so that no others come there.
    subject: Weak<dyn Any + Send + Sync>,
    tag: Arc<str>,
    bytes: Option<Bytes>,
    /// When it was last asked for.
    asked: u64,
}

impl KeptDocument {
    fn tells_of(&self, subject: &DocumentSubject) -> bool {
        std::ptr::addr_eq(self.subject.as_ptr(), Arc::as_ptr(subject))
    }
}

impl DocumentCache {
    pub(super) fn find(&mut self, scope: &DocumentScope, subject: &DocumentSubject) -> Option<Document> {
        let kept = self.documents.get_mut(scope).filter(|kept| kept.tells_of(subject))?;
        let bytes = kept.bytes.clone()?;
        self.asked += 1;
        if let Some(scope) = self.whole.remove(&kept.asked) {
            kept.asked = self.asked;
            self.whole.insert(self.asked, scope);
        }
        Some(Document { tag: kept.tag.clone(), bytes })
    }

    pub(super) fn tag(&self, scope: &DocumentScope, subject: &DocumentSubject) -> Option<Arc<str>> {
        let kept = self.documents.get(scope).filter(|kept| kept.tells_of(subject))?;
        Some(kept.tag.clone())
    }

    /// Keeps a document, or its tag alone, and lets go of what there is no room for.
    pub(super) fn keep(&mut self, scope: DocumentScope, subject: &DocumentSubject, document: &Document, whole: bool) {
        self.remove(&scope);
        self.sweep();
        self.asked += 1;
        let bytes = whole.then(|| document.bytes.clone());
        if let Some(bytes) = bytes.as_ref().filter(|_| counts(&scope)) {
            self.bytes += bytes.len();
            self.whole.insert(self.asked, scope.clone());
        }
        let kept =
            KeptDocument { subject: Arc::downgrade(subject), tag: document.tag.clone(), bytes, asked: self.asked };
        self.documents.insert(scope, kept);
        while self.bytes > LARGEST
            && let Some((_, oldest)) = self.whole.pop_first()
        {
            let bytes = self.documents.get_mut(&oldest).and_then(|kept| kept.bytes.take());
            self.bytes -= bytes.map_or(0, |bytes| bytes.len());
        }
    }

    /// Lets go of the documents of what is no more, once there are twice as many as there were after the last time.
    fn sweep(&mut self) {
        if self.documents.len() < self.swept_at {
            return;
        }
        let gone = self.documents.iter().filter(|(_, kept)| kept.subject.strong_count() == 0);
        let gone: Vec<_> = gone.map(|(scope, _)| scope.clone()).collect();
        gone.iter().for_each(|scope| self.remove(scope));
        self.swept_at = 64 + 2 * self.documents.len();
    }

    fn remove(&mut self, scope: &DocumentScope) {
        if let Some(KeptDocument { bytes: Some(bytes), asked, .. }) = self.documents.remove(scope)
            && self.whole.remove(&asked).is_some()
        {
            self.bytes -= bytes.len();
        }
    }
}

/// Whether a document counts towards the limit. There are two that do not, one in each form.
fn counts(scope: &DocumentScope) -> bool {
    !matches!(scope, DocumentScope::All(_))
}

#[cfg(test)]
mod tests {
    use pintle_meta::GroupVersion;

    use super::super::DocumentForm;
    use super::*;
    use crate::clock::effort::is_linear;

    impl DocumentCache {
        pub(in crate::discovery) fn is_empty(&self) -> bool {
            self.documents.is_empty()
        }

        /// What those that are kept tell of, the longest unused first.
        pub(in crate::discovery) fn whole(&self) -> Vec<DocumentScope> {
            self.whole.values().cloned().collect()
        }

        pub(in crate::discovery) fn tags(&self) -> HashMap<DocumentScope, Arc<str>> {
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
    fn what_there_is_no_room_for_goes_but_for_its_tag_the_longest_unused_first() {
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
        // One that comes again takes its own place, and what is as large as all is not kept at all.
        put(&mut cache, 2);
        assert_eq!((cache.whole(), cache.bytes), (vec![scope(0), scope(2)], LARGEST));
        cache.keep(scope(3), &subject, &document(LARGEST + 1), true);
        assert_eq!((cache.whole(), cache.bytes), (vec![], 0));
    }

    #[test]
    fn the_documents_of_all_kinds_stay_however_large_they_are() {
        let mut cache = DocumentCache::default();
        let subject: DocumentSubject = Arc::new(());
        let all = [DocumentForm::Json, DocumentForm::Protobuf].map(DocumentScope::All);
        for of_all in &all {
            cache.keep(of_all.clone(), &subject, &document(LARGEST + 1), true);
        }
        (0..3).for_each(|at| cache.keep(scope(at), &subject, &document(LARGEST / 2), true));
        assert!(all.iter().all(|of_all| cache.find(of_all, &subject).is_some()));
        assert_eq!((cache.whole(), cache.bytes), (vec![scope(1), scope(2)], LARGEST));
        // Of other kinds, another document takes its place.
        let others: DocumentSubject = Arc::new(1);
        assert!(cache.find(&all[0], &others).is_none());
        cache.keep(all[0].clone(), &others, &document(1), true);
        assert!(cache.find(&all[0], &others).is_some() && cache.find(&all[0], &subject).is_none());
        assert_eq!(cache.bytes, LARGEST);
    }

    #[test]
    fn of_what_is_no_more_nothing_is_kept_for_long() {
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
    fn to_keep_one_costs_the_same_however_many_there_are() {
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
