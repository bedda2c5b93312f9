//! Discovery and OpenAPI documents, which are created on request and cached until their kinds change.

mod document_cache;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use document_cache::DocumentCache;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::Ordered;
use pintle_json::{Json, Map, json};
use pintle_kinds::{Kind, Kinds, VersionKinds};
use pintle_meta::__private::Mutex;
use pintle_meta::GroupVersion;
use tokio::sync::Semaphore;

use super::openapi_proto::{self, ProtoV2};
use super::openapi_v2::TextV2;
use super::{aggregated, etag, openapi, openapi_v2};
use crate::legacy::group_list;
use crate::legacy::paths;

/// A server's discovery and OpenAPI documents. Each document is created on request, on a blocking thread, because
/// creating it takes long. At most one OpenAPI document and one discovery document are created at the same time.
#[derive(Debug)]
pub struct Documents {
    cache: Mutex<DocumentCache>,
    openapi: Arc<Semaphore>,
    /// The permit for creating a discovery document. A separate permit, so that discovery documents do not wait for
    /// OpenAPI documents, which take longer to create.
    listings: Arc<Semaphore>,
    is_inline: bool,
}

impl Default for Documents {
    fn default() -> Self {
        let [openapi, listings] = [1, 1].map(|turns| Arc::new(Semaphore::new(turns)));
        Self { cache: Mutex::default(), openapi, listings, is_inline: false }
    }
}

/// The content and the encoding of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DocumentScope {
    /// A discovery document.
    Listing(Listing),
    /// The index of all OpenAPI 3 documents, with their paths.
    Index,
    /// The kinds of one group and version, in OpenAPI 3.
    Version(GroupVersion, DocumentForm),
    /// All kinds of the server, in one OpenAPI 2 document.
    All(DocumentForm),
}

/// The encoding of an OpenAPI document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentForm {
    /// JSON, which is the default.
    Json,
    /// Protobuf with the messages of the Go library gnostic.
    Protobuf,
}

/// A discovery document that lists all API groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listing {
    /// The aggregated document of `/api` or `/apis`, with all resources.
    Aggregated {
        /// Whether the document describes `/api`, which contains only the core group, instead of `/apis`.
        core: bool,
    },
    /// The list of all API groups, at `/apis`.
    Groups,
    /// The list of all paths, at `/`.
    Paths,
}

/// The bytes of an encoded document and its ETag.
#[derive(Clone, Debug)]
pub struct Document {
    /// The ETag depends only on the content of the document and is the same for all encodings.
    pub tag: Arc<str>,
    /// The encoded document.
    pub bytes: Bytes,
}

/// The kinds that a document describes. Two sets of kinds are identical if they have the same address.
type DocumentSubject = Arc<dyn Any + Send + Sync>;

impl Documents {
    /// Creates a cache that creates documents on the thread of the caller.
    pub fn inline() -> Self {
        Self { is_inline: true, ..Self::default() }
    }

    /// Returns the document from the cache, or creates it. Returns `None` if the server does not serve the group and
    /// version.
    ///
    /// # Errors
    ///
    /// Returns an error if creating the document panicked.
    pub async fn find(self: &Arc<Self>, served: &Arc<Kinds>, scope: DocumentScope) -> Outcome<Option<Document>> {
        let Some(subject) = scope.subject(served) else { return Ok(None) };
        if let Some(document) = self.cache.lock().find(&scope, &subject) {
            return Ok(Some(document));
        }
        if self.is_inline {
            return Ok(Some(self.make(served, scope, &subject)));
        }
        let turns = if matches!(scope, DocumentScope::Listing(_)) { &self.listings } else { &self.openapi };
        // Acquiring a permit cannot fail, because the semaphores are never closed. If the caller is cancelled, the
        // spawned task keeps the permit until it has created the document.
        let turn = turns.clone().acquire_owned().await;
        let (documents, served) = (self.clone(), served.clone());
        let made = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let known = documents.cache.lock().find(&scope, &subject);
            known.unwrap_or_else(|| documents.make(&served, scope, &subject))
        });
        made.await.map(Some).map_err(|error| Failure::internal(format!("cannot create the document: {error}")))
    }

    fn make(&self, served: &Kinds, scope: DocumentScope, subject: &DocumentSubject) -> Document {
        let document = match &scope {
            DocumentScope::Listing(listing) => listing.document(served),
            DocumentScope::Index => Document::new(self.index(served)),
            DocumentScope::Version(group_version, form) => {
                let kinds = served.version(&group_version.group, &group_version.version);
                let kinds = kinds.map(|version| kinds_of(version));
                let document = openapi::document(&kinds.unwrap_or_default());
                match form {
                    DocumentForm::Json => Document::new(document.to_string()),
                    DocumentForm::Protobuf => {
                        let scope = DocumentScope::Version(group_version.clone(), DocumentForm::Json);
                        let known = self.cache.lock().tag(&scope, subject);
                        let tag = known.unwrap_or_else(|| etag(document.to_string().as_bytes()).into());
                        Document { tag, bytes: openapi_proto::v3(&document).into() }
                    }
                }
            }
            DocumentScope::All(form) => openapi_v2_document(served, *form),
        };
        self.cache.lock().keep(scope, subject, &document, true);
        document
    }

    /// Returns the list of documents, sorted by group and version. The path of each document contains a hash of its
    /// content, so that clients can cache the document forever.
    fn index(&self, served: &Kinds) -> String {
        let mut paths = Map::new();
        for (version, kinds) in served.versions() {
            let path = version.path();
            let scope = DocumentScope::Version(version, DocumentForm::Json);
            let subject: DocumentSubject = kinds.clone();
            let known = self.cache.lock().tag(&scope, &subject);
            let tag = known.unwrap_or_else(|| {
                let document = Document::new(openapi::document(&kinds_of(kinds)).to_string());
                // Cache only the ETag of each document, because most clients request only a few documents.
                self.cache.lock().keep(scope, &subject, &document, false);
                document.tag
            });
            let place = json!({"serverRelativeURL": format!("/openapi/v3{path}?hash={tag}")});
            paths.insert(&path[1..], place);
        }
        json!({"paths": paths}).to_string()
    }
}

impl DocumentScope {
    fn subject(&self, served: &Arc<Kinds>) -> Option<DocumentSubject> {
        Some(match self {
            Self::Version(version, _) => served.version(&version.group, &version.version)?.clone(),
            Self::Listing(_) | Self::Index | Self::All(_) => served.clone(),
        })
    }
}

impl Listing {
    /// Builds the discovery document as a JSON value.
    pub fn value(self, served: &Kinds) -> Json {
        match self {
            Self::Aggregated { core } => aggregated(served, core),
            Self::Groups => group_list(served),
            Self::Paths => paths(served),
        }
    }

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

fn openapi_v2_document(served: &Kinds, form: DocumentForm) -> Document {
    let (head, mut text, mut proto) = (openapi_v2::head(), TextV2::default(), ProtoV2::default());
    openapi_v2::parts(served.versions().map(|(_, kinds)| kinds_of(kinds)), |part, name, value| {
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

fn kinds_of(version: &VersionKinds) -> Vec<Arc<Kind>> {
    version.kinds().cloned().collect()
}
