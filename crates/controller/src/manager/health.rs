//! The status of a manager, for probes and services.

use std::fmt;
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::ElectionStatus;
use pintle_meta::__private::Mutex;
use pintle_sharding::ShardsStatus;

use super::any::{AnyController, ControllerStatus};

/// A leader is reported as hanging if its lease has been expired for this time. Kubernetes' core components use the
/// same duration.
const TOLERANCE: Duration = Duration::from_secs(20);

/// The status of a manager's controllers, caches and election. Clones share the status. The status can be read at any
/// time, even before the manager starts and after it ends.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, Manager, ReconcileRequest};
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
///
/// let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
/// let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
/// let pods = SharedInformer::new(pods, InformerConfig { name: "pods".into(), ..InformerConfig::default() });
/// let controller = Controller::of(&pods)
///     .reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
///
/// let status = Manager::new().controller(controller).status();
/// assert!(status.health().is_ok() && status.is_leader());
/// let problems = status.ready().to_string();
/// assert_eq!(problems, "[-]pod failed: pods: the first list is not complete\ncheck failed\n");
/// ```
#[derive(Clone, Default)]
pub struct ManagerStatus {
    parts: Arc<Mutex<Parts>>,
}

#[derive(Default)]
struct Parts {
    controllers: Vec<Arc<dyn AnyController>>,
    /// The controllers of shards. Each sharded controller runs while this replica leads its shard, independently of
    /// the manager's election.
    sharded: Vec<Arc<dyn AnyController>>,
    election: Option<ElectionStatus>,
    shards: Vec<ShardsStatus>,
}

impl ManagerStatus {
    pub(super) fn add_controller(&self, controller: Arc<dyn AnyController>) {
        self.parts.lock().controllers.push(controller);
    }

    pub(super) fn add_sharded(&self, controllers: &[Arc<dyn AnyController>], shards: ShardsStatus) {
        let mut parts = self.parts.lock();
        parts.sharded.extend_from_slice(controllers);
        parts.shards.push(shards);
    }

    pub(super) fn set_election(&self, election: ElectionStatus) {
        let before = self.parts.lock().election.replace(election);
        drop(before);
    }

    /// Returns the status of each controller, in the order in which the controllers were added. The controllers of
    /// shards are at the end of the list.
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        self.all().into_iter().map(ControllerStatus).collect()
    }

    /// Returns the status of the controller named `name`, for example to explain a key or to count the queued keys.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_controller::{Action, Controller, Manager, ReconcileRequest, Trigger};
    ///
    /// let sites = Controller::named("sites").source(Trigger::new());
    /// let sites = sites.reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) });
    /// let status = Manager::new().controller(sites).status();
    /// let sites = status.controller("sites").unwrap();
    /// println!("{}", sites.explain("team-a/blog").unwrap());
    /// assert_eq!(sites.queue_counts(), None, "the controller does not run");
    /// ```
    pub fn controller(&self, name: &str) -> Option<ControllerStatus> {
        self.all().into_iter().find(|controller| controller.name() == name).map(ControllerStatus)
    }

    pub(super) fn team(&self) -> Vec<Arc<dyn AnyController>> {
        self.parts.lock().controllers.clone()
    }

    pub(super) fn sharded(&self) -> Vec<Arc<dyn AnyController>> {
        self.parts.lock().sharded.clone()
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn AnyController>> {
        let parts = self.parts.lock();
        parts.controllers.iter().chain(&parts.sharded).cloned().collect()
    }

    /// Checks whether the process is alive, for a liveness probe. The check fails if this replica leads the manager's
    /// election or a shard and has not renewed the lease in time. The check also fails if this replica has lost the
    /// manager's election and a reconciliation of the lost term keeps blocking its thread.
    pub fn health(&self) -> Health {
        Health { checks: self.elections(|election| Some(election.check(TOLERANCE).err()?.to_string())) }
    }

    /// Checks whether the replica can work as a leader, for a readiness probe. The replica is not ready if:
    ///
    /// - a cache has not synced, or its informer has stopped,
    /// - the lists and watches of a cache have been failing for 2 minutes, so the cache may be outdated,
    /// - an election's lock could not be read or written for longer than the lease duration, or
    /// - a reconciliation has been blocking its thread for longer than
    ///   [`blocked_after`](crate::ControllerConfig::blocked_after).
    pub fn ready(&self) -> Health {
        let controllers = self.all();
        let checks = controllers.iter().map(|controller| {
            let unsynced = controller.unsynced();
            let mut problems: Vec<_> =
                unsynced.into_iter().map(|(source, problem)| format!("{source}: {problem}")).collect();
            problems.extend(controller.blocked());
            let problem = (!problems.is_empty()).then(|| problems.join("; "));
            HealthCheck { name: controller.name().into(), problem }
        });
        let elections = self.elections(|election| Some(election.check_lock().err()?.to_string()));
        Health { checks: checks.chain(elections).collect() }
    }

    /// Checks the election of the manager and the elections of each shard group.
    fn elections(&self, problem: impl Fn(&ElectionStatus) -> Option<String>) -> Vec<HealthCheck> {
        let (election, shards) = {
            let parts = self.parts.lock();
            (parts.election.clone(), parts.shards.clone())
        };
        let election = election.iter().map(|one| HealthCheck { name: "leaderElection".into(), problem: problem(one) });
        let shards = shards.iter().map(|group| {
            let elections = once(group.member()).chain(group.shards().iter().map(|(_, election)| election));
            let problems: Vec<_> = elections.filter_map(&problem).collect();
            let problem = match &problems[..] {
                [] => None,
                [only] => Some(only.clone()),
                [first, others @ ..] => Some(format!("{first}; and {} more leases", others.len())),
            };
            HealthCheck { name: format!("shards/{}", group.name()), problem }
        });
        election.chain(shards).collect()
    }

    /// Returns the status of the election, or `None` without leader election.
    pub fn election(&self) -> Option<ElectionStatus> {
        self.parts.lock().election.clone()
    }

    /// Returns `true` if this replica leads, or if there is no leader election.
    pub fn is_leader(&self) -> bool {
        self.election().is_none_or(|election| election.is_leader())
    }
}

// `controllers` and `election` release the lock before the values are formatted, because formatting a metrics
// provider, for example, runs user code.
pintle_meta::debug_struct!(ManagerStatus |self| { controllers = self.controllers(), election = self.election() });

/// The results of several health checks. The `Display` output has the same format as the response of Kubernetes
/// components to `/healthz?verbose`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The results of the individual checks.
    pub checks: Vec<HealthCheck>,
}

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The name of the component.
    pub name: String,
    /// The description of the problem, or `None` if the check passed.
    pub problem: Option<String>,
}

impl Health {
    /// Returns `true` if all checks passed.
    pub fn is_ok(&self) -> bool {
        self.checks.iter().all(|check| check.problem.is_none())
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for HealthCheck { name, problem } in &self.checks {
            match problem {
                None => writeln!(f, "[+]{name} ok")?,
                Some(problem) => writeln!(f, "[-]{name} failed: {problem}")?,
            }
        }
        writeln!(f, "check {}", if self.is_ok() { "passed" } else { "failed" })
    }
}
