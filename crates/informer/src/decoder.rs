//! Prepares raw objects for the cache. The decoder scans each object and drops fields. The decoder also decodes and
//! transforms the object, unless the object is decoded on read.

use std::borrow::Cow;
use std::sync::Arc;

use pintle_meta::{Object, ObjectKey, ObjectMeta, RawObject};
use serde::de::DeserializeOwned;

use crate::cache::Cache;
use crate::catch_drop::CatchDrop;
use crate::config::Transform;
use crate::decode::{Decoded, Observed, decode, identity};
use crate::no_subscriber::NoSubscriberWarning;
use crate::panic::catch;
use crate::projection::Projection;
use crate::scan::{Outline, Scanner};
use crate::stored::{Source, Stored};
use crate::undecodable::cannot_decode;
use crate::writer::LastWrite;

pub(crate) struct Decoder<T> {
    informer: String,
    scanner: Scanner,
    transform: Option<Transform<T>>,
    /// Decodes objects on read, or `None` if objects are decoded when they arrive.
    source: Option<Arc<Source<T>>>,
    cache: Arc<Cache<T>>,
    no_subscriber: NoSubscriberWarning,
}

impl<T: Object + DeserializeOwned> Decoder<T> {
    pub(crate) fn new(
        informer: String,
        projection: &Projection,
        transform: Option<Transform<T>>,
        cache: Arc<Cache<T>>,
    ) -> Self {
        let source = cache.source().cloned();
        Self {
            informer,
            scanner: Scanner::new(projection),
            transform,
            source,
            cache,
            no_subscriber: NoSubscriberWarning::default(),
        }
    }

    /// Decodes an object of a list or a streaming list. If the cache contains an object with the same uid and
    /// resourceVersion, this method returns the cached object instead. The cached object is already pruned and
    /// transformed. If `is_anew` is `true`, cached objects are not reused. Callers must set `is_anew` after the server
    /// was restored, because the same resourceVersion may identify a different state after a restore.
    pub(crate) fn listed(&self, object: &RawObject, is_anew: bool) -> Decoded<Stored<T>> {
        let outline = self.outline(object);
        let known = if is_anew { None } else { self.known(object, outline.as_ref()) };
        match known {
            Some(known) => Decoded::Object(known),
            None => self.decode(object, outline.as_ref()),
        }
    }

    pub(crate) fn changed(&self, object: &RawObject) -> Observed<Stored<T>> {
        let outline = self.outline(object);
        let decoded = self.decode(object, outline.as_ref());
        let resource_version = match (object, &outline) {
            (RawObject::Json(json), Some(outline)) => outline.resource_version(json),
            _ => None,
        };
        let resource_version = resource_version.filter(|version| version != decoded.resource_version());
        let is_reshaped = resource_version.is_some();
        Observed { resource_version: resource_version.map(Cow::into_owned), object: decoded, is_reshaped }
    }

    fn outline(&self, object: &RawObject) -> Option<Outline> {
        match object {
            RawObject::Json(json) => self.scanner.scan(json),
            RawObject::Oversized(_) => None,
        }
    }

    /// Returns the cached object with the same uid and resourceVersion. The uid and the resourceVersion together
    /// identify a single state of an object. An object without uid or resourceVersion is always decoded.
    fn known(&self, object: &RawObject, outline: Option<&Outline>) -> Option<Stored<T>> {
        let (RawObject::Json(json), Some(outline)) = (object, outline) else { return None };
        let (uid, resource_version) = (outline.uid(json)?, outline.resource_version(json)?);
        if uid.is_empty() || resource_version.is_empty() {
            return None;
        }
        let known = self.cache.store.get(&outline.key(json)?)?;
        (known.uid() == uid && known.resource_version() == resource_version).then_some(known)
    }

    fn decode(&self, object: &RawObject, outline: Option<&Outline>) -> Decoded<Stored<T>> {
        if let (Some(source), RawObject::Json(json), Some(outline)) = (&self.source, object, outline)
            // Decode the new state immediately if the previous state was undecodable, because the new state is often
            // undecodable, too.
            && !self.cache.is_undecodable(|| outline.key(json))
            && let Some(record) = outline.record(json, source)
        {
            return Decoded::Object(Stored::Lazy(Arc::new(record)));
        }
        match decode(object, outline) {
            Decoded::Object(decoded) => self.transformed(decoded, object, outline),
            Decoded::Undecodable(entry) => {
                if !entry.1.name.is_empty() {
                    let (key, error) = (&entry.0.key, &entry.0.error);
                    tracing::warn!(informer = %self.informer, %key, error, "cannot decode an object");
                    self.no_subscriber.warn(|| cannot_decode(&self.informer, &entry.0));
                }
                Decoded::Undecodable(entry)
            }
        }
    }

    fn transformed(&self, mut decoded: T, object: &RawObject, outline: Option<&Outline>) -> Decoded<Stored<T>> {
        let transform = || self.transform.as_ref().map(|transform| transform(&mut decoded));
        let transformed = catch(transform).map_err(|panic| ("the transform", panic));
        let decoded = CatchDrop::from(Arc::new(decoded));
        // Read the metadata here, because the cache and the subscribers read it later. A panic here affects only this
        // object, but a panic during a later read would also affect other objects.
        let probed = transformed.and_then(|_| catch(|| probe(&**decoded)).map_err(|panic| ("its Metadata", panic)));
        match probed {
            Ok(true) => {
                let last_write = match (object, outline) {
                    (RawObject::Json(json), Some(outline)) => outline.last_write(json),
                    _ => LastWrite::default(),
                };
                Decoded::Object(Stored::Eager(decoded, last_write))
            }
            Ok(false) => Decoded::undecodable(ObjectMeta::default(), "its name is empty".into()),
            Err((what, panic)) => self.panicked(what, panic, identity(object)),
        }
    }

    fn panicked(&self, what: &str, panic: String, identity: ObjectMeta) -> Decoded<Stored<T>> {
        let key = ObjectKey::new(&identity.namespace, &identity.name);
        tracing::error!(informer = %self.informer, %key, panic, "{what} panicked on an object");
        self.no_subscriber.warn(|| format!("{what} panicked on {key} in informer {:?}: {panic}", self.informer));
        Decoded::undecodable(identity, format!("{what} panicked on it: {panic}"))
    }
}

/// Reads the identifying metadata of an object. If the object's `Metadata` implementation panics, it panics in this
/// call. Returns `true` if the object has a name.
fn probe(object: &impl Object) -> bool {
    let (key, uid, resource_version) = (object.key(), object.uid(), object.resource_version());
    let is_named = !key.name().is_empty();
    std::hint::black_box((key, uid, resource_version));
    is_named
}
