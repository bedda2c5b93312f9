//! What the author of a controller types: `use pintle::prelude::*;`.

pub use pintle_controller::predicate::GenerationChanged;
pub use pintle_controller::{
    Action, Controller, ControllerConfig, Kind, Manager, ManagerStatus, ReconcileError, ReconcileRequest, Reconciler,
};
pub use pintle_events::{EventRecorder, EventType};
pub use pintle_informer::{Lister, ResourceEvent, SharedInformer};
pub use pintle_leaderelect::{LeaderElectionConfig, Leadership};
pub use pintle_meta::{
    ApiError, ClientConfig, DeleteOptions, DynamicObject, ListOptions, Object, ObjectKey, ObjectMeta, OwnerReference,
    Patch, PostOptions, Resource, resource,
};
pub use pintle_metrics::Provider;
pub use pintle_restreq::Api;
pub use tokio_util::sync::CancellationToken;

pub use crate::{Cluster, ClusterConfig};
