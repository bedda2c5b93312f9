//! Converts objects between the versions of a kind, through a common version that is called the hub.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ApiResource, Resource, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::change::{CHANGEABLE, converted_metadata};
use crate::decode::fields;
use crate::failure_log::FailureLog;
use crate::objects::Objects;
use crate::review::ConversionResponse;
use crate::shortened::{NAME, PROBLEM, shortened};

/// The number of objects, and their total size in bytes, after which a conversion lets other tasks run.
const TURN: usize = 32;
const TURN_BYTES: usize = 256 << 10;
/// The maximum size of an object in bytes. A decoded object can need many times the memory of its JSON, and etcd stores
/// objects of at most 3 MiB.
const OBJECT_BYTES: usize = 8 << 20;

/// The versions of a kind, and the conversions between them. All conversions go through a common version, which is
/// called the hub.
///
/// [`From`] or [`TryFrom`] implementations convert each version to the hub, and the hub to each version. A kind with
/// *n* versions therefore needs 2(*n* − 1) conversions. The hub should have all fields of all versions, because
/// conversions lose fields that the hub lacks. Pass the hub to [`Webhooks::convert`](crate::Webhooks::convert).
///
/// If an object cannot be converted, every list and watch that includes the object fails. The API server retries failed
/// conversions without any limit. To avoid failed conversions, implement [`From`] instead of [`TryFrom`]. For a field
/// that a version lacks, store the value in an annotation, or reject objects with this field in a validating webhook.
///
/// The conversion of an object above 8 MiB fails.
///
/// For each version and problem, the hub logs failed conversions once a minute, with the number of failures since the
/// last log line.
///
/// A conversion may change labels and annotations. The hub copies all other metadata from the object in the request,
/// because the API server ignores or rejects other metadata changes.
///
/// # Examples
///
/// ```
/// use pintle_meta::ObjectMeta;
/// use pintle_webhook::{Hub, Webhooks};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     domains: Vec<String>,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[derive(Deserialize, Serialize)]
/// struct OldWebsite {
///     metadata: ObjectMeta,
///     domain: String,
/// }
/// pintle_meta::resource!(OldWebsite, "example.com/v1alpha1", "Website", "websites", Namespaced);
///
/// impl From<OldWebsite> for Website {
///     fn from(old: OldWebsite) -> Self {
///         Self { metadata: old.metadata, domains: vec![old.domain] }
///     }
/// }
///
/// impl TryFrom<Website> for OldWebsite {
///     type Error = &'static str;
///
///     fn try_from(site: Website) -> Result<Self, Self::Error> {
///         let [domain] = site.domains.try_into().map_err(|_| "v1alpha1 has exactly one domain")?;
///         Ok(Self { metadata: site.metadata, domain })
///     }
/// }
///
/// let webhooks = Webhooks::new().convert(Hub::<Website>::new().spoke::<OldWebsite>());
/// assert_eq!(webhooks.paths().collect::<Vec<_>>(), ["/convert/example.com/websites"]);
/// ```
#[must_use = "a hub does nothing until it is passed to `Webhooks::convert`"]
pub struct Hub<H> {
    resource: ApiResource,
    versions: BTreeMap<String, Version<H>>,
}

type Read<H> = Box<dyn Fn(&RawValue) -> Result<(H, Value), String> + Send + Sync>;

struct Version<H> {
    /// Decodes an object and converts it to the hub version. Also returns the object's metadata, serialized by the Rust
    /// type of its version.
    read: Read<H>,
    write: Box<dyn Fn(H) -> Result<Value, String> + Send + Sync>,
    /// Returns `true` if the Rust type of the version keeps a field of the metadata. The metadata of the given object
    /// must contain this field.
    knows: fn(&Value, &str) -> bool,
}

impl<H: Resource + DeserializeOwned + Serialize> Hub<H> {
    /// Creates a hub whose only version is the hub version `H`.
    #[expect(clippy::new_without_default, reason = "a hub without a spoke is useless")]
    pub fn new() -> Self {
        Self { resource: H::api_resource(), versions: BTreeMap::new() }.spoke::<H>()
    }

    /// Adds a version of the kind.
    ///
    /// # Panics
    ///
    /// Panics if the group, kind or plural of `S` is different from the hub's, or if the version was already added.
    pub fn spoke<S>(mut self) -> Self
    where
        S: Resource + DeserializeOwned + Serialize + TryInto<H> + TryFrom<H>,
        <S as TryInto<H>>::Error: fmt::Display,
        <S as TryFrom<H>>::Error: fmt::Display,
    {
        let (hub, spoke) = (&self.resource, S::api_resource());
        let same = hub.group_resource() == spoke.group_resource() && hub.kind == spoke.kind;
        assert!(same, "{} cannot convert to {}: they must be versions of one kind", spoke.gvk(), hub.gvk());
        let version = Version {
            read: Box::new(|json| {
                let object: S = fields(json)?;
                let metadata = metadata_of(&object)?;
                Ok((object.try_into().map_err(|error| error.to_string())?, metadata))
            }),
            write: Box::new(|hub| {
                let object = S::try_from(hub).map_err(|error| error.to_string())?;
                serde_json::to_value(object).map_err(|error| error.to_string())
            }),
            knows: knows::<S>,
        };
        let earlier = self.versions.insert(S::API_VERSION.into(), version);
        assert!(earlier.is_none(), "{} was already added", S::API_VERSION);
        self
    }

    pub(crate) fn conversion(self) -> Conversion {
        let resource = self.resource.clone();
        let convert: Convert = Arc::new(move |object, desired| self.convert(object, desired));
        Conversion { resource, convert, log: Arc::default() }
    }

    fn convert(&self, json: &RawValue, desired: &str) -> Result<Box<RawValue>, Failure> {
        if !json.get().starts_with('{') {
            return Err("the value is not a JSON object".into());
        }
        if json.get().len() > OBJECT_BYTES {
            return Err(format!("the object has more than {OBJECT_BYTES} bytes").into());
        }
        let sent: Envelope = fields(json)?;
        let metadata = sent.metadata.ok_or("the object has no metadata")?;
        let object = metadata.get("name").and_then(Value::as_str);
        let object = object.map(|name| format!("{} {:?}", self.resource, shortened(name, NAME)));
        let name = |problem: String| Failure { object: object.clone(), ..problem.into() };
        if sent.kind != self.resource.kind {
            let kind = shortened(&sent.kind, NAME);
            return Err(name(format!("the kind is {kind:?} and not {:?}", self.resource.kind)));
        }
        if sent.api_version == desired {
            return Ok(json.to_owned());
        }
        let (read, write) = (self.version(&sent.api_version)?, self.version(desired)?);
        let (hub, before) = (read.read)(json).map_err(|problem| name(format!("{}: {problem}", sent.api_version)))?;
        let mut converted = (write.write)(hub).map_err(|problem| name(format!("{desired}: {problem}")))?;
        if !converted["metadata"].is_object() {
            return Err(name(format!("{desired} has no metadata as a JSON object")));
        }
        for part in CHANGEABLE {
            let emptied = before.get(part).filter(|_| converted["metadata"].get(part).is_none());
            if let Some(old) = emptied {
                // Keep fields that the Rust type of the desired version or of the hub does not declare, because the
                // conversion would lose them unintentionally.
                let mut probe = converted.clone();
                probe["metadata"][part] = old.clone();
                if !(write.knows)(&probe, part) || !hub_knows(&read.read, json, part, old) {
                    converted = probe;
                }
            }
        }
        let after = converted["metadata"].take();
        converted["metadata"] = converted_metadata(&metadata, before, after).into();
        converted["apiVersion"] = desired.into();
        converted["kind"] = sent.kind.into();
        serde_json::value::to_raw_value(&converted).map_err(|error| name(error.to_string()))
    }

    fn version(&self, wanted: &str) -> Result<&Version<H>, String> {
        self.versions.get(wanted).ok_or_else(|| {
            let known: Vec<_> = self.versions.keys().map(String::as_str).collect();
            let wanted = shortened(wanted, NAME);
            format!("{wanted:?} is no version of {}; the webhook converts {}", self.resource, known.join(", "))
        })
    }
}

fn knows<S: DeserializeOwned + Serialize>(object: &Value, part: &str) -> bool {
    S::deserialize(object).is_ok_and(|object| metadata_of(&object).is_ok_and(|metadata| metadata.get(part).is_some()))
}

/// Returns whether the Rust type of the hub version keeps the metadata field `part`. `json` is an object of another
/// version.
fn hub_knows<H: DeserializeOwned + Serialize>(read: &Read<H>, json: &RawValue, part: &str, value: &Value) -> bool {
    let hub = read(json).ok().and_then(|(hub, _)| serde_json::to_value(hub).ok());
    hub.is_some_and(|mut hub| {
        if let Some(metadata) = hub.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(part.into(), value.clone());
        }
        knows::<H>(&hub, part)
    })
}

fn metadata_of<S: Serialize>(object: &S) -> Result<Value, String> {
    let mut json = serde_json::to_value(object).map_err(|error| error.to_string())?;
    Ok(json.get_mut("metadata").map(Value::take).unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Envelope {
    api_version: String,
    kind: String,
    metadata: Option<Map<String, Value>>,
}

pintle_meta::debug_struct!(Hub<H> |self| { resource, versions = self.versions.keys().collect::<Vec<_>>() });

type Convert = Arc<dyn Fn(&RawValue, &str) -> Result<Box<RawValue>, Failure> + Send + Sync>;

struct Failure {
    object: Option<String>,
    problem: String,
}

impl<P: AsRef<str>> From<P> for Failure {
    fn from(problem: P) -> Self {
        // The conversions of the operator can quote any text from the object.
        Self { object: None, problem: shortened(problem.as_ref(), PROBLEM).into_owned() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{object}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

/// The conversion webhook of a kind, without type parameters for the versions.
#[derive(Clone)]
pub(crate) struct Conversion {
    pub(crate) resource: ApiResource,
    convert: Convert,
    log: Arc<FailureLog>,
}

impl Conversion {
    pub(crate) fn path(&self) -> String {
        format!("/convert/{}/{}", self.resource.group_version.group, self.resource.plural)
    }

    /// Converts all objects within a time limit, or none of them if any conversion fails.
    pub(crate) async fn respond(
        &self,
        uid: String,
        desired: &str,
        objects: Objects<'_>,
        limit: Duration,
    ) -> ConversionResponse {
        let converted = timeout(limit, self.convert_all(desired, objects)).await.unwrap_or_else(|_| {
            let problem = format!("not converted within {limit:?}");
            self.log.warn(desired, &problem, &problem);
            Err(problem)
        });
        let (result, converted_objects) = match converted {
            Ok(converted) => (Status { status: "Success".into(), ..Status::default() }, converted),
            Err(message) => (Status { status: "Failure".into(), message, ..Status::default() }, Vec::new()),
        };
        ConversionResponse { uid, result, converted_objects }
    }

    async fn convert_all(&self, desired: &str, objects: Objects<'_>) -> Result<Vec<Box<RawValue>>, String> {
        let (mut converted_objects, mut turn_bytes) = (Vec::new(), 0);
        for (at, object) in objects.enumerate() {
            if at % TURN == TURN - 1 || turn_bytes >= TURN_BYTES {
                turn_bytes = 0;
                tokio::task::yield_now().await;
            }
            turn_bytes += object.get().len();
            let converted = catch_unwind(AssertUnwindSafe(|| (self.convert)(object, desired)))
                .unwrap_or_else(|_| Err("the conversion panicked; the log of the webhook has the cause".into()));
            match converted {
                Ok(converted) => converted_objects.push(converted),
                Err(failure) => {
                    let message = format!("objects[{at}]: {failure}");
                    self.log.warn(desired, &failure.problem, &message);
                    return Err(message);
                }
            }
        }
        Ok(converted_objects)
    }
}
