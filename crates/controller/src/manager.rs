//! Everything that one replica runs, started and stopped in order.

mod election;
mod ending;
mod health;
mod service;
mod team;

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use pintle_informer::InformerFactory;
use pintle_leaderelect::{LeaderElector, Lock};
use tokio_util::sync::CancellationToken;

pub use election::leader_events;
pub use health::{Health, HealthCheck, ManagerStatus};

use self::election::{Election, lead};
use self::ending::Ending;
use self::service::{Service, Services};
use self::team::Team;
use crate::blocking::{Exit, Watchdog};
use crate::stop::Stop;
use crate::{Controller, ManagerError};

/// Runs controllers, with the caches below them and the services beside them, under leader election if there is one.
///
/// The order of the start: informers and services; the caches of the controllers, so that a standby is warm; the election;
/// and for each term that is won, the controllers. The order of a stop is the reverse: controllers wind down while leadership
/// is still renewed; then the lease is released; then services and informers end. All that within
/// [one time](ManagerConfig::graceful_shutdown_timeout).
///
/// A replica that loses its term drops what its controllers were doing, and contends again. A call that blocks its thread cannot be
/// dropped: then the replica does not contend before that call has ended, and is not ready. After
/// [the time of a stop](ManagerConfig::graceful_shutdown_timeout) the manager fails. A controller or service that fails or panics stops
/// the manager, in the same order.
///
/// A standby reads the events of its caches, and remembers the keys of the objects that are deleted (the newest 100,000 of each
/// controller). When it becomes the leader, it reconciles these as well as all that is there, so no deletion is lost while nobody leads.
///
/// On a runtime with several threads, the election runs on a thread of its own, so that reconcilers that block the runtime do not
/// keep it from renewing. If all threads of the runtime are blocked, no task can see a signal, so a stop is not seen either.
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
#[must_use = "nothing happens before it runs"]
#[derive(Default)]
pub struct Manager {
    config: ManagerConfig,
    status: ManagerStatus,
    services: Vec<Service>,
    informers: Vec<InformerFactory>,
    election: Option<Box<dyn Election>>,
}

/// How a manager works.
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
///     stop.cancel(); // On SIGTERM, say.
///     Manager::new().config(config).run(&stop).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// How long a stop takes at most: 25 s, which leaves some of the 30 s that Kubernetes gives a pod.
    ///
    /// Controllers have 80 % of it to finish what is in flight; [their own
    /// limit](crate::ControllerConfig::graceful_shutdown_timeout) counts only where they run without a manager. Until 90 % the
    /// lease can be released, and services and informers have the rest. So no part takes the time of the next. Whatever is left
    /// at the end of its time is dropped, and named in the error; with zero, everything is.
    pub graceful_shutdown_timeout: Duration,
    /// Whether to end the process, with exit code 1 and a line to stderr, if reconciliations still block their threads when the time
    /// of a stop is up and a tenth of it, 2 s at most, has passed since: true by default. Nothing else can end such calls: not a return
    /// from `main`, since a runtime waits for its threads when it is dropped.
    pub exit_if_blocked: bool,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self { graceful_shutdown_timeout: Duration::from_secs(25), exit_if_blocked: true }
    }
}

/// How much of a stop's time is over when controllers have to be, in percent, and when the lease has to be released.
const DRAINED: u32 = 80;
const RELEASED: u32 = 90;

impl Manager {
    /// A manager with nothing to manage.
    pub fn new() -> Self {
        Self::default()
    }

    /// How it works.
    pub fn config(mut self, config: ManagerConfig) -> Self {
        self.config = config;
        self
    }

    /// Runs `controller`: on the leader, or on every replica if there is no election.
    pub fn controller(self, controller: Controller) -> Self {
        self.status.add_controller(controller);
        self
    }

    /// Starts the informers of `factory` first and shuts them down last. Informers that come from elsewhere are started with
    /// the controllers that need them, and end with their last handle.
    pub fn informers(mut self, factory: InformerFactory) -> Self {
        self.informers.push(factory);
        self
    }

    /// Runs something on every replica for as long as the manager runs, such as a web server that answers probes from the
    /// manager's [status](Self::status). It should end when the token is cancelled. An error or a panic stops the manager; an
    /// early return does not.
    pub fn service<F, Fut>(mut self, name: impl Into<String>, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.services.push(Service::new(name.into(), run));
        self
    }

    /// Lets only the leader run the controllers. For Events about the lock, give the elector's configuration
    /// [`leader_events`](crate::leader_events).
    pub fn leader_election<L: Lock>(mut self, elector: LeaderElector<L>) -> Self {
        self.status.set_election(elector.status());
        self.election = Some(Box::new(elector));
        self
    }

    /// What is known of its parts, for health checks, and whoever asks who leads. It knows of parts that are added
    /// later as well, so a service can be given it.
    pub fn status(&self) -> ManagerStatus {
        self.status.clone()
    }

    /// Runs until `stop` is cancelled, or something fails.
    ///
    /// # Errors
    ///
    /// Two controllers of one name, before anything begins. Otherwise the first failure, or what was left when the time of the stop
    /// was up. The others are logged.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends everything, in no order, and does not release the lease. Controllers are gone when the drop returns,
    /// and the election soon after. Reconciliations and services are tasks, which the runtime drops as soon as it gets to it; one that
    /// another thread is polling just then goes on until its next await.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), ManagerError> {
        let Self { config, status, services, informers, election } = self;
        let controllers = status.controllers();
        all_differ(&controllers)?;
        let stop = Stop::new(stop, config.graceful_shutdown_timeout);
        let stop_services = CancellationToken::new();
        let ending = Arc::new(Ending::default());
        informers.iter().for_each(InformerFactory::start);
        let mut services = Services::start(services, &stop_services);
        let team = Arc::new(Team::new(controllers, stop.percent(DRAINED), ending.clone()));
        let exit = Exit { stop: stop.token().clone(), after: config.graceful_shutdown_timeout };
        let _watchdog = Watchdog::start(team.polls(), config.exit_if_blocked.then_some(exit));
        team.warm_up();
        {
            let has_election = election.is_some();
            let mut leading = pin!(lead(&team, election, stop.token()));
            let until = stop.percent(RELEASED);
            let mut over = pin!(until.over());
            loop {
                tokio::select! {
                    biased;
                    led = &mut leading => {
                        led.unwrap_or_else(|error| ending.fail(error));
                        break;
                    }
                    () = &mut over => {
                        // The lease is not released: something may still be at work under it.
                        ending.leave(team.at_work());
                        ending.leave(has_election.then(|| election::NAME.into()));
                        break;
                    }
                    // A service that has failed ends everything else, in order. One that has returned was done.
                    Some(ended) = services.next() => if let Err(error) = ended {
                        ending.fail(error);
                        stop.give();
                    },
                }
            }
        }
        stop.give();
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
            () = stop.over() => {
                let told = informers.iter().filter(|factory| factory.shutdown().now_or_never().is_none()).count();
                let left: Vec<_> = services.left().collect();
                ending.leave((left.is_empty() && told > 0).then(|| "the informers".into()));
                ending.leave(left);
            }
        }
        ending.result(config.graceful_shutdown_timeout)
    }
}

fn all_differ(controllers: &[Controller]) -> Result<(), ManagerError> {
    let mut names = HashSet::new();
    match controllers.iter().find(|controller| !names.insert(controller.name())) {
        Some(twice) => Err(ManagerError::DuplicateName { name: twice.name().to_owned() }),
        None => Ok(()),
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services: Vec<_> = self.services.iter().map(Service::name).collect();
        f.debug_struct("Manager")
            .field("config", &self.config)
            .field("status", &self.status)
            .field("services", &services)
            .finish_non_exhaustive()
    }
}
