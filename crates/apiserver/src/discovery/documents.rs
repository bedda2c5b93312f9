//! The OpenAPI documents that somebody asked for, kept for as long as the kinds that they tell of stay the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pintle_json::{Map, json};
use pintle_meta::GroupVersion;
use tokio::sync::Semaphore;

use super::{etag, openapi, openapi_v2};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Kinds};

/// How many bytes of documents are kept. Of what is beyond that the tag alone is, and the text is made anew for whoever asks.
const LARGEST_SHELF: usize = 16 * 1024 * 1024;

/// The documents of a server. None is made before somebody asks for it, and no two at once: it takes a while, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Documents {
    shelf: Mutex<Shelf>,
    turn: Arc<Semaphore>,
}

impl Default for Documents {
    fn default() -> Self {
        Self { shelf: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

/// What a document tells of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DocumentScope {
    /// Where the documents of all versions are.
    Index,
    /// The kinds of one group and version, in OpenAPI 3.
    Version(GroupVersion),
    /// All kinds, in OpenAPI 2.
    All,
}

/// A document as text.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// By which it is known: another text has another tag.
    pub(crate) tag: Arc<str>,
    pub(crate) text: Bytes,
}

impl Documents {
    /// The document, made if it is not kept; `None` if nothing of that is served.
    ///
    /// # Errors
    ///
    /// It could not be made.
    pub(crate) async fn find(self: &Arc<Self>, served: &Arc<Kinds>, scope: DocumentScope) -> Outcome<Option<Document>> {
        let kinds = scope.kinds(served);
        if kinds.is_empty() {
            return Ok(None);
        }
        if let Some(document) = self.shelf().find(&scope, &kinds) {
            return Ok(Some(document));
        }
        // It is never closed. The turn lasts until the document is made, whether or not somebody still waits for it.
        let turn = self.turn.clone().acquire_owned().await;
        let (documents, served) = (self.clone(), served.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let known = documents.shelf().find(&scope, &kinds);
            known.unwrap_or_else(|| documents.make(&served, scope, kinds))
        });
        made.await.map(Some).map_err(|error| Failure::internal(format!("the document was not made: {error}")))
    }

    fn make(&self, served: &Kinds, scope: DocumentScope, kinds: Vec<Arc<Kind>>) -> Document {
        let text = match &scope {
            DocumentScope::Index => self.index(served, &kinds),
            DocumentScope::Version(_) => openapi::document(&kinds).to_string(),
            DocumentScope::All => openapi_v2::document(by_version(&kinds).values()),
        };
        let document = Document { tag: etag(text.as_bytes()).into(), text: text.into() };
        self.shelf().keep(served, scope, KeptDocument::new(kinds, &document, true));
        document
    }

    /// Each group and version with the path of its document, by which the document can be kept for ever.
    fn index(&self, served: &Kinds, kinds: &[Arc<Kind>]) -> String {
        let mut paths = Map::new();
        for (version, kinds) in by_version(kinds) {
            let path = version.path();
            let scope = DocumentScope::Version(version);
            let known = self.shelf().tag(&scope, &kinds);
            let tag = known.unwrap_or_else(|| {
                let text = openapi::document(&kinds).to_string();
                let document = Document { tag: etag(text.as_bytes()).into(), text: text.into() };
                // Who asks where the documents are wants few of them.
                self.shelf().keep(served, scope, KeptDocument::new(kinds, &document, false));
                document.tag
            });
            let place = json!({"serverRelativeURL": format!("/openapi/v3{path}?hash={tag}")});
            paths.insert(&path[1..], place);
        }
        json!({"paths": paths}).to_string()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DocumentScope {
    /// What it is about.
    fn kinds(&self, served: &Kinds) -> Vec<Arc<Kind>> {
        match self {
            Self::Version(of) => served.version(&of.group, &of.version).into_iter().cloned().collect(),
            Self::Index | Self::All => served.kinds().cloned().collect(),
        }
    }
}

/// The kinds of each group and version, by plural.
fn by_version(kinds: &[Arc<Kind>]) -> BTreeMap<GroupVersion, Vec<Arc<Kind>>> {
    let mut versions = BTreeMap::<_, Vec<_>>::new();
    for kind in kinds {
        versions.entry(kind.group_version()).or_default().push(kind.clone());
    }
    versions.values_mut().for_each(|kinds| kinds.sort_by(|a, b| a.plural.cmp(&b.plural)));
    versions
}

/// What is kept.
#[derive(Debug, Default)]
struct Shelf {
    documents: HashMap<DocumentScope, KeptDocument>,
    /// How often one was asked for.
    asked: u64,
}

#[derive(Debug)]
struct KeptDocument {
    /// What it tells of. A definition that changes makes new ones.
    kinds: Vec<Arc<Kind>>,
    tag: Arc<str>,
    text: Option<Bytes>,
    /// When it was last asked for.
    asked: u64,
}

impl KeptDocument {
    fn new(kinds: Vec<Arc<Kind>>, document: &Document, whole: bool) -> Self {
        Self { kinds, tag: document.tag.clone(), text: whole.then(|| document.text.clone()), asked: 0 }
    }

    fn tells_of(&self, kinds: &[Arc<Kind>]) -> bool {
        self.kinds.len() == kinds.len() && self.kinds.iter().zip(kinds).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Shelf {
    fn find(&mut self, scope: &DocumentScope, kinds: &[Arc<Kind>]) -> Option<Document> {
        self.asked += 1;
        let kept = self.documents.get_mut(scope).filter(|kept| kept.tells_of(kinds))?;
        kept.asked = self.asked;
        Some(Document { tag: kept.tag.clone(), text: kept.text.clone()? })
    }

    fn tag(&self, scope: &DocumentScope, kinds: &[Arc<Kind>]) -> Option<Arc<str>> {
        let kept = self.documents.get(scope).filter(|kept| kept.tells_of(kinds))?;
        Some(kept.tag.clone())
    }

    /// Keeps a document, and lets go of those of versions that are gone and of what there is no room for.
    fn keep(&mut self, served: &Kinds, scope: DocumentScope, kept: KeptDocument) {
        self.documents.insert(scope, KeptDocument { asked: self.asked, ..kept });
        self.documents.retain(|scope, _| !scope.kinds(served).is_empty());
        let size = |kept: &KeptDocument| kept.text.as_ref().map_or(0, Bytes::len);
        let mut all: usize = self.documents.values().map(size).sum();
        while all > LARGEST_SHELF {
            let whole = self.documents.values_mut().filter(|kept| kept.text.is_some());
            let Some(oldest) = whole.min_by_key(|kept| kept.asked) else { break };
            all -= size(oldest);
            oldest.text = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps() -> DocumentScope {
        DocumentScope::Version(GroupVersion::new("apps", "v1"))
    }

    #[tokio::test]
    async fn a_document_is_made_once_and_anew_for_other_kinds() {
        let documents = Arc::new(Documents::default());
        let served = Arc::new(Kinds::builtin());
        let find = async |served| documents.find(served, apps()).await.expect("made").expect("served");
        let first = find(&served).await;
        assert_eq!(find(&served).await.text.as_ptr(), first.text.as_ptr());
        // Kinds of another server, which are equal but not the same.
        let again = find(&Arc::new(Kinds::builtin())).await;
        assert_ne!(again.text.as_ptr(), first.text.as_ptr());
        assert_eq!(again.tag, first.tag);
    }

    #[tokio::test]
    async fn the_index_keeps_no_text_but_its_own() {
        let documents = Arc::new(Documents::default());
        let served = Arc::new(Kinds::builtin());
        assert!(documents.shelf().documents.is_empty());
        let index = documents.find(&served, DocumentScope::Index).await.expect("made").expect("served");
        let whole: Vec<_> = documents
            .shelf()
            .documents
            .iter()
            .filter(|(_, kept)| kept.text.is_some())
            .map(|(scope, _)| scope.clone())
            .collect();
        assert_eq!(whole, [DocumentScope::Index]);
        let document = documents.find(&served, apps()).await.expect("made").expect("served");
        let text = String::from_utf8_lossy(&index.text).into_owned();
        assert!(text.contains(&format!("\"/openapi/v3/apis/apps/v1?hash={}\"", document.tag)), "{text}");
        let nowhere = DocumentScope::Version(GroupVersion::new("no.such", "v1"));
        assert!(documents.find(&served, nowhere).await.expect("looked up").is_none());
    }

    #[test]
    fn what_there_is_no_room_for_goes_but_for_its_tag_the_longest_unused_first() {
        let served = Kinds::builtin();
        let mut shelf = Shelf::default();
        let scopes = [apps(), DocumentScope::Version(GroupVersion::new("", "v1")), DocumentScope::All];
        let put = |shelf: &mut Shelf, scope: &DocumentScope| {
            let document = Document { tag: "tag".into(), text: vec![0; LARGEST_SHELF / 2].into() };
            shelf.asked += 1;
            shelf.keep(&served, scope.clone(), KeptDocument::new(scope.kinds(&served), &document, true));
        };
        let is_whole = |shelf: &mut Shelf, scope: &DocumentScope| shelf.find(scope, &scope.kinds(&served)).is_some();
        put(&mut shelf, &scopes[0]);
        put(&mut shelf, &scopes[1]);
        assert!(is_whole(&mut shelf, &scopes[0]));
        put(&mut shelf, &scopes[2]);
        assert_eq!(scopes.each_ref().map(|scope| is_whole(&mut shelf, scope)), [true, false, true]);
        assert_eq!(shelf.tag(&scopes[1], &scopes[1].kinds(&served)).as_deref(), Some("tag"));
        // Of versions that are gone nothing is kept.
        let gone = DocumentScope::Version(GroupVersion::new("gone.example.com", "v1"));
        put(&mut shelf, &gone);
        assert!(!shelf.documents.contains_key(&gone));
    }
}
