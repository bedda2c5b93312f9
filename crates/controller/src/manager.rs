//! The manager, which starts and stops a replica's informers, services, controllers and leader election in the right
//! order.

mod any;
mod election;
mod ending;
mod health;
mod service;
mod sharded;
mod team;

use std::collections::HashSet;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use pintle_informer::InformerFactory;
use pintle_leaderelect::{LeaderElector, Lease, Lock};
use pintle_meta::{ListWatch, ObjectApi};
use pintle_sharding::{Shard, Shards};
use tokio_util::sync::CancellationToken;

pub use any::ControllerStatus;
pub use election::leader_events;
pub use health::{Health, HealthCheck, ManagerStatus};

use self::any::AnyController;
use self::election::{Election, run_election};
use self::ending::Ending;
use self::service::{Service, Services};
use self::sharded::ShardGroup;
use self::team::Team;
use crate::blocking::{Exit, Watchdog};
use crate::controller::Controller;
use crate::error::ManagerError;
use crate::key::RequestKey;
use crate::stop::Stop;

/// Runs controllers together with their caches, services and leader election.
///
/// The manager starts its informers and services, then fills the controllers' caches, and then starts the election.
/// When a standby becomes the leader, its caches are already filled. The controllers start when this replica becomes
/// the leader. The manager stops its components in reverse order. The election keeps renewing the lease while the
/// controllers finish their work. When the controllers have finished, the manager releases the lease. The services and
/// informers stop last. [One timeout](ManagerConfig::graceful_shutdown_timeout) limits the duration of the entire stop.
///
/// - **Lost leadership.** A replica that loses its leadership drops the running reconciliations and tries to acquire
///   the lease again. A reconciliation that blocks its thread cannot be dropped. Until a blocked reconciliation has
///   ended, the replica is not ready and does not try to acquire the lease. After a while, the liveness check of a
///   replica with a blocked reconciliation fails. If a reconciliation blocks for longer than the [shutdown
///   timeout](ManagerConfig::graceful_shutdown_timeout), the manager fails, even if another replica leads.
/// - **Blocked threads during a stop.** The manager renews the lease until all reconciliations have ended, including
///   those that block their threads. If a blocked reconciliation does not end within the timeout, the manager does not
///   release the lease. If the lease is not released, other replicas can acquire it only after it expires.
/// - **Failures.** If a controller or a service fails or panics, the manager stops all components in the usual order.
/// - **Standby.** A standby keeps its caches up to date. For each controller, the standby remembers the keys of the
///   newest 100,000 deleted objects. When the standby becomes the leader, it reconciles the remembered keys and the
///   keys of all existing objects. No deletion is missed, even if it happens while no replica is the leader.
/// - **Blocked runtimes.** On a multi-threaded runtime, each election has its own thread, so reconciliations that block
///   the runtime's threads do not prevent lease renewals. If all threads of the runtime are blocked, a task cannot
///   request a stop. To stop the manager of a blocked runtime, cancel the token of [`run`](Self::run) from a thread
///   outside of the runtime, such as a signal handling thread. The manager can [exit the
///   process](ManagerConfig::exit_if_blocked) even if the runtime is blocked.
///
/// # Examples
///
/// ```
/// use pintle_controller::{Action, Controller, Manager, ReconcileRequest};
/// use pintle_informer::{InformerConfig, InformerFactory};
/// use pintle_meta::ObjectMeta;
/// use pintle_testing::Collection;
/// use serde::{Deserialize, Serialize};
/// use tokio_util::sync::CancellationToken;
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog") }]);
///     let factory = InformerFactory::new();
///     let sites = factory.informer(sites, InformerConfig::default());
///
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let controller = Controller::of(&sites).reconciler(move |_: ReconcileRequest| {
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     });
///     Manager::new().informers(factory).controller(controller).run(&stop).await?;
///     Ok(())
/// }
/// ```
#[must_use = "a manager does nothing until it runs"]
#[derive(Default)]
pub struct Manager {
    config: ManagerConfig,
    status: ManagerStatus,
    services: Vec<Service>,
    informers: Vec<InformerFactory>,
    election: Option<Box<dyn Election>>,
    shard_groups: Vec<ShardGroup>,
}

/// Configures a [`Manager`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use pintle_controller::{Manager, ManagerConfig};
/// use tokio_util::sync::CancellationToken;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let config = ManagerConfig { graceful_shutdown_timeout: Duration::from_secs(50), ..ManagerConfig::default() };
///     let stop = CancellationToken::new();
///     stop.cancel(); // For example on SIGTERM.
///     Manager::new().config(config).run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// The timeout for stopping all components of the manager. The default is 25 s, which is shorter than Kubernetes'
    /// default grace period of 30 s.
    ///
    /// The controllers may use the first 80 % of the timeout to finish running reconciliations. The manager ignores the
    /// controllers' own [timeouts](crate::ControllerConfig::graceful_shutdown_timeout). The lease must be released
    /// within 90 % of the timeout. The last 10 % are reserved for services and informers. The manager drops components
    /// that have not stopped in time, and returns an error that names them. With a timeout of zero, the manager drops
    /// all components immediately.
    pub graceful_shutdown_timeout: Duration,
    /// Whether to exit the process with code 1 if reconciliations still block their threads after the shutdown timeout.
    /// The default is `true`. After the timeout, the manager waits for another tenth of the timeout (at most 2 s),
    /// prints a line to stderr, and exits. Exiting is the only way to end reconciliations that block their threads.
    /// Returning from `main` does not end blocked reconciliations, because dropping a runtime waits for its threads.
    pub exit_if_blocked: bool,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self { graceful_shutdown_timeout: Duration::from_secs(25), exit_if_blocked: true }
    }
}

/// The controllers must stop before `DRAINED` percent of the shutdown timeout, and the lease must be released before
/// `RELEASED` percent.
const DRAINED: u32 = 80;
const RELEASED: u32 = 90;

impl Manager {
    /// Creates a manager without any components.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the configuration.
    pub fn config(mut self, config: ManagerConfig) -> Self {
        self.config = config;
        self
    }

    /// Adds a controller. With leader election, only the leader runs the controller. Without leader election, every
    /// replica runs the controller. A manager's controllers can have different key types.
    pub fn controller<K: RequestKey>(self, controller: Controller<K>) -> Self {
        self.status.add_controller(Arc::new(controller));
        self
    }

    /// Adds the informers of `factory`, which are started first and stopped last. An informer that does not belong to
    /// the factory starts with the first controller that needs it, and stops when its last handle is dropped.
    pub fn informers(mut self, factory: InformerFactory) -> Self {
        self.informers.push(factory);
        self
    }

    /// Runs a service on every replica while the manager runs, for example a web server for probes that uses the
    /// manager's [status](Self::status). The service should end when its token is cancelled. If the service returns an
    /// error or panics, the manager stops. If the service returns `Ok`, the manager continues.
    pub fn service<F, Fut>(mut self, name: impl Into<String>, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.services.push(Service::new(name.into(), run));
        self
    }

    /// Runs the controllers only on the leader. To record Events about the lock, set
    /// [`leader_events`](crate::leader_events) in the elector's configuration.
    ///
    /// An elector of a [`LeaseGroup`](pintle_leaderelect::LeaseGroup) renews its lease on the runtime on which the
    /// group was started. If the group was started on the manager's runtime, reconciliations that block all threads of
    /// this runtime prevent the renewals.
    pub fn leader_election<L: Lock>(mut self, elector: LeaderElector<L>) -> Self {
        self.status.set_election(elector.status());
        self.election = Some(Box::new(elector));
        self
    }

    /// Runs a controller whose keys are divided into shards, which are distributed among all replicas. `controller`
    /// returns the controller for one shard. Each replica runs the controllers of the shards for which it is the
    /// leader. If a replica stops or dies, the other replicas take over its shards. Each controller must have a unique
    /// name and must process only the keys of its shard: see [`Builder::only`](crate::Builder::only) and
    /// [`Shard::has_key`].
    ///
    /// The manager's [leader election](Self::leader_election) has no effect on sharded controllers. Each replica fills
    /// the caches of the controllers of all shards, so the controllers should share their informers.
    ///
    /// Each shard follows the rules for lost leadership and blocked threads that [`Manager`] describes. If a
    /// reconciliation of a lost shard still blocks its thread, the replica leaves the shard to other replicas and
    /// continues with its other shards.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_controller::{Action, Controller, Manager, ReconcileRequest};
    /// use pintle_informer::SharedInformer;
    /// use pintle_leaderelect::Lease;
    /// use pintle_meta::{ListWatch, ObjectApi, PartialObject};
    /// use pintle_sharding::Shards;
    ///
    /// fn with_sites<A>(manager: Manager, shards: Shards<A>, sites: SharedInformer<PartialObject>) -> Manager
    /// where
    ///     A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone,
    /// {
    ///     manager.sharded(shards, |shard| {
    ///         Controller::of(&sites)
    ///             .name(format!("sites-{}", shard.index()))
    ///             .only(move |key| shard.has_key(key))
    ///             .reconciler(|_: ReconcileRequest| async { Ok(Action::await_change()) })
    ///     })
    /// }
    /// ```
    pub fn sharded<A, K>(mut self, shards: Shards<A>, controller: impl Fn(Shard) -> Controller<K>) -> Self
    where
        A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone,
        K: RequestKey,
    {
        let controllers = shards.all().map(|shard| Arc::new(controller(shard)) as Arc<dyn AnyController>);
        let controllers: Vec<_> = controllers.collect();
        self.status.add_sharded(&controllers, shards.status());
        self.shard_groups.push(ShardGroup { sharding: Box::new(shards), controllers });
        self
    }

    /// Returns the status of the manager's components. Use the status for health checks, or to check whether this
    /// replica is the leader. The status also covers components that are added to the manager later, so the status can
    /// be passed to a service.
    pub fn status(&self) -> ManagerStatus {
        self.status.clone()
    }

    /// Runs the manager until the `stop` token is cancelled or a component fails.
    ///
    /// # Errors
    ///
    /// - Two controllers have the same name, so the manager did not start any component.
    /// - A controller, a service or another component failed. If several components fail, the first failure is
    ///   returned. The manager logs further failures.
    /// - Some components did not stop within the shutdown timeout. The error names the components that did not stop.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all components in no particular order and does not release the lease. The controllers
    /// stop before the drop returns. The election stops soon after the drop. The runtime drops the tasks of running
    /// reconciliations and services soon after the drop. A task that another thread is polling runs until its next
    /// await.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), ManagerError> {
        self.run_and_cancel(&stop.child_token()).await
    }

    /// Runs the manager like [`run`](Self::run). If a component fails, the manager cancels the `stop` token. Use the
    /// token to stop other tasks of the program together with the manager.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as dropping the future of [`run`](Self::run), and does not cancel the
    /// `stop` token.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_controller::Manager;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// #[tokio::main(flavor = "current_thread")]
    /// async fn main() {
    ///     let stop = CancellationToken::new();
    ///     let manager = Manager::new().service("probes", async |_| Err("the address is in use".into()));
    ///     assert!(manager.run_and_cancel(&stop).await.is_err());
    ///     assert!(stop.is_cancelled());
    /// }
    /// ```
    pub async fn run_and_cancel(self, stop: &CancellationToken) -> Result<(), ManagerError> {
        let Self { config, status, services, informers, election, shard_groups } = self;
        all_differ(&status.all())?;
        let stop = Stop::new(stop.clone(), config.graceful_shutdown_timeout);
        let stop_services = CancellationToken::new();
        let ending = Arc::new(Ending::default());
        informers.iter().for_each(InformerFactory::start);
        let mut services = Services::start(services, &stop_services);
        let team = |controllers| Team::new(controllers, stop.percent(DRAINED), ending.clone());
        let (team, shard_team) = (Arc::new(team(status.team())), team(status.sharded()));
        let exit = Exit { stop: stop.token.clone(), after: config.graceful_shutdown_timeout };
        let polls = team.polls().into_iter().chain(shard_team.polls()).collect();
        let _watchdog = Watchdog::start(polls, config.exit_if_blocked.then_some(exit));
        team.warm_up();
        shard_team.warm_up();
        {
            let has_election = election.is_some();
            let shards = join_all(shard_groups.into_iter().map(|shards| shards.run(&shard_team)));
            let mut leading = pin!(async {
                let election = async {
                    let led = run_election(&team, election, &stop.token).await;
                    if led.is_err() {
                        // Request a stop, which also ends the elections of the shards.
                        stop.request();
                    }
                    led
                };
                let (led, shared) = tokio::join!(election, shards);
                shared.into_iter().fold(led, Result::and)
            });
            let until = stop.percent(RELEASED);
            let mut over = pin!(until.timed_out());
            loop {
                tokio::select! {
                    biased;
                    led = &mut leading => {
                        led.unwrap_or_else(|error| ending.fail(error));
                        break;
                    }
                    () = &mut over => {
                        // Do not release the lease, because reconciliations of its term may still be running.
                        ending.add_leftovers(team.running());
                        ending.add_leftovers(shard_team.running());
                        ending.add_leftovers(has_election.then(|| election::NAME.into()));
                        break;
                    }
                    // If a service fails, stop all other components in order. If a service returns `Ok`, keep the other
                    // components running.
                    Some(ended) = services.next() => if let Err(error) = ended {
                        ending.fail(error);
                        stop.request();
                    },
                }
            }
        }
        stop.request();
        stop_services.cancel();
        let ends = async {
            while let Some(ended) = services.next().await {
                ended.unwrap_or_else(|error| ending.fail(error));
            }
            for factory in &informers {
                factory.shutdown().await;
            }
        };
        tokio::select! {
            biased;
            () = ends => {}
            () = stop.timed_out() => {
                let late = informers.iter().filter(|factory| factory.shutdown().now_or_never().is_none()).count();
                let left: Vec<_> = services.left().collect();
                ending.add_leftovers((left.is_empty() && late > 0).then(|| "the informers".into()));
                ending.add_leftovers(left);
            }
        }
        ending.result(config.graceful_shutdown_timeout)
    }
}

fn all_differ(controllers: &[Arc<dyn AnyController>]) -> Result<(), ManagerError> {
    let mut names = HashSet::new();
    match controllers.iter().find(|controller| !names.insert(controller.name())) {
        Some(twice) => Err(ManagerError::DuplicateName { name: twice.name().to_owned() }),
        None => Ok(()),
    }
}

pintle_meta::debug_struct!(Manager |self| {
    config, status,
    services = self.services.iter().map(Service::name).collect::<Vec<_>>(),
    ..
});
