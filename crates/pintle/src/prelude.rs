//! What the author of a controller types: `use pintle::prelude::*;`.

pub use pintle_controller::predicate::GenerationChanged;
pub use pintle_controller::{
    Action, Controller, ControllerConfig, Kind, Manager, ManagerConfig, ManagerStatus, ReconcileError,
    ReconcileRequest, Reconciler,
};
pub use pintle_events::{EventRecorder, EventType};
pub use pintle_informer::{InformerConfig, Lister, ReflectorConfig, ResourceEvent, SharedInformer};
pub use pintle_leaderelect::{LeaderCallbacks, LeaderElectionConfig, Leadership, LossReason, TermEnd};
pub use pintle_meta::{
    ApiError, ApiResource, ClientConfig, DeleteOptions, DynamicObject, FieldSelector, LabelSelector, ListOptions,
    Object, ObjectKey, ObjectMeta, OwnerReference, Patch, PostOptions, PropagationPolicy, Resource, Scope, WatchEvent,
    WatchOptions, resource,
};
pub use pintle_metrics::Provider;
pub use pintle_restreq::Api;
pub use tokio_util::sync::CancellationToken;

pub use crate::{Cluster, ClusterConfig};
