//! The operator under test, its world outside the cluster, and the settings for its runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_meta::Impersonate;
use pintle_operator::Manager;
use serde::Serialize;
use serde_json::Value;

/// State that an operator changes outside the cluster, such as a DNS zone. Each run gets a new world from [`Default`]. Clones must be
/// handles to the same world, as with an `Arc<Mutex<T>>`.
pub trait World: Clone + Default + Send + Sync + 'static {
    /// Returns the part of the world's state that must be the same in every run.
    fn state(&self) -> Value;
}

/// The world of an operator that changes nothing outside the cluster.
impl World for () {
    fn state(&self) -> Value {
        Value::Null
    }
}

impl<T: Default + Serialize + Send + 'static> World for Arc<Mutex<T>> {
    fn state(&self) -> Value {
        let world = self.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_value(&*world).unwrap_or_else(|error| format!("it cannot be serialized: {error}").into())
    }
}

pub(crate) type Operator<W> = Arc<dyn Fn(Cluster, W) -> Manager + Send + Sync>;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) quiet: Duration,
    pub(crate) limit: Duration,
    pub(crate) stall_limit: Duration,
    pub(crate) may_fail: BTreeSet<String>,
    /// The user as which the operator sends requests, and the manifests of its roles. With `None`, the operator has an administrator's
    /// permissions.
    pub(crate) permissions: Option<(Impersonate, String)>,
}
