//! Locks in an annotation of a ConfigMap or Endpoints object.

use pintle_meta::__private::or_empty;
use pintle_meta::{
    ApiError, ApiResource, DynamicObject, ListWatch, Object, ObjectApi, ObjectKey, ObjectMeta, Scope, Time, TypeMeta,
    WriteOptions,
};
use serde::{Deserialize, Serialize};

use crate::config::Observers;
use crate::lock::{Lock, LockEvents, LockSnapshot, comparable, lock_event, stored};
use crate::record::{LeaderElectionRecord, LockState, TimePrecision, Version};
use crate::watching::watch_one;

/// The annotation that contains the election record.
pub const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// A [`Lock`] in an annotation of a ConfigMap or Endpoints object, for compatibility with programs that do not use
/// Leases.
///
/// Times are stored with a precision of one second. A write changes only the annotation and leaves the rest of the
/// object unchanged. If the record cannot be parsed, every `get` fails with an error that names the object and the
/// annotation. Until the record is repaired manually, no contender can lead.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{AnnotationLock, Lock};
/// use pintle_meta::{DynamicObject, ListWatch, ObjectApi};
///
/// fn old_lock(config_maps: impl ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>) -> impl Lock {
///     AnnotationLock::config_map(config_maps, "kube-system", "website-controller")
/// }
/// ```
#[derive(Debug)]
pub struct AnnotationLock<A> {
    /// Whether the elector watches the object to detect immediately when the lock is released. The default is `true`.
    /// If the watch is forbidden, fails or reports no events, the elector polls the object instead.
    pub watch: bool,
    /// The default metrics provider and the default event hook for electors that use this lock. By default, the lock
    /// has no metrics provider and no event hook.
    pub observers: Observers,
    api: A,
    resource: ApiResource,
    key: ObjectKey,
}

impl<A: ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>> AnnotationLock<A> {
    /// Creates a lock in an annotation of the ConfigMap `name` in `namespace`. `api` must be a client for ConfigMaps.
    pub fn config_map(api: A, namespace: &str, name: &str) -> Self {
        let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
        Self { watch: true, observers: Observers::default(), api, resource, key: ObjectKey::new(namespace, name) }
    }

    /// Creates a lock in the Endpoints object `name` in `namespace`. `api` must access Endpoints.
    pub fn endpoints(api: A, namespace: &str, name: &str) -> Self {
        let resource = ApiResource::new("v1", "Endpoints", "endpoints", Scope::Namespaced);
        Self { watch: true, observers: Observers::default(), api, resource, key: ObjectKey::new(namespace, name) }
    }
}

impl<A: ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>> Lock for AnnotationLock<A> {
    type Object = DynamicObject;

    fn resource(&self) -> ApiResource {
        self.resource.clone()
    }

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn time_precision(&self) -> TimePrecision {
        TimePrecision::Seconds
    }

    fn can_be_coordinated(&self) -> bool {
        false
    }

    fn observers(&self) -> Observers {
        self.observers.clone()
    }

    async fn watch(&self) -> Result<Option<LockEvents<DynamicObject>>, ApiError> {
        if !self.watch {
            return Ok(None);
        }
        let kind = self.resource.kind.clone();
        let locked = move |object| locked(object, &kind);
        watch_one(&self.api, &self.key, move |event| lock_event(event, &locked)).await.map(Some)
    }

    async fn get(&self) -> Result<Option<LockSnapshot<DynamicObject>>, ApiError> {
        self.api.get_opt(&self.key).await?.map(|object| locked(object, &self.resource.kind)).transpose()
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<DynamicObject>, ApiError> {
        let types = TypeMeta { api_version: self.resource.group_version.to_string(), kind: self.resource.kind.clone() };
        let metadata = ObjectMeta::new(self.key.namespace().unwrap_or_default(), self.key.name());
        let object = annotated(DynamicObject { types, metadata, ..DynamicObject::default() }, record)?;
        locked(self.api.create(&object, &WriteOptions::default()).await?, &self.resource.kind)
    }

    async fn update(
        &self,
        base: &DynamicObject,
        record: &LeaderElectionRecord,
    ) -> Result<LockSnapshot<DynamicObject>, ApiError> {
        comparable(base, &self.resource.kind)?;
        let object = annotated(base.clone(), record)?;
        locked(self.api.update(&object, &WriteOptions::default()).await?, &self.resource.kind)
    }
}

fn locked(object: DynamicObject, kind: &str) -> Result<LockSnapshot<DynamicObject>, ApiError> {
    stored(&object, kind)?;
    let text = object.metadata.annotations.get(LEADER_ANNOTATION);
    let raw = Some(text.map_or("", String::as_str).into());
    let record = match text {
        None => LeaderElectionRecord::default(),
        Some(text) => match serde_json::from_str::<Annotation>(text) {
            Ok(annotation) => annotation.into(),
            Err(error) => {
                let key = object.key();
                return Err(ApiError::decode(format!(
                    "{kind} {key}: annotation {LEADER_ANNOTATION} is not a valid record, so no contender can lead until it is repaired: {error}"
                )));
            }
        },
    };
    let version = Version { uid: object.uid().into(), resource_version: object.resource_version().into() };
    Ok(LockSnapshot { state: LockState { version, record, raw }, object })
}

fn annotated(mut object: DynamicObject, record: &LeaderElectionRecord) -> Result<DynamicObject, ApiError> {
    let text = serde_json::to_string(&Annotation::from(record));
    let text = text.map_err(ApiError::invalid_request)?;
    object.metadata.annotations.insert(LEADER_ANNOTATION.into(), text);
    Ok(object)
}

/// The election record as JSON, with the fields in client-go's order. When reading, it uses default values for
/// missing fields and ignores unknown fields.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Annotation {
    #[serde(deserialize_with = "or_empty")]
    holder_identity: String,
    #[serde(deserialize_with = "or_empty")]
    lease_duration_seconds: i32,
    acquire_time: Option<Time>,
    renew_time: Option<Time>,
    #[serde(deserialize_with = "or_empty")]
    leader_transitions: i32,
}

impl From<Annotation> for LeaderElectionRecord {
    fn from(annotation: Annotation) -> Self {
        let time = |time: Option<Time>| time.map(|Time(moment)| TimePrecision::Seconds.cut(moment));
        Self {
            holder_identity: annotation.holder_identity,
            lease_duration_seconds: annotation.lease_duration_seconds,
            acquire_time: time(annotation.acquire_time),
            renew_time: time(annotation.renew_time),
            leader_transitions: annotation.leader_transitions,
            // Annotation locks do not support coordinated elections.
            ..Self::default()
        }
    }
}

impl From<&LeaderElectionRecord> for Annotation {
    fn from(record: &LeaderElectionRecord) -> Self {
        Self {
            holder_identity: record.holder_identity.clone(),
            lease_duration_seconds: record.lease_duration_seconds,
            acquire_time: record.acquire_time.map(|time| Time(time.0)),
            renew_time: record.renew_time.map(|time| Time(time.0)),
            leader_transitions: record.leader_transitions,
        }
    }
}
