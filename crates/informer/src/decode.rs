//! From the bytes of an object to the object, or to what can be said of one that cannot be decoded.

use std::sync::Arc;

use pintle_meta::{Metadata, Object, ObjectKey, ObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// An object that the server has and that cannot be decoded: an entry of [`Lister::undecodable`](crate::Lister::undecodable).
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "team-a", "name": "web-1", "generation": "seven"}}));
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let lister = informer.lister();
///     assert!(lister.is_empty());
///     let pod = &lister.undecodable()[0];
///     assert_eq!(pod.key.as_str(), "team-a/web-1");
///     assert!(pod.error.starts_with("invalid type: string, expected i64"), "{}", pod.error);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Undecodable {
    /// The key.
    pub key: ObjectKey,
    /// The uid, as far as the bytes tell it.
    pub uid: String,
    /// The resourceVersion, as far as the bytes tell it.
    pub resource_version: String,
    /// What is wrong with it, and where. Values of a wrong type are left out; what a type's own `Deserialize` says is kept,
    /// even if it quotes a value.
    pub error: String,
}

/// What came of decoding. Cloned as a reference count where `T` is one.
#[derive(Clone)]
pub(crate) enum Decoded<T> {
    Object(T),
    /// With what is known of its metadata.
    Undecodable(Arc<(Undecodable, ObjectMeta)>),
}

/// Decodes an object.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Decoded<T> {
    match serde_json::from_slice(bytes) {
        Ok(object) => Decoded::Object(object),
        Err(error) => Decoded::undecodable(identity(bytes), without_value(&error.to_string())),
    }
}

/// What tells an object from others, as far as it can be read. The rest is skipped unread, since it may be the trouble.
fn identity(bytes: &[u8]) -> ObjectMeta {
    #[derive(Deserialize)]
    struct Skim<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
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
    let skim: Option<Skim<'_>> = serde_json::from_slice(bytes).ok();
    let metadata = skim.and_then(|skim| skim.metadata);
    let fields: Fields<'_> =
        metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok()).unwrap_or_default();
    let text = |raw: Option<&RawValue>| -> String {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    };
    ObjectMeta {
        uid: text(fields.uid),
        resource_version: text(fields.resource_version),
        ..ObjectMeta::new(text(fields.namespace), text(fields.name))
    }
}

impl<T> Decoded<T> {
    /// An entry for the object that goes by this metadata.
    pub(crate) fn undecodable(metadata: ObjectMeta, error: String) -> Self {
        let entry = Undecodable {
            key: ObjectKey::new(&metadata.namespace, &metadata.name),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            error,
        };
        Self::Undecodable(Arc::new((entry, metadata)))
    }

    /// Why it cannot even be told which object it is. Nothing may be concluded from a list that has one, nor from an event.
    pub(crate) fn nameless(&self) -> Option<&str> {
        match self {
            Self::Undecodable(entry) if entry.1.name.is_empty() => Some(&entry.0.error),
            _ => None,
        }
    }

    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Decoded<U> {
        match self {
            Self::Object(object) => Decoded::Object(change(object)),
            Self::Undecodable(entry) => Decoded::Undecodable(entry),
        }
    }
}

impl<T: Object> Decoded<Arc<T>> {
    pub(crate) fn key(&self) -> ObjectKey {
        match self {
            Self::Object(object) => object.key(),
            Self::Undecodable(entry) => entry.0.key.clone(),
        }
    }

    pub(crate) fn resource_version(&self) -> &str {
        match self {
            Self::Object(object) => object.resource_version(),
            Self::Undecodable(entry) => &entry.0.resource_version,
        }
    }
}

impl<T: Object> Object for Decoded<T> {
    fn metadata(&self) -> &dyn Metadata {
        match self {
            Self::Object(object) => object.metadata(),
            Self::Undecodable(entry) => &entry.1,
        }
    }
}

/// serde's `invalid type: string "…", expected …` and its like, without the value, which may be a secret.
fn without_value(message: &str) -> String {
    let found =
        ["invalid type: ", "invalid value: ", "unknown variant "].into_iter().find(|start| message.starts_with(start));
    let cut = found.and_then(|start| {
        let rest = &message[start.len()..];
        let what = if rest.starts_with('`') { "" } else { rest.split([' ', ',']).next().unwrap_or_default() };
        Some(format!("{start}{what}{}", &rest[rest.rfind(", expected")?..]))
    });
    cut.unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use pintle_meta::PartialObject;

    use super::*;

    #[derive(Deserialize)]
    struct Sized {
        #[serde(rename = "metadata")]
        _metadata: ObjectMeta,
        #[serde(rename = "size")]
        _size: u32,
    }

    fn check<T: DeserializeOwned>(bytes: &str, key: &str, error: &str) {
        let Decoded::Undecodable(entry) = decode::<T>(bytes.as_bytes()) else { panic!("it was decoded: {bytes}") };
        assert_eq!(entry.0.key.as_str(), key);
        assert!(entry.0.error.contains(error), "{:?}", entry.0.error);
        assert!(!entry.0.error.contains("hush"), "{:?}", entry.0.error);
    }

    #[test]
    fn what_cannot_be_decoded_is_named_without_its_values() {
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
}
