//! Everything that one replica runs, started and stopped in order.

mod builder;
mod election;
mod health;
mod team;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pintle_informer::InformerFactory;
use pintle_leaderelect::{Leadership, LossReason};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use builder::ManagerBuilder;
pub use health::{Health, HealthCheck, ManagerStatus};

use self::builder::Service;
use self::election::Election;
use self::team::Team;
use crate::ManagerError;

/// Runs controllers, with the caches below them and the services beside them, under leader election if there is one.
///
/// The order of the start: informers and services; the caches of the controllers, so that a standby is warm; the election;
/// and for each term that is won, the controllers. The order of a stop is the reverse: controllers wind down while leadership
/// is still renewed; then the lease is released; then services and informers end.
///
/// A replica that loses its term drops what its controllers were doing, and contends again. A controller or service that fails
/// stops the manager, in the same order.
pub struct Manager {
    team: Arc<Team>,
    services: Vec<Service>,
    informers: Vec<InformerFactory>,
    election: Option<Box<dyn Election>>,
    graceful_shutdown_timeout: Duration,
    status: ManagerStatus,
}

impl Manager {
    /// A manager with nothing to manage.
    pub fn builder() -> ManagerBuilder {
        ManagerBuilder::new()
    }

    /// What is known of its parts, for health checks, metrics, and whoever asks who leads.
    pub fn status(&self) -> ManagerStatus {
        self.status.clone()
    }

    /// Runs until `stop` is cancelled, or something fails.
    ///
    /// # Errors
    ///
    /// The first failure.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends everything at once: reconciliations are dropped, and the lease is not released.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), ManagerError> {
        let Self { team, services, informers, mut election, graceful_shutdown_timeout, .. } = self;
        let stop = stop.child_token();
        let stop_services = CancellationToken::new();
        informers.iter().for_each(InformerFactory::start);
        let mut tasks = JoinSet::new();
        let mut names = Vec::new();
        for service in services {
            names.push(service.name.clone());
            tasks.spawn(service.run(stop_services.clone()));
        }
        team.warm_up();
        let mut failure = {
            let mut leading = Box::pin(lead(&team, election.as_deref_mut(), &stop));
            let mut failed = None;
            loop {
                tokio::select! {
                    led = &mut leading => break failed.or(led.err()),
                    // A service that has failed ends everything else, in order. One that has returned was done.
                    Some(ended) = tasks.join_next() => if let Err(error) = unwind(ended) {
                        stop.cancel();
                        failed.get_or_insert(error);
                    },
                }
            }
        };
        stop_services.cancel();
        let ends = async {
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = unwind(ended) {
                    failure.get_or_insert(error);
                }
            }
        };
        if tokio::time::timeout(graceful_shutdown_timeout, ends).await.is_err() {
            failure.get_or_insert(ManagerError::StopTimedOut { names, after: graceful_shutdown_timeout });
            tasks.shutdown().await;
        }
        for factory in informers {
            factory.shutdown().await;
        }
        failure.map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Has the team work while this replica leads, or all the time where there is no election.
async fn lead(
    team: &Arc<Team>,
    election: Option<&mut (dyn Election + 'static)>,
    stop: &CancellationToken,
) -> Result<(), ManagerError> {
    let Some(election) = election else { return team.work(stop, None).await };
    let failure = Arc::new(Mutex::new(None));
    let work = {
        let (failure, team, stop) = (failure.clone(), team.clone(), stop.clone());
        move |leadership: Leadership| {
            let (failure, team, stop) = (failure.clone(), team.clone(), stop.clone());
            Box::pin(async move {
                let outcome = team.work(&stop, Some(&leadership)).await;
                // A failure of a team that had to stop because its term was over is no failure.
                if let Err(error) = outcome
                    && leadership.check().is_ok()
                {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }) as election::Work
        }
    };
    let ended = election.run(stop, Box::new(work)).await;
    if let Some(reason @ (LossReason::Deadline | LossReason::Usurped { .. } | LossReason::Deleted)) = ended {
        tracing::warn!(%reason, "the last term was lost");
    }
    let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

/// Passes a panic of a task on.
fn unwind<T>(ended: Result<T, tokio::task::JoinError>) -> T {
    match ended {
        Ok(outcome) => outcome,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Nobody aborts the tasks of a set but the one who owns it, and then does not join them.
            Err(error) => panic!("{error}"),
        },
    }
}
