//! Runs a manager.

use std::iter::once;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pintle_controller::{Manager as Engine, ManagerError, ManagerStatus, leader_events};
use pintle_leaderelect::LeaderElectionConfig;
use pintle_meta::__private::is_dns_subdomain;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Manager;
use super::replicas::Sharded;
use super::waits::{Waits, set};
use crate::controller::Surroundings;
use crate::debug::Debug;
use crate::error::OperatorError;
use crate::serve::{self, Page};
use crate::{Result, leader_service};

impl Manager {
    /// Runs the manager until the `stop` token is cancelled or a component of the manager fails. If the manager has
    /// created its own [`Cluster`](pintle_cluster::Cluster), it writes the pending Events and stops the informers
    /// before this method returns.
    ///
    /// # Errors
    ///
    /// - The server's address is in use, or the leader election configuration is invalid. The manager runs no
    ///   controllers after this error.
    /// - The manager's name cannot be used as a Lease name. The manager runs no controllers after this error.
    /// - A controller is misconfigured: it has an empty namespace, two finalizers, an invalid finalizer, labels
    ///   of a kind that it does not use, or a namespaced owner of a cluster-scoped kind. The manager runs no controllers
    ///   after this error.
    /// - The webhook certificate cannot be read, or the webhook address is in use. The manager runs no controllers
    ///   after this error.
    /// - The API server rejects a CustomResourceDefinition or a webhook configuration. If installation fails for
    ///   another reason, for example because the server is unreachable, the manager retries.
    /// - Two controllers have the same name, a component of the manager fails, or stopping takes too long. The error is
    ///   a [`ManagerError`](pintle_controller::ManagerError), which names the keys whose reconciliation has not
    ///   finished.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all components of the manager in no particular order and does not release the Lease.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), OperatorError> {
        self.boxed_run(stop).await
    }

    /// Boxes the future, so that its code is compiled once in this crate instead of in each program.
    #[inline(never)]
    fn boxed_run<'a>(
        self,
        stop: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Result<(), OperatorError>> + Send + 'a>> {
        Box::pin(async move {
            // If a component fails, the underlying manager stops the other components by cancelling this token.
            let stop = &stop.child_token();
            let cluster = self.owns_cluster.then(|| self.cluster.clone());
            let limit = self.config.graceful_shutdown_timeout;
            let mut stopped = None;
            let ended = self.run_parts(stop, &mut stopped).await;
            if let Some(cluster) = cluster {
                cluster.shutdown_within(left(limit, stopped)).await;
            }
            ended
        })
    }

    /// Runs all components of the manager. Sets `stopped` to the second value that [`run_until_stopped`] returns.
    async fn run_parts(mut self, stop: &CancellationToken, stopped: &mut Option<Instant>) -> Result<(), OperatorError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let waits = Waits::default();
        let mut engine = std::mem::take(&mut self.engine).config(self.config.clone());
        if let Some(mut config) = self.election.take() {
            if !is_dns_subdomain(&self.name) {
                return Err(OperatorError::LeaseName(self.name));
            }
            self.observe(&mut config);
            engine = engine.leader_election(self.cluster.elector(self.name.as_str(), config)?);
        }
        #[cfg(feature = "webhook")]
        let webhooks = self.serve_webhooks(stop).await?;
        let mut sharded = Vec::new();
        for Sharded { controller, mut config, bind } in std::mem::take(&mut self.sharded) {
            let name = self.name_of_shards(controller)?;
            if config.shards == 0 {
                return Err(OperatorError::NoShards(name));
            }
            self.observe(&mut config.electors.election);
            let shards = self.cluster.shards("", &name, config)?;
            self.shards.push(shards.status());
            sharded.push((shards, bind));
        }
        #[cfg(feature = "webhook")]
        let registration = webhooks.as_ref().map(|all| all.registration(&self.cluster, &self.installer()));
        #[cfg(not(feature = "webhook"))]
        let registration = None;
        let mut installations = self.start_installations(registration);
        let _server = self.serve_pages(engine.status(), &waits, stop).await?;
        if !installations.first(&waits, stop).await? {
            #[cfg(feature = "webhook")]
            if let Some(webhooks) = webhooks {
                webhooks.finish(self.config.graceful_shutdown_timeout).await;
            }
            return Ok(());
        }
        #[cfg(feature = "webhook")]
        let _registered =
            webhooks.as_ref().map(|all| all.keep_registered(&self.cluster, &self.installer(), &installations));
        engine = engine.service("installations", move |stop| installations.rest(stop));
        let surroundings = Surroundings {
            cluster: self.cluster.clone(),
            name: self.name.clone(),
            metrics: Arc::new(self.metrics.clone()),
        };
        for bind in self.controllers {
            engine = bind(engine, &surroundings);
        }
        for (shards, bind) in sharded {
            engine = bind(engine, &surroundings, shards);
        }
        for (name, service) in self.leader_services {
            engine = engine.controller(leader_service::controller(&name, service, stop));
        }
        for (name, run) in self.services {
            engine = engine.service(name, run);
        }
        set(&waits, None);
        drop(surroundings);
        if self.owns_cluster {
            engine = engine.informers(self.cluster.informers().clone());
        }
        let ended;
        (ended, *stopped) = run_until_stopped(engine, stop).await;
        #[cfg(feature = "webhook")]
        if let Some(webhooks) = webhooks {
            webhooks.finish(self.config.graceful_shutdown_timeout).await;
        }
        ended.map_err(operator_error)
    }

    /// Returns the prefix for the Lease names of a sharded controller.
    fn name_of_shards(&self, controller: String) -> Result<String, OperatorError> {
        let name = format!("{}-{controller}", self.name);
        if is_dns_subdomain(&name) {
            return Ok(name);
        }
        if !is_dns_subdomain(&self.name) {
            return Err(OperatorError::LeaseName(self.name.clone()));
        }
        let advice = "use lower case letters, digits, '-' and '.', and end with a letter or digit";
        let problem = format!("the names of its Leases cannot begin with {name:?}; {advice}");
        Err(OperatorError::Controller { controller, problem })
    }

    /// Makes an election use the manager's name in Events and metrics.
    fn observe(&self, config: &mut LeaderElectionConfig) {
        config.events.get_or_insert_with(|| leader_events(self.cluster.recorder(&self.name)));
        config.metrics.get_or_insert_with(|| Arc::new(self.metrics.clone()));
    }

    /// Starts the server for probes, metrics and the debug page, if an address is configured.
    async fn serve_pages(
        &mut self,
        status: ManagerStatus,
        waits: &Waits,
        stop: &CancellationToken,
    ) -> Result<Option<Server>, OperatorError> {
        let Some(listen) = self.listen.take() else { return Ok(None) };
        set(waits, Some("the manager is starting".into()));
        let debug = Debug {
            name: self.name.clone(),
            started: SystemTime::now(),
            status: status.clone(),
            informers: once(&self.cluster).chain(&self.other_clusters).map(|one| one.informers().clone()).collect(),
            shards: std::mem::take(&mut self.shards),
            stop: stop.clone(),
        };
        let page = Page {
            status,
            metrics: self.metrics.clone(),
            waits: waits.clone(),
            live_checks: std::mem::take(&mut self.live_checks),
            ready_checks: std::mem::take(&mut self.ready_checks),
            debug: self.has_debug.then(|| Arc::new(debug)),
        };
        let listener = listen.bind().await?;
        Ok(Some(AbortOnDropHandle::new(tokio::spawn(async move { match serve::serve(listener, page).await {} }))))
    }
}

/// Runs the underlying manager. The second result is the time at which a stop was requested or a component failed, if
/// either has happened.
async fn run_until_stopped(engine: Engine, stop: &CancellationToken) -> (Result<(), ManagerError>, Option<Instant>) {
    let mut run = pin!(engine.run_and_cancel(stop));
    tokio::select! {
        biased;
        ended = &mut run => (ended, None),
        () = stop.cancelled() => {
            let stopped = Instant::now();
            (run.await, Some(stopped))
        }
    }
}

/// Returns the part of the shutdown timeout `limit` that is left after `stopped`.
fn left(limit: Duration, stopped: Option<Instant>) -> Duration {
    stopped.map_or(limit, |stopped| limit.saturating_sub(stopped.elapsed()))
}

/// Converts the error. If the cause of the error is an `OperatorError` from an installation, returns this
/// `OperatorError`.
fn operator_error(error: ManagerError) -> OperatorError {
    match error {
        ManagerError::Runnable { name, cause } => match cause.downcast::<OperatorError>() {
            Ok(cause) => *cause,
            Err(cause) => ManagerError::Runnable { name, cause }.into(),
        },
        error => error.into(),
    }
}

type Server = AbortOnDropHandle<()>;

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stop_begins_with_the_failure_of_a_part() {
        let engine = Engine::new().service("fails", async |_| {
            sleep(Duration::from_secs(5)).await;
            Err("broken".into())
        });
        let slow = async |stop: CancellationToken| {
            stop.cancelled().await;
            sleep(Duration::from_secs(2)).await;
            Ok(())
        };
        let (ended, stopped) = run_until_stopped(engine.service("slow", slow), &CancellationToken::new()).await;
        ended.unwrap_err();
        let limit = Duration::from_secs(10);
        assert!((7_900..=8_000).contains(&left(limit, stopped).as_millis()));
        assert_eq!(left(limit, None), limit);
        sleep(limit).await;
        assert_eq!(left(limit, stopped), Duration::ZERO);
    }
}
