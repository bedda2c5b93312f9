//! Compressed objects that are decoded on each read.

mod codec;
mod common;
mod dictionary;
mod recent;
mod record;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pintle_meta::{ApiResource, DecodeError, Metadata, Object, Resource};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::panic::catch;
use crate::undecodable::Undecodable;
use record::Record;

/// An object that is stored as compressed JSON and decoded as a `T` each time it is [read](Self::get). A compressed
/// k8s-openapi pod takes a thirtieth of the memory of a decoded pod. See [the
/// comparison](crate#choosing-the-object-type).
///
/// The key, uid, resourceVersion, generation, labels, owners and finalizers can be read without decoding the object, so
/// selectors decode no objects. Labels, owners and finalizers stay in memory after the first read. Objects with equal
/// labels, owners and finalizers share one copy in memory. Annotations are decoded on the first read, and then stay in
/// memory as long as their object.
///
/// The cache accepts any object with valid metadata, even if the object is not a valid `T`.
/// [`undecodable`](crate::Lister::undecodable) does not list objects that are not a valid `T`. Reading an object that
/// is not a valid `T` always returns an error.
///
/// # Shared memory
///
/// All `Compact<T>` objects of the process share a dictionary and a cache of recently decoded objects. The dictionary
/// and the cache stay in memory until the last `Compact<T>` is dropped:
///
/// - The dictionary is built incrementally from the objects that arrive. If the dictionary compresses an object badly,
///   the object is added to the dictionary. The dictionary takes at most 8 KiB of each object and 32 KiB in total.
///   **Parts of the first Secrets in a cache therefore stay in memory after their deletion.** If several kinds share one
///   type, as with [`DynamicObject`](pintle_meta::DynamicObject), the dictionary fits the first kinds best.
/// - The cache keeps up to 17 recently decoded objects. Dropping a `Compact` also drops its decoded object.
/// - Objects with equal labels, owners and finalizers, such as the pods of a ReplicaSet, share one copy of these
///   fields.
///
/// # Examples
///
/// ```
/// use pintle_informer::{Compact, InformerConfig, SharedInformer};
/// use pintle_meta::{ObjectKey, ObjectMeta};
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     owner: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let website = Website { metadata: ObjectMeta::new("team-a", "blog"), owner: "ann".into() };
///     let websites = Collection::from([Compact::new(&website)?]);
///     let informer = SharedInformer::new(websites, InformerConfig::default());
///     // An index function decodes the object. It should handle errors, as this one does.
///     informer.add_index("owner", |site: &Compact<Website>| site.get().map(|site| vec![site.owner.clone()]).unwrap_or_default())?;
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let blog = &informer.lister().by_index("owner", "ann")?[0];
///     assert_eq!(blog.get()?.owner, "ann");
///     Ok(())
/// }
/// ```
pub struct Compact<T> {
    record: Record,
    object: PhantomData<fn() -> T>,
}

impl<T: 'static> Compact<T> {
    /// Compresses an object, for tests and for transforms. The compressed object contains only the fields that `T`
    /// serializes.
    ///
    /// # Errors
    ///
    /// Returns an error if `object` cannot be serialized as JSON or lacks the required metadata.
    pub fn new(object: &T) -> Result<Self, DecodeError>
    where
        T: Object + Serialize,
    {
        Ok(Self::from_json(&serde_json::to_string(object)?, object.metadata().supports_finalizers())?)
    }

    fn from_json(json: &str, has_finalizers: bool) -> serde_json::Result<Self> {
        Ok(Self { record: Record::new::<T>(json, has_finalizers)?, object: PhantomData })
    }

    /// Decodes and returns the object. Returns the same `Arc` as a previous call if the object was decoded recently.
    ///
    /// The cost of this call is the cost of deserializing a `T`, plus some microseconds for the decompression. The call
    /// does not wait for other threads.
    ///
    /// # Errors
    ///
    /// Returns [`Undecodable`] if the object is not a valid `T`, or if the `Deserialize` implementation of `T`
    /// panicked. Each call for an object that is not a valid `T` returns an error.
    pub fn get(&self) -> Result<Arc<T>, Undecodable>
    where
        T: DeserializeOwned + Send + Sync,
    {
        if let Some(recent) = self.record.recent() {
            return Ok(recent);
        }
        let error = match catch(|| self.record.json().map(|json| serde_json::from_str::<T>(&json))) {
            Ok(Some(Ok(decoded))) => {
                let decoded = Arc::new(decoded);
                self.record.keep(decoded.clone());
                return Ok(decoded);
            }
            Ok(Some(Err(error))) => DecodeError::from(error).to_string(),
            Ok(None) => "its compressed form is damaged".to_owned(),
            Err(panic) => format!("its Deserialize panicked: {panic}"),
        };
        let (uid, resource_version) = (self.uid().to_owned(), self.resource_version().to_owned());
        Err(Undecodable { key: self.key(), uid, resource_version, error })
    }
}

impl<T: 'static> Object for Compact<T> {
    fn metadata(&self) -> &dyn Metadata {
        &self.record
    }
}

impl<T: Resource> Resource for Compact<T> {
    type Scope = T::Scope;
    const API_VERSION: &'static str = T::API_VERSION;
    const KIND: &'static str = T::KIND;
    const PLURAL: &'static str = T::PLURAL;

    fn api_resource() -> ApiResource {
        T::api_resource()
    }
}

/// Accepts any object with valid metadata, without decoding the JSON as a `T`.
impl<'de, T: 'static> Deserialize<'de> for Compact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(json.get(), true).map_err(D::Error::custom)
    }
}

/// Writes the original JSON of the object.
impl<T> Serialize for Compact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.record.json().ok_or_else(|| S::Error::custom("its compressed form is damaged"))?;
        RawValue::from_string(json).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Prints the object's identity and size, but not its content.
impl<T> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compact").field(&self.record).finish()
    }
}
