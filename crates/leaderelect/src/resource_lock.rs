//! Creates a lock in the kind of object that is named like in client-go, such as `leases`.

use std::fmt;
use std::str::FromStr;

use pintle_meta::{ApiError, ApiResource, DynamicObject, ListWatch, ObjectApi, ObjectKey, Scope};
use thiserror::Error;

use crate::annotation::AnnotationLock;
use crate::config::Observers;
use crate::lease::Lease;
use crate::lock::{LeaseLock, Lock, LockEvent, LockEvents, LockSnapshot};
use crate::multi::MultiLock;
use crate::record::{LeaderElectionRecord, LockState, TimePrecision};
use crate::token::Token;
use crate::watching::map;

/// The kind of a lock. Its text form is the value of client-go's `resourceLock` setting and flag.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::LockKind;
///
/// assert_eq!("leases".parse(), Ok(LockKind::Leases));
/// let error = "lease".parse::<LockKind>().unwrap_err();
/// assert!(error.to_string().contains("configmapsleases"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// `leases`, which is the recommended kind.
    #[default]
    Leases,
    /// `configmaps`: an annotation of a ConfigMap, supported by client-go until 1.23.
    ConfigMaps,
    /// `endpoints`: an annotation of an Endpoints object, supported by client-go until 1.23.
    Endpoints,
    /// `configmapsleases`, for the migration from ConfigMaps to Leases, supported by client-go until 1.27.
    ConfigMapsLeases,
    /// `endpointsleases`, for the migration from Endpoints to Leases, supported by client-go until 1.27.
    EndpointsLeases,
}

impl LockKind {
    const ALL: [Self; 5] =
        [Self::Leases, Self::ConfigMaps, Self::Endpoints, Self::ConfigMapsLeases, Self::EndpointsLeases];

    fn name(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::ConfigMaps => "configmaps",
            Self::Endpoints => "endpoints",
            Self::ConfigMapsLeases => "configmapsleases",
            Self::EndpointsLeases => "endpointsleases",
        }
    }

    /// Returns the resource type whose annotation contains the record. Returns `None` if this kind of lock uses no
    /// annotation.
    pub fn annotated(self) -> Option<ApiResource> {
        let resource = |kind, plural| Some(ApiResource::new("v1", kind, plural, Scope::Namespaced));
        match self {
            Self::Leases => None,
            Self::ConfigMaps | Self::ConfigMapsLeases => resource("ConfigMap", "configmaps"),
            Self::Endpoints | Self::EndpointsLeases => resource("Endpoints", "endpoints"),
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LockKind {
    type Err = UnknownLockKind;

    fn from_str(name: &str) -> Result<Self, UnknownLockKind> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownLockKind { name: name.into() })
    }
}

/// The error for a string that is not the name of a [`LockKind`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{name:?} is not a lock kind; use leases, or one of the legacy kinds configmaps, endpoints, configmapsleases, endpointsleases"
)]
pub struct UnknownLockKind {
    /// The invalid text.
    pub name: String,
}

/// A lock whose kind is selected at run time, like the result of client-go's `resourcelock.New`.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Lease, Lock, LockKind, ResourceLock};
/// use pintle_meta::{ApiResource, DynamicObject, ListWatch, ObjectApi};
///
/// fn lock<M, L>(kind: LockKind, leases: L, api: impl FnOnce(ApiResource) -> M) -> impl Lock
/// where
///     M: ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>,
///     L: ObjectApi<Lease> + ListWatch<Object = Lease>,
/// {
///     ResourceLock::new(kind, "kube-system", "website-controller", api, leases)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ResourceLock<M, L> {
    /// A lock in a Lease.
    Lease(LeaseLock<L>),
    /// A lock in an annotation.
    Annotation(AnnotationLock<M>),
    /// A lock in both an annotation and a Lease.
    Both(MultiLock<AnnotationLock<M>, LeaseLock<L>>),
}

impl<M, L> ResourceLock<M, L>
where
    M: ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>,
    L: ObjectApi<Lease> + ListWatch<Object = Lease>,
{
    /// Creates a lock of the kind `kind` with the given `name` and `namespace`. If `kind` uses an annotation, this
    /// function calls `annotated` to get the API for the annotated resource.
    pub fn new(
        kind: LockKind,
        namespace: &str,
        name: &str,
        annotated: impl FnOnce(ApiResource) -> M,
        leases: L,
    ) -> Self {
        let annotation = kind.annotated().map(|resource| {
            let api = annotated(resource);
            match kind {
                LockKind::Endpoints | LockKind::EndpointsLeases => AnnotationLock::endpoints(api, namespace, name),
                _ => AnnotationLock::config_map(api, namespace, name),
            }
        });
        match (kind, annotation) {
            (LockKind::ConfigMaps | LockKind::Endpoints, Some(annotation)) => Self::Annotation(annotation),
            (_, Some(annotation)) => Self::Both(MultiLock::new(annotation, LeaseLock::new(leases, namespace, name))),
            (_, None) => Self::Lease(LeaseLock::new(leases, namespace, name)),
        }
    }

    /// Sets the default observers for electors that use this lock, like the `EventRecorder` in client-go's
    /// `ResourceLockConfig`.
    pub fn observed_by(mut self, observers: Observers) -> Self {
        match &mut self {
            Self::Lease(lock) => lock.observers = observers,
            Self::Annotation(lock) => lock.observers = observers,
            Self::Both(lock) => lock.primary.observers = observers,
        }
        self
    }
}

/// The object that contains the record of a [`ResourceLock`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockObject {
    /// The Lease.
    Lease(Lease),
    /// The annotated object.
    Annotated(DynamicObject),
    /// The annotated object, and the Lease if there is one.
    Both(Box<(DynamicObject, Option<Lease>)>),
}

macro_rules! delegate {
    ($self:ident.$method:ident($($argument:ident)?)) => {
        match $self {
            Self::Lease(lock) => lock.$method($($argument)?),
            Self::Annotation(lock) => lock.$method($($argument)?),
            Self::Both(lock) => lock.$method($($argument)?),
        }
    };
}

impl<M, L> Lock for ResourceLock<M, L>
where
    M: ObjectApi<DynamicObject> + ListWatch<Object = DynamicObject>,
    L: ObjectApi<Lease> + ListWatch<Object = Lease>,
{
    type Object = LockObject;

    fn resource(&self) -> ApiResource {
        delegate!(self.resource())
    }

    fn key(&self) -> &ObjectKey {
        delegate!(self.key())
    }

    fn time_precision(&self) -> TimePrecision {
        delegate!(self.time_precision())
    }

    fn can_be_coordinated(&self) -> bool {
        delegate!(self.can_be_coordinated())
    }

    fn observers(&self) -> Observers {
        delegate!(self.observers())
    }

    fn token(&self, began: &LockState) -> Option<Token> {
        delegate!(self.token(began))
    }

    async fn watch(&self) -> Result<Option<LockEvents<LockObject>>, ApiError> {
        Ok(match self {
            Self::Lease(lock) => lock.watch().await?.map(|events| wrapped(events, LockObject::Lease)),
            Self::Annotation(lock) => lock.watch().await?.map(|events| wrapped(events, LockObject::Annotated)),
            Self::Both(lock) => lock.watch().await?.map(|events| wrapped(events, both)),
        })
    }

    async fn get(&self) -> Result<Option<LockSnapshot<LockObject>>, ApiError> {
        Ok(match self {
            Self::Lease(lock) => lock.get().await?.map(|locked| wrap(locked, LockObject::Lease)),
            Self::Annotation(lock) => lock.get().await?.map(|locked| wrap(locked, LockObject::Annotated)),
            Self::Both(lock) => lock.get().await?.map(|locked| wrap(locked, both)),
        })
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<LockSnapshot<LockObject>, ApiError> {
        Ok(match self {
            Self::Lease(lock) => wrap(lock.create(record).await?, LockObject::Lease),
            Self::Annotation(lock) => wrap(lock.create(record).await?, LockObject::Annotated),
            Self::Both(lock) => wrap(lock.create(record).await?, both),
        })
    }

    async fn update(
        &self,
        base: &LockObject,
        record: &LeaderElectionRecord,
    ) -> Result<LockSnapshot<LockObject>, ApiError> {
        Ok(match (self, base) {
            (Self::Lease(lock), LockObject::Lease(base)) => wrap(lock.update(base, record).await?, LockObject::Lease),
            (Self::Annotation(lock), LockObject::Annotated(base)) => {
                wrap(lock.update(base, record).await?, LockObject::Annotated)
            }
            (Self::Both(lock), LockObject::Both(base)) => wrap(lock.update(base, record).await?, both),
            _ => return Err(ApiError::invalid_request("the object belongs to a lock of another kind")),
        })
    }
}

fn wrap<O>(locked: LockSnapshot<O>, object: fn(O) -> LockObject) -> LockSnapshot<LockObject> {
    LockSnapshot { state: locked.state, object: object(locked.object) }
}

fn wrapped<O: 'static>(events: LockEvents<O>, object: fn(O) -> LockObject) -> LockEvents<LockObject> {
    map(events, move |event| {
        Some(match event {
            LockEvent::Changed(locked) => LockEvent::Changed(wrap(locked, object)),
            LockEvent::Deleted { uid } => LockEvent::Deleted { uid },
            LockEvent::MaybeChanged => LockEvent::MaybeChanged,
        })
    })
}

fn both(objects: (DynamicObject, Option<Lease>)) -> LockObject {
    LockObject::Both(Box::new(objects))
}
