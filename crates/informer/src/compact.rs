//! Objects that are kept compressed, and decoded when they are read.

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

use crate::Undecodable;
use crate::panic::catch;
use record::Record;

/// An object as the compressed text of its JSON: a `T` that is decoded when it is [read](Self::get). Of k8s-openapi's pods, it takes a
/// thirtieth of the memory: see [the comparison](crate#what-is-kept-of-an-object).
///
/// Key, uid, resourceVersion and generation are at hand. So are labels, owners and finalizers, which no selector decodes an object
/// for; once they were read, they stay in memory, one copy for all objects that have the same. Annotations are decoded when they are
/// first read, and then stay in memory with their object.
///
/// It reads whatever has metadata of the usual form. So an object that is no `T` goes into the cache as any other and is not among the
/// [`undecodable`](crate::Lister::undecodable) ones: it is whoever reads it who is told.
///
/// # What is shared
///
/// Objects of one `T` have a dictionary in common, and recently read ones are shared, for as long as there are any, in whichever
/// informers of the process:
///
/// - The dictionary is learnt as they come: an object that it does not help is added to it, up to 32 KiB in all, and no more than
///   8 KiB of each. **So what the first Secrets say, for one, stays in memory beyond their deletion.** Where kinds have one type, as
///   with [`DynamicObject`](pintle_meta::DynamicObject), it fits those best that come first.
/// - Up to 17 decoded objects are kept for the next reader, none longer than the `Compact` that it was read from.
/// - Objects with the same labels, owners and finalizers, as the replicas of a set have, share them.
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
///     // An index function decodes what it looks at. What it fails on is shown among the undecodable objects.
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
    /// Compresses an object: for tests, and for transforms that change one. Of what came from a server, only that is in it which `T`
    /// has fields for.
    ///
    /// # Errors
    ///
    /// What `T` serializes to has no metadata of the usual form, or is no JSON.
    pub fn new(object: &T) -> Result<Self, DecodeError>
    where
        T: Serialize,
    {
        Ok(Self::from_json(&serde_json::to_string(object)?)?)
    }

    fn from_json(json: &str) -> serde_json::Result<Self> {
        Ok(Self { record: Record::new::<T>(json)?, object: PhantomData })
    }

    /// The object. It is decoded, unless that was done a short while ago.
    ///
    /// It takes as long as it takes to decode a `T` and some microseconds, and waits for nobody.
    ///
    /// # Errors
    ///
    /// It is no `T`, or the `Deserialize` of `T` panicked on it: what is shown of the others that
    /// [cannot be decoded](Undecodable). Whoever asks again is told again.
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

/// From JSON that is told by serde_json. `T` is not decoded.
impl<'de, T: 'static> Deserialize<'de> for Compact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(json.get()).map_err(D::Error::custom)
    }
}

/// To the JSON that it was read from, for serde_json.
impl<T> Serialize for Compact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.record.json().ok_or_else(|| S::Error::custom("its compressed form is damaged"))?;
        RawValue::from_string(json).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Who it is and how large, not what it says.
impl<T> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compact").field(&self.record).finish()
    }
}
