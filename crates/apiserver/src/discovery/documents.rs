//! What a server tells of all that it serves, and the OpenAPI documents: made when somebody asks, and kept for as long as the kinds that
//! they tell of stay the same.

mod shelf;

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pintle_json::{Json, Map, json};
use pintle_meta::GroupVersion;
use shelf::Shelf;
use tokio::sync::Semaphore;

use super::{aggregated, etag, group_list, openapi, openapi_v2, paths};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Kinds, VersionKinds};
use crate::object::Ordered;

/// The documents of a server. None is made before somebody asks for it, and no two of one sort at once: it takes a while, on a thread of
/// its own.
#[derive(Debug)]
pub(crate) struct Documents {
    shelf: Mutex<Shelf>,
    openapi: Arc<Semaphore>,
    /// Who asks what there is does not wait for what takes longest.
    listings: Arc<Semaphore>,
}

impl Default for Documents {
    fn default() -> Self {
        let [openapi, listings] = [1, 1].map(|turns| Arc::new(Semaphore::new(turns)));
        Self { shelf: Mutex::default(), openapi, listings }
    }
}

/// What a document tells of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DocumentScope {
    /// What is served, in discovery's own words.
    Listing(Listing),
    /// Where the documents of all versions are.
    Index,
    /// The kinds of one group and version, in OpenAPI 3.
    Version(GroupVersion),
    /// All kinds, in OpenAPI 2.
    All,
}

/// What discovery tells of all groups at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Listing {
    /// `/api` or `/apis` with all resources.
    Aggregated { core: bool },
    /// `/apis`.
    Groups,
    /// `/`.
    Paths,
}

/// A document as text.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// By which it is known: another text has another tag.
    pub(crate) tag: Arc<str>,
    pub(crate) text: Bytes,
}

/// What a document tells of, as it is now: one of a kind for as long as it is there.
type DocumentSubject = Arc<dyn Any + Send + Sync>;

impl Documents {
    /// The document, made if it is not kept; `None` if nothing of that is served.
    ///
    /// # Errors
    ///
    /// It could not be made.
    pub(crate) async fn find(self: &Arc<Self>, served: &Arc<Kinds>, scope: DocumentScope) -> Outcome<Option<Document>> {
        let Some(subject) = scope.subject(served) else { return Ok(None) };
        if let Some(document) = self.shelf().find(&scope, &subject) {
            return Ok(Some(document));
        }
        let turns = if matches!(scope, DocumentScope::Listing(_)) { &self.listings } else { &self.openapi };
        // They are never closed. The turn lasts until the document is made, whether or not somebody still waits for it.
        let turn = turns.clone().acquire_owned().await;
        let (documents, served) = (self.clone(), served.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let known = documents.shelf().find(&scope, &subject);
            known.unwrap_or_else(|| documents.make(&served, scope, &subject))
        });
        made.await.map(Some).map_err(|error| Failure::internal(format!("the document was not made: {error}")))
    }

    fn make(&self, served: &Kinds, scope: DocumentScope, subject: &DocumentSubject) -> Document {
        let document = match &scope {
            DocumentScope::Listing(listing) => listing.document(served),
            DocumentScope::Index => Document::new(self.index(served)),
            DocumentScope::Version(of) => {
                let kinds = served.version(&of.group, &of.version).map(|version| of_version(version));
                Document::new(openapi::document(&kinds.unwrap_or_default()).to_string())
            }
            DocumentScope::All => {
                Document::new(openapi_v2::document(served.versions().map(|(_, kinds)| of_version(kinds))))
            }
        };
        self.shelf().keep(scope, subject, &document, true);
        document
    }

    /// Each group and version with the path of its document, by which the document can be kept for ever.
    fn index(&self, served: &Kinds) -> String {
        let mut paths = Map::new();
        for (version, kinds) in served.versions() {
            let path = version.path();
            let scope = DocumentScope::Version(version);
            let subject: DocumentSubject = kinds.clone();
            let known = self.shelf().tag(&scope, &subject);
            let tag = known.unwrap_or_else(|| {
                let document = Document::new(openapi::document(&of_version(kinds)).to_string());
                // Who asks where the documents are wants few of them.
                self.shelf().keep(scope, &subject, &document, false);
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
    fn subject(&self, served: &Arc<Kinds>) -> Option<DocumentSubject> {
        Some(match self {
            Self::Version(of) => served.version(&of.group, &of.version)?.clone(),
            Self::Listing(_) | Self::Index | Self::All => served.clone(),
        })
    }
}

impl Listing {
    pub(crate) fn value(self, served: &Kinds) -> Json {
        match self {
            Self::Aggregated { core } => aggregated(served, core),
            Self::Groups => group_list(served),
            Self::Paths => paths(served),
        }
    }

    /// As most clients ask for it.
    fn document(self, served: &Kinds) -> Document {
        let value = self.value(served);
        let tag = etag(value.to_string().as_bytes()).into();
        let text = match self {
            Self::Paths => serde_json::to_vec_pretty(&Ordered(&value)),
            Self::Aggregated { .. } | Self::Groups => serde_json::to_vec(&Ordered(&value)).map(|mut text| {
                text.push(b'\n');
                text
            }),
        };
        Document { tag, text: text.unwrap_or_default().into() }
    }
}

impl Document {
    fn new(text: String) -> Self {
        Self { tag: etag(text.as_bytes()).into(), text: text.into() }
    }
}

fn of_version(version: &VersionKinds) -> Vec<Arc<Kind>> {
    version.kinds().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::GroupResource;

    fn apps() -> DocumentScope {
        DocumentScope::Version(GroupVersion::new("apps", "v1"))
    }

    #[tokio::test]
    async fn a_document_is_made_once_and_anew_for_other_kinds() {
        let documents = Arc::new(Documents::default());
        let served = Arc::new(Kinds::builtin());
        for scope in [
            apps(),
            DocumentScope::Listing(Listing::Groups),
            DocumentScope::Listing(Listing::Aggregated { core: true }),
        ] {
            let find = async |served| documents.find(served, scope.clone()).await.expect("made").expect("served");
            let first = find(&served).await;
            assert_eq!(find(&served).await.text.as_ptr(), first.text.as_ptr());
            // Kinds of another server, which are equal but not the same.
            let again = find(&Arc::new(Kinds::builtin())).await;
            assert_ne!(again.text.as_ptr(), first.text.as_ptr());
            assert_eq!(again.tag, first.tag);
        }
    }

    #[tokio::test]
    async fn the_index_keeps_no_text_but_its_own() {
        let documents = Arc::new(Documents::default());
        let served = Arc::new(Kinds::builtin());
        assert!(documents.shelf().is_empty());
        let index = documents.find(&served, DocumentScope::Index).await.expect("made").expect("served");
        assert_eq!(documents.shelf().whole(), [DocumentScope::Index]);
        let document = documents.find(&served, apps()).await.expect("made").expect("served");
        let text = String::from_utf8_lossy(&index.text).into_owned();
        assert!(text.contains(&format!("\"/openapi/v3/apis/apps/v1?hash={}\"", document.tag)), "{text}");
        let nowhere = DocumentScope::Version(GroupVersion::new("no.such", "v1"));
        assert!(documents.find(&served, nowhere).await.expect("looked up").is_none());
    }

    #[tokio::test]
    async fn a_definition_that_changes_has_the_document_of_its_version_made_anew_and_no_other() {
        const COUNT: usize = 300;
        let documents = Arc::new(Documents::default());
        let mut served = Kinds::builtin();
        let change = |served: &mut Kinds, at: usize, kind: &str| {
            let resource = GroupResource::new(format!("g{at}.com"), "widgets");
            let kind = Kind { plural: "widgets".into(), ..Kind::of_bodies(&resource.group, "v1", kind) };
            served.replace_custom(&resource, vec![kind]);
        };
        (0..COUNT).for_each(|at| change(&mut served, at, "Widget"));
        let mut before = Arc::new(served);
        documents.find(&before, DocumentScope::Index).await.expect("made");
        for at in [0, 7, COUNT - 1] {
            let mut after = Kinds::clone(&before);
            change(&mut after, at, "Gadget");
            let tags = |documents: &Documents| documents.shelf().tags();
            let (after, old) = (Arc::new(after), tags(&documents));
            documents.find(&after, DocumentScope::Index).await.expect("made");
            let mut made = tags(&documents);
            made.retain(|scope, tag| !old.get(scope).is_some_and(|old| Arc::ptr_eq(old, tag)));
            let mut made: Vec<_> = made.into_keys().collect();
            made.sort_by_key(|scope| *scope == DocumentScope::Index);
            assert_eq!(
                made,
                [DocumentScope::Version(GroupVersion::new(format!("g{at}.com"), "v1")), DocumentScope::Index]
            );
            before = after;
        }
    }
}
