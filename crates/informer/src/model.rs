//! Objects that are decoded on read, without an informer, for loom and shuttle tests.

use std::sync::Arc;

use pintle_meta::Object;
use serde::de::DeserializeOwned;

use crate::projection::Projection;
use crate::scan::Scanner;
use crate::stored::{Source, Stored};

/// Creates objects in the form that an informer's cache stores.
pub struct Objects<T> {
    scanner: Scanner,
    source: Arc<Source<T>>,
}

/// A stored object.
pub struct Handle<T>(Stored<T>);

impl<T: Object + DeserializeOwned> Objects<T> {
    /// Creates an empty set of objects. The decoded objects take at most about `hot_bytes` bytes of memory.
    pub fn new(hot_bytes: usize) -> Self {
        Self { scanner: Scanner::new(&Projection::whole()), source: Arc::new(Source::new(String::new(), hot_bytes)) }
    }

    /// Stores an object, replacing its previous state `known`.
    ///
    /// # Panics
    ///
    /// Panics if `json` is not valid JSON or lacks an object's metadata.
    pub fn store(&self, json: &str, known: Option<&Handle<T>>) -> Handle<T> {
        let outline = self.scanner.scan(json.as_bytes()).expect("the test stores valid JSON");
        let record = outline.record(json.as_bytes(), &self.source).expect("the object has metadata");
        let stored = Stored::Lazy(Arc::new(record));
        if let Some(known) = known {
            stored.falls_back_to(&known.0);
        }
        Handle(stored)
    }

    /// Returns `true` if the set contains an object without a known decodable state.
    pub fn has_unknown(&self) -> bool {
        self.source.has_unknown()
    }

    /// Returns the number of objects that were reported as undecodable.
    pub fn found(&self) -> usize {
        self.source.found().len()
    }
}

impl<T> Handle<T> {
    /// Decodes the object if it has not been checked yet. The decoded object stays in memory until the returned value
    /// is dropped, or longer if a reader has read the object.
    pub fn check(&self) -> impl Sized + use<T> {
        self.0.check().lease
    }

    /// Reads the object.
    pub fn read(&self) -> Option<Arc<T>> {
        self.0.read()
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
