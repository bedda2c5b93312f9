//! Services that run concurrently with the controllers.

use std::error::Error;
use std::pin::Pin;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::ManagerError;
use crate::panic::caught;

pub(super) struct Service {
    name: String,
    run: Launch,
}

type Launch = Box<dyn FnOnce(CancellationToken) -> Running + Send>;
type Running = Pin<Box<dyn Future<Output = Result<(), Cause>> + Send>>;
type Cause = Box<dyn Error + Send + Sync>;

/// The running services, which are stopped when dropped.
pub(super) struct Services {
    tasks: JoinSet<(usize, Result<(), Cause>)>,
    /// The names of the services by index, or `None` if a service has ended.
    names: Vec<Option<String>>,
}

impl Service {
    pub(super) fn new<F, Fut>(name: String, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Cause>> + Send + 'static,
    {
        Self { name, run: Box::new(move |stop| Box::pin(async move { run(stop).await })) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Services {
    pub(super) fn start(services: Vec<Service>, stop: &CancellationToken) -> Self {
        let (mut tasks, mut names) = (JoinSet::new(), Vec::new());
        for (index, Service { name, run }) in services.into_iter().enumerate() {
            names.push(Some(name));
            let running = run(stop.clone());
            tasks.spawn(async move {
                let ended = caught(running).await;
                (index, ended.unwrap_or_else(|panic| Err(format!("it panicked: {panic}").into())))
            });
        }
        Self { tasks, names }
    }

    /// Waits for the next service to end, and returns the service's result. Returns `None` if all services
    /// have ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no result is lost.
    pub(super) async fn next(&mut self) -> Option<Result<(), ManagerError>> {
        let (name, ended) = match self.tasks.join_next().await? {
            Ok((index, ended)) => (self.names[index].take().unwrap_or_default(), ended),
            // This error is a panic in the `Drop` of a service's future, because services are never aborted.
            Err(error) => ("a service".into(), Err(error.into())),
        };
        Some(ended.map_err(|cause| ManagerError::Runnable { name, cause }))
    }

    pub(super) fn left(self) -> impl Iterator<Item = String> {
        self.names.into_iter().flatten().map(|name| format!("service {name:?}"))
    }
}
