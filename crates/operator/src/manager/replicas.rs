//! Controllers in other clusters, sharded controllers, and timers.

use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_controller::{Action, Controller as PlainController, Manager as Engine, ReconcileRequest, Singleton};
use pintle_crd::CustomResource;
use pintle_leaderelect::Lease;
use pintle_meta::Resource;
use pintle_restreq::Api;
use pintle_sharding::{Shards, ShardsConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Manager, with_version};
use crate::Result;
use crate::controller::{Controller, FinishedController, Surroundings};

pub(super) struct Sharded {
    pub(super) controller: String,
    pub(super) config: ShardsConfig,
    pub(super) bind: BindShards,
}

/// Adds a sharded controller to the underlying manager.
type BindShards = Box<dyn FnOnce(Engine, &Surroundings, Shards<Api<Lease>>) -> Engine + Send>;

impl Manager {
    /// Adds a controller for the objects in another cluster. The [`Context`](crate::Context) of the controller reads
    /// from and writes to this cluster. Leader election takes place in the manager's own [cluster](Self::cluster). If
    /// several controllers of the manager reconcile the same kind, give each controller a unique name. The manager does
    /// not shut down `cluster`, so the caller must do so.
    ///
    /// If a cluster becomes unreachable or is unreachable at the start, only the controllers of this cluster wait. The
    /// readiness check names the waiting controllers and the unreachable cluster.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pintle_cluster::Cluster;
    /// use pintle_meta::ObjectMeta;
    /// use pintle_operator::{Action, Context, Controller, Manager, Result};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct ConfigMap {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
    ///
    /// async fn audit(map: Arc<ConfigMap>, cx: Context<ConfigMap>) -> Result<Action> {
    ///     println!("{:?} has {}", cx.cluster(), map.metadata.name);
    ///     Ok(Action::await_change())
    /// }
    ///
    /// fn with_edges(manager: Manager, edges: &[(&str, Cluster)]) -> Manager {
    ///     edges.iter().fold(manager, |manager, (name, cluster)| {
    ///         manager.controller_in(cluster, Controller::new().name(format!("audit-{name}")).reconcile(audit))
    ///     })
    /// }
    /// ```
    pub fn controller_in(mut self, cluster: &Cluster, controller: impl FinishedController) -> Self {
        let controller = controller.finished();
        self.fault = self.fault.or_else(|| controller.fault());
        let cluster = cluster.clone();
        let mut known = std::iter::once(&self.cluster).chain(&self.other_clusters);
        if !known.any(|known| known.is_same(&cluster)) {
            self.other_clusters.push(cluster.clone());
        }
        self.controllers.push(Box::new(move |engine, surroundings| {
            let surroundings = Surroundings { cluster, ..surroundings.clone() };
            engine.controller(controller.bind(&surroundings, None))
        }));
        self
    }

    /// Installs the CustomResourceDefinition of `K` in another cluster, like [`install`](Self::install). If the cluster
    /// is unreachable or denies permission, the manager starts anyway and retries the installation. Until the
    /// definition is installed, the readiness check `cluster URL` fails and names the reason.
    pub fn install_in<K: CustomResource>(mut self, cluster: &Cluster) -> Self {
        self.other_definitions.push((cluster.clone(), with_version(K::crd())));
        self
    }

    /// Adds a controller whose objects are divided into `shards` shards. The shards are distributed among the replicas.
    /// Each shard has one leader at a time. If a replica stops or dies, the other replicas take over its shards. Use
    /// several shards per replica, so that all replicas get a similar number of objects.
    ///
    /// `controller` returns the controller for one shard, and must return an equivalent controller on each call. The
    /// hash of a key determines its shard. Keys from children and triggers use the same hash, so one replica does all
    /// work for an object. Each replica caches all objects, so it can take over a shard immediately. In logs and
    /// metrics, the controller of a shard has a name such as `website-shard-0`.
    ///
    /// A [`Trigger`](pintle_controller::Trigger) adds a key only on the replica on which it is called. If another
    /// replica leads the shard of the key, the key is stored. A stored key is reconciled only if the replica takes over
    /// the shard.
    ///
    /// The shards have separate Leases in the namespace of the cluster configuration, so
    /// [`leader_election`](Self::leader_election) is not required. All replicas must use the same number of shards. If
    /// a rollout changes the number of shards, old and new replicas do not work at the same time. The debug page shows
    /// the shards. The probe check `shards/NAME` covers the elections of all shards. The service account needs the
    /// verbs `get`, `list`, `watch`, `create`, `update` and `delete` for `leases`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pintle_meta::ObjectMeta;
    /// use pintle_operator::{Action, Context, Controller, Manager, Result};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct ConfigMap {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
    ///
    /// async fn audit(map: Arc<ConfigMap>, _cx: Context<ConfigMap>) -> Result<Action> {
    ///     println!("this replica audits {}", map.metadata.name);
    ///     Ok(Action::await_change())
    /// }
    ///
    /// fn with_audit(manager: Manager) -> Manager {
    ///     manager.sharded(16, || Controller::new().name("audit").reconcile(audit))
    /// }
    /// ```
    pub fn sharded<K>(self, shards: u32, controller: impl Fn() -> Controller<K> + Send + 'static) -> Self
    where
        K: Resource + Serialize + DeserializeOwned,
    {
        self.sharded_with(ShardsConfig { shards, ..ShardsConfig::default() }, controller)
    }

    /// Adds a controller like [`sharded`](Self::sharded), with custom settings for the elections of the shards.
    pub fn sharded_with<K>(
        mut self,
        config: ShardsConfig,
        controller: impl Fn() -> Controller<K> + Send + 'static,
    ) -> Self
    where
        K: Resource + Serialize + DeserializeOwned,
    {
        let first = controller();
        self.fault = self.fault.or_else(|| first.fault());
        let name = first.name().to_owned();
        let bind: BindShards = Box::new(move |engine, surroundings, shards| {
            engine.sharded(shards, |shard| controller().bind(surroundings, Some(shard)))
        });
        self.sharded.push(Sharded { controller: name, config, bind });
        self
    }

    /// Calls `run` when this replica becomes the leader, and then periodically. Without leader election, every replica
    /// calls `run`. Calls of `run` never overlap. If `run` returns an error or panics, the manager retries it with
    /// backoff. A running call is dropped when the leadership term ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use pintle_operator::Manager;
    ///
    /// fn with_report(manager: Manager) -> Manager {
    ///     manager.every("report", Duration::from_secs(3_600), async || {
    ///         println!("one more hour as the leader");
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn every<Fut>(
        self,
        name: impl Into<String>,
        period: Duration,
        run: impl Fn() -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let timer = PlainController::singleton(name).every(period);
        self.plain_controller(timer.reconciler(move |_: ReconcileRequest<Singleton>| {
            let run = run();
            async move {
                run.await?;
                Result::Ok(Action::await_change())
            }
        }))
    }
}
