//! Decodes raw objects.

use std::borrow::Cow;
use std::sync::Arc;

use pintle_meta::{DecodeError, Metadata, Object, ObjectKey, ObjectMeta, Oversized, RawObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::panic::catch;
use crate::scan::Outline;
use crate::stored::{Stored, from_json};
use crate::undecodable::Undecodable;

/// A decoded object, or a decoding error. Cloning a `Decoded<T>` is cheap if `T` is an `Arc`.
#[derive(Clone)]
pub(crate) enum Decoded<T> {
    Object(T),
    Undecodable(Arc<(Undecodable, ObjectMeta)>),
}

#[derive(Clone)]
pub(crate) struct Observed<T> {
    pub(crate) object: Decoded<T>,
    /// The resourceVersion that the server sent, if it differs from the resourceVersion of the decoded object. The
    /// versions differ if a transform has changed the field or if the type does not have the field.
    pub(crate) resource_version: Option<String>,
    /// Whether the resourceVersion of the decoded object differs from the resourceVersion that the server sent. If
    /// `true`, the resourceVersion of the decoded object does not indicate the object's age.
    pub(crate) is_reshaped: bool,
}

pub(crate) fn decode<T: DeserializeOwned>(object: &RawObject, outline: Option<&Outline>) -> Decoded<T> {
    let json = match object {
        RawObject::Json(json) => json,
        RawObject::Oversized(oversized) => return Decoded::undecodable(identity(object), oversized.to_string()),
    };
    let pruned = outline.map_or(Cow::Borrowed(&**json), |outline| outline.pruned(json));
    match catch(|| from_json(&pruned)) {
        Ok(Ok(decoded)) => Decoded::Object(decoded),
        Ok(Err(error)) => Decoded::undecodable(identify(object, outline), DecodeError::from(error).to_string()),
        Err(panic) => Decoded::undecodable(identify(object, outline), format!("its Deserialize panicked: {panic}")),
    }
}

/// Returns the identity of an undecodable object. If the JSON after the metadata is invalid, the identity can only be
/// read from the outline.
fn identify(object: &RawObject, outline: Option<&Outline>) -> ObjectMeta {
    let identity = identity(object);
    if identity.name.is_empty()
        && let (RawObject::Json(json), Some(outline)) = (object, outline)
        && let Some(key) = outline.key(json)
    {
        let uid = outline.uid(json).unwrap_or_default().into_owned();
        let resource_version = outline.resource_version(json).unwrap_or_default().into_owned();
        return ObjectMeta {
            uid,
            resource_version,
            ..ObjectMeta::new(key.namespace().unwrap_or_default(), key.name())
        };
    }
    identity
}

/// Reads the identity of an object. Leaves a field of the result empty if it cannot be read. Skips all other fields
/// without validating them, because an undecodable object may contain invalid JSON or invalid UTF-8.
pub(crate) fn identity(object: &RawObject) -> ObjectMeta {
    #[derive(Deserialize)]
    struct MetadataOnly<'a> {
        #[serde(borrow)]
        metadata: Fields<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        namespace: Option<&'a RawValue>,
        #[serde(borrow)]
        uid: Option<&'a RawValue>,
        #[serde(borrow)]
        resource_version: Option<&'a RawValue>,
    }
    let json = match object {
        RawObject::Json(json) => json,
        RawObject::Oversized(oversized) => {
            let Oversized { key, uid, resource_version, .. } = &**oversized;
            let key = key.as_ref().map(|key| (key.namespace().unwrap_or_default(), key.name()));
            let (namespace, name) = key.unwrap_or_default();
            let (uid, resource_version) = (uid.clone(), resource_version.clone());
            return ObjectMeta { uid, resource_version, ..ObjectMeta::new(namespace, name) };
        }
    };
    let Ok(MetadataOnly { metadata }) = serde_json::from_slice(json) else { return ObjectMeta::default() };
    let text = |raw: Option<&RawValue>| match raw {
        None => Some(String::new()),
        Some(raw) => serde_json::from_str::<Option<String>>(raw.get()).ok().map(Option::unwrap_or_default),
    };
    // A key without the namespace or the name would identify a different object.
    let (Some(namespace), Some(name)) = (text(metadata.namespace), text(metadata.name)) else {
        return ObjectMeta::default();
    };
    ObjectMeta {
        uid: text(metadata.uid).unwrap_or_default(),
        resource_version: text(metadata.resource_version).unwrap_or_default(),
        ..ObjectMeta::new(namespace, name)
    }
}

impl<T> Decoded<T> {
    pub(crate) fn undecodable(metadata: ObjectMeta, error: String) -> Self {
        let entry = Undecodable {
            key: ObjectKey::new(&metadata.namespace, &metadata.name),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            error,
        };
        Self::Undecodable(Arc::new((entry, metadata)))
    }

    /// Returns the error if even the name of the object is unknown. If the name is unknown, the caller must ignore the
    /// whole list or the whole event.
    pub(crate) fn nameless(&self) -> Option<&str> {
        match self {
            Self::Undecodable(entry) if entry.1.name.is_empty() => Some(&entry.0.error),
            _ => None,
        }
    }
}

impl<T: Object> Object for Decoded<Stored<T>> {
    fn metadata(&self) -> &dyn Metadata {
        match self {
            Self::Object(object) => object.metadata(),
            Self::Undecodable(entry) => &entry.1,
        }
    }
}

impl<T> From<Decoded<T>> for Observed<T> {
    fn from(object: Decoded<T>) -> Self {
        Self { object, resource_version: None, is_reshaped: false }
    }
}

impl<T: Object> Object for Observed<Stored<T>> {
    fn metadata(&self) -> &dyn Metadata {
        self.object.metadata()
    }

    fn resource_version(&self) -> &str {
        self.resource_version.as_deref().unwrap_or_else(|| self.object.resource_version())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use pintle_meta::PartialObject;

    use super::*;
    use crate::projection::Projection;
    use crate::scan::Scanner;

    #[derive(Deserialize)]
    struct Sized {
        #[serde(rename = "metadata")]
        _metadata: ObjectMeta,
        #[serde(rename = "size")]
        _size: u32,
    }

    fn check<T: DeserializeOwned>(json: impl AsRef<[u8]>, key: &str, error: &str) {
        check_raw::<T>(Bytes::copy_from_slice(json.as_ref()).into(), key, error);
    }

    fn check_raw<T: DeserializeOwned>(object: RawObject, key: &str, error: &str) {
        let Decoded::Undecodable(entry) = decode::<T>(&object, None) else { panic!("it was decoded: {object:?}") };
        assert_eq!(entry.0.key.as_str(), key);
        assert!(entry.0.error.contains(error), "{:?}", entry.0.error);
        assert!(!entry.0.error.contains("hush"), "{:?}", entry.0.error);
    }

    #[test]
    fn decode_error_names_the_object_without_its_values() {
        check::<Sized>(
            r#"{"metadata":{"namespace":"a","name":"b"},"size":"hush, expected"}"#,
            "a/b",
            "invalid type: string, expected u32",
        );
        check::<Sized>(r#"{"metadata":{"name":"b"}}"#, "b", "missing field `size`");
        check::<PartialObject>(
            r#"{"metadata":{"namespace":"a","name":"b","labels":["hush"]}}"#,
            "a/b",
            "invalid type: sequence",
        );
        let deep =
            format!(r#"{{"metadata":{{"namespace":"a","name":"b"}},"size":{}1{}}}"#, "[".repeat(500), "]".repeat(500));
        check::<serde_json::Value>(&deep, "a/b", "recursion limit");
        check::<Sized>(r#"{"metadata":{"namespace":"a","name":"b"},"size":1e999}"#, "a/b", "number out of range");
        check::<PartialObject>(r#"{"metadata":{"name":7}}"#, "", "invalid type: integer, expected a string");
        check::<PartialObject>("null", "", "invalid type: null");
        check::<PartialObject>("{", "", "EOF");
    }

    #[test]
    fn invalid_json_after_the_metadata_keeps_the_key() {
        let json = r#"{"metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"7"},"spec":{"x":NaN}}"#;
        let object = RawObject::from(Bytes::from(json));
        let outline = Scanner::new(&Projection::default()).scan(json.as_bytes());
        let Decoded::Undecodable(entry) = decode::<PartialObject>(&object, outline.as_ref()) else { panic!("decoded") };
        let Undecodable { key, uid, resource_version, .. } = &entry.0;
        assert_eq!((key.as_str(), &**uid, &**resource_version), ("a/b", "u", "7"));
    }

    #[test]
    fn invalid_utf_8_is_a_decode_error() {
        check::<PartialObject>(
            b"{\"metadata\":{\"annotations\":{\"x\":\"hush\xff\"},\"namespace\":\"a\",\"name\":\"b\"}}",
            "a/b",
            "invalid unicode code point",
        );
        check::<PartialObject>(b"{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\xff\"}}", "", "invalid unicode");
    }

    #[test]
    fn incomplete_key_is_not_reported() {
        check::<PartialObject>(r#"{"metadata":{"namespace":7,"name":"b"}}"#, "", "invalid type: integer");
        check::<Sized>(r#"{"metadata":{"namespace":null,"name":"b"}}"#, "b", "missing field `size`");
    }

    #[test]
    fn oversized_object_is_named_as_far_as_known() {
        let found = Oversized { uid: "u".into(), resource_version: "7".into(), size: 70, limit: 50, key: None };
        let named = Oversized { key: Some(ObjectKey::new("a", "b")), ..found.clone() };
        check_raw::<PartialObject>(named.clone().into(), "a/b", "its size of 70 bytes exceeds the limit of 50");
        check_raw::<PartialObject>(found.into(), "", "exceeds the limit");
        let Decoded::Undecodable(entry) = decode::<PartialObject>(&named.into(), None) else {
            panic!("the object was decoded")
        };
        assert_eq!((entry.0.uid.as_str(), entry.0.resource_version.as_str()), ("u", "7"));
    }
}
