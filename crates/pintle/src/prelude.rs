//! The types that most controllers need: `use pintle::prelude::*;`.

pub use pintle_controller::predicate::{DesiredStateChanged, GenerationChanged};
pub use pintle_controller::{
    Action, Cleanup, ControllerConfig, Finalizer, Kind, ManagerConfig, ManagerStatus, ReconcileError, ReconcileRequest,
    Trigger,
};
#[cfg(feature = "crd")]
pub use pintle_crd::{CustomResource, CustomResourceDefinition, Resource};
pub use pintle_events::{EventRecorder, EventType};
pub use pintle_informer::{InformerConfig, Lister, ReflectorConfig, ResourceEvent, SharedInformer};
pub use pintle_leaderelect::{EndReason, LeaderCallbacks, LeaderElectionConfig, Leadership, TermEnd};
pub use pintle_meta::{
    ApiError, ApiResource, ClientConfig, Condition, ConditionStatus, Conditions, DeleteOptions, DynamicObject,
    FieldSelector, LabelSelector, ListOptions, Metadata, Object, ObjectApi, ObjectKey, ObjectMeta, OwnerReference,
    Patch, PropagationPolicy, Resource, Scope, Time, WatchEvent, WatchOptions, WriteOptions, resource,
};
pub use pintle_metrics::Provider;
#[cfg(feature = "operator")]
pub use pintle_operator::{Context, Controller, Manager, Reconciler};
pub use pintle_restreq::Api;
pub use tokio_util::sync::CancellationToken;

pub use crate::{Cluster, ClusterConfig};
