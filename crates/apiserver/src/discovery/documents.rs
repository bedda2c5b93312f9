//! What a server tells of all that it serves, and the OpenAPI documents: made when somebody asks, and kept for as long as the kinds that
//! they tell of stay the same.

mod document_cache;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use document_cache::DocumentCache;
use pintle_json::{Json, Map, json};
use pintle_meta::GroupVersion;
use tokio::sync::Semaphore;

use super::openapi_proto::{self, ProtoV2};
use super::openapi_v2::TextV2;
use super::{aggregated, etag, group_list, openapi, openapi_v2, paths};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Kinds, VersionKinds};
use crate::object::Ordered;

/// The documents of a server. None is made before somebody asks for it, and no two of one sort at once: it takes a while, on a thread of
/// its own.
#[derive(Debug)]
pub(crate) struct Documents {
    cache: Mutex<DocumentCache>,
    openapi: Arc<Semaphore>,
    /// Who asks what there is does not wait for what takes longest.
    listings: Arc<Semaphore>,
}

impl Default for Documents {
    fn default() -> Self {
        let [openapi, listings] = [1, 1].map(|turns| Arc::new(Semaphore::new(turns)));
        Self { cache: Mutex::default(), openapi, listings }
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
    Version(GroupVersion, DocumentForm),
    /// All kinds, in OpenAPI 2.
    All(DocumentForm),
}

/// How an OpenAPI document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DocumentForm {
    Json,
    /// As gnostic has it.
    Protobuf,
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

/// A document as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// By which it is known: another document has another tag, and in each form it has the same.
    pub(crate) tag: Arc<str>,
    pub(crate) bytes: Bytes,
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
        if let Some(document) = self.cache().find(&scope, &subject) {
            return Ok(Some(document));
        }
        let turns = if matches!(scope, DocumentScope::Listing(_)) { &self.listings } else { &self.openapi };
        // They are never closed. The turn lasts until the document is made, whether or not somebody still waits for it.
        let turn = turns.clone().acquire_owned().await;
        let (documents, served) = (self.clone(), served.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let known = documents.cache().find(&scope, &subject);
            known.unwrap_or_else(|| documents.make(&served, scope, &subject))
        });
        made.await.map(Some).map_err(|error| Failure::internal(format!("the document was not made: {error}")))
    }

    fn make(&self, served: &Kinds, scope: DocumentScope, subject: &DocumentSubject) -> Document {
        let document = match &scope {
            DocumentScope::Listing(listing) => listing.document(served),
            DocumentScope::Index => Document::new(self.index(served)),
            DocumentScope::Version(of, form) => {
                let kinds = served.version(&of.group, &of.version).map(|version| of_version(version));
                let document = openapi::document(&kinds.unwrap_or_default());
                match form {
                    DocumentForm::Json => Document::new(document.to_string()),
                    DocumentForm::Protobuf => {
                        let known = self.cache().tag(&DocumentScope::Version(of.clone(), DocumentForm::Json), subject);
                        let tag = known.unwrap_or_else(|| etag(document.to_string().as_bytes()).into());
                        Document { tag, bytes: openapi_proto::v3(&document).into() }
                    }
                }
            }
            DocumentScope::All(form) => of_all(served, *form),
        };
        self.cache().keep(scope, subject, &document, true);
        document
    }

    /// Each group and version with the path of its document, by which the document can be kept for ever.
    fn index(&self, served: &Kinds) -> String {
        let mut paths = Map::new();
        for (version, kinds) in served.versions() {
            let path = version.path();
            let scope = DocumentScope::Version(version, DocumentForm::Json);
            let subject: DocumentSubject = kinds.clone();
            let known = self.cache().tag(&scope, &subject);
            let tag = known.unwrap_or_else(|| {
                let document = Document::new(openapi::document(&of_version(kinds)).to_string());
                // Who asks where the documents are wants few of them.
                self.cache().keep(scope, &subject, &document, false);
                document.tag
            });
            let place = json!({"serverRelativeURL": format!("/openapi/v3{path}?hash={tag}")});
            paths.insert(&path[1..], place);
        }
        json!({"paths": paths}).to_string()
    }

    fn cache(&self) -> MutexGuard<'_, DocumentCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DocumentScope {
    fn subject(&self, served: &Arc<Kinds>) -> Option<DocumentSubject> {
        Some(match self {
            Self::Version(of, _) => served.version(&of.group, &of.version)?.clone(),
            Self::Listing(_) | Self::Index | Self::All(_) => served.clone(),
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
            Self::Paths => pintle_json::to_vec_pretty(&Ordered(&value)),
            Self::Aggregated { .. } | Self::Groups => pintle_json::to_vec(&Ordered(&value)).map(|mut text| {
                text.push(b'\n');
                text
            }),
        };
        Document { tag, bytes: text.unwrap_or_default().into() }
    }
}

impl Document {
    fn new(text: String) -> Self {
        Self { tag: etag(text.as_bytes()).into(), bytes: text.into() }
    }
}

fn of_all(served: &Kinds, form: DocumentForm) -> Document {
    let (head, mut text, mut proto) = (openapi_v2::head(), TextV2::default(), ProtoV2::default());
    openapi_v2::parts(served.versions().map(|(_, kinds)| of_version(kinds)), |part, name, value| {
        text.add(part, name, value);
        if form == DocumentForm::Protobuf {
            proto.add(part, name, value);
        }
    });
    let json = Document::new(text.finish(&head));
    match form {
        DocumentForm::Json => json,
        DocumentForm::Protobuf => Document { tag: json.tag, bytes: proto.finish(&head).into() },
    }
}

fn of_version(version: &VersionKinds) -> Vec<Arc<Kind>> {
    version.kinds().cloned().collect()
}
