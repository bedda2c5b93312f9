use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_events::{EventRecorder, EventType, ObjectReference};
use pintle_informer::InformerFactory;
use pintle_leaderelect::{LeaderElector, Lock};
use tokio_util::sync::CancellationToken;

use super::election::Election;
use super::team::Team;
use super::{Manager, ManagerStatus};
use crate::{Controller, ManagerError};

/// Puts a [`Manager`] together.
#[must_use]
pub struct ManagerBuilder {
    controllers: Vec<Controller>,
    services: Vec<Service>,
    informers: Vec<InformerFactory>,
    election: Option<Box<dyn Election>>,
    graceful_shutdown_timeout: Duration,
}

/// Something that runs for as long as the manager, on every replica.
pub(super) struct Service {
    pub(super) name: String,
    run: Launch,
}

type Launch = Box<dyn FnOnce(CancellationToken) -> Running + Send>;
type Running = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;

impl Service {
    pub(super) async fn run(self, stop: CancellationToken) -> Result<(), ManagerError> {
        let Self { name, run } = self;
        run(stop).await.map_err(|cause| ManagerError::Runnable { name, cause })
    }
}

impl ManagerBuilder {
    pub(super) fn new() -> Self {
        Self {
            controllers: Vec::new(),
            services: Vec::new(),
            informers: Vec::new(),
            election: None,
            graceful_shutdown_timeout: Duration::from_secs(30),
        }
    }

    /// Runs `controller`: on the leader, or on every replica if there is no election. Keep a clone to ask for its metrics.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Starts the informers of `factory` first and shuts them down last. Informers that come from elsewhere are started with
    /// the controllers that need them, and end with their last handle.
    pub fn informers(mut self, factory: InformerFactory) -> Self {
        self.informers.push(factory);
        self
    }

    /// Runs something on every replica for as long as the manager runs, such as a web server. It should end when the token is
    /// cancelled. An error stops the manager; an early return does not.
    pub fn service<F, Fut>(mut self, name: impl Into<String>, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.services.push(Service { name: name.into(), run: Box::new(move |stop| Box::pin(run(stop))) });
        self
    }

    /// Lets only the leader run the controllers.
    pub fn leader_election<L: Lock>(mut self, elector: LeaderElector<L>) -> Self {
        self.election = Some(Box::new(elector));
        self
    }

    /// The same, and records who became leader and who stopped, as Events about the lock.
    pub fn leader_election_with_events<L: Lock>(self, elector: LeaderElector<L>, recorder: EventRecorder) -> Self {
        self.leader_election(elector.with_events(move |event| {
            let lock = ObjectReference {
                api_version: event.resource.group_version.to_string(),
                kind: event.resource.kind.clone(),
                namespace: event.key.namespace().unwrap_or_default().into(),
                name: event.key.name().into(),
                uid: event.version.uid.clone(),
                resource_version: event.version.resource_version.clone(),
                field_path: String::new(),
            };
            recorder.event(lock, EventType::Normal, "LeaderElection", event.to_string());
        }))
    }

    /// How long a stop waits for services before it drops them: 30 s. Controllers have
    /// [their own](crate::ControllerConfig::graceful_shutdown_timeout).
    pub fn graceful_shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.graceful_shutdown_timeout = timeout;
        self
    }

    /// The manager. Nothing runs yet.
    pub fn build(self) -> Manager {
        let Self { controllers, services, informers, election, graceful_shutdown_timeout } = self;
        let status = ManagerStatus::new(controllers.clone(), election.as_ref().map(|election| election.status()));
        let team = Arc::new(Team { controllers });
        Manager { team, services, informers, election, graceful_shutdown_timeout, status }
    }
}

impl fmt::Debug for ManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services: Vec<_> = self.services.iter().map(|service| &service.name).collect();
        f.debug_struct("ManagerBuilder")
            .field("controllers", &self.controllers)
            .field("services", &services)
            .finish_non_exhaustive()
    }
}
