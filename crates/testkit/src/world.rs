//! The operator under test, the state that it changes outside of the cluster, and the settings of its runs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_operator::Manager;
use serde::Serialize;
use serde_json::Value;

use crate::role::LeastRole;
use crate::state::IgnoredField;

/// State outside of the cluster that an operator changes, such as a DNS zone. Each run creates a new world with
/// [`Default`]. All clones of a world must share the same state, as with an `Arc<Mutex<T>>`.
pub trait World: Clone + Default + Send + Sync + 'static {
    /// Returns the state that must be the same at the end of every run.
    fn state(&self) -> Value;
}

/// The world of an operator that changes nothing outside of the cluster.
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
    /// The fields that differ in each run.
    pub(crate) ignored: Vec<IgnoredField>,
    /// The role to which the operator is restricted. `None` gives the operator the permissions of an administrator.
    pub(crate) role: Option<LeastRole>,
    /// The verbs and resources that the role may lack.
    pub(crate) may_lack: BTreeSet<(String, String)>,
}
