//! Installs CustomResourceDefinitions and webhook configurations in all clusters of a manager.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::ApiError;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Manager;
use super::waits::{Waits, set};
use crate::Result;
use crate::error::OperatorError;
use crate::install::Installer;
use crate::serve::Check;

/// The time for which a starting manager with several clusters waits for unreachable clusters.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(super) enum Progress {
    #[default]
    Done,
    /// The first attempt is running and waits for the condition that the text names.
    Waits(String),
    /// The last attempt failed for this reason.
    Fails(String),
}

impl Progress {
    fn problem(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Waits(problem) | Self::Fails(problem) => Some(problem.clone()),
        }
    }
}

/// Reports the progress in one cluster.
#[derive(Clone)]
pub(super) struct Reporter {
    all: Arc<watch::Sender<Vec<Progress>>>,
    index: usize,
}

impl Reporter {
    pub(super) fn set(&self, progress: Progress) {
        self.all.send_modify(|all| all[self.index] = progress);
    }
}

/// The last step in the manager's own cluster: the registration of the webhooks.
#[cfg_attr(not(feature = "webhook"), allow(dead_code, reason = "only the feature has webhooks"))]
pub(super) struct Registration {
    /// The condition that the installation waits for during this step.
    pub(super) waiting: String,
    pub(super) run: Box<dyn FnOnce(Reporter) -> Registering + Send>,
}

pub(super) type Registering = Pin<Box<dyn Future<Output = Result<(), OperatorError>> + Send>>;

/// The installations in all clusters. Each cluster has a separate task, so that an unreachable cluster does not delay
/// the other clusters. Dropping the `Installations` aborts these tasks.
pub(super) struct Installations {
    tasks: JoinSet<Result<(), OperatorError>>,
    /// The clusters, starting with the manager's own cluster.
    #[cfg(feature = "webhook")]
    clusters: Vec<Cluster>,
    /// The state of each cluster, in the order of the clusters.
    progress: watch::Receiver<Vec<Progress>>,
    /// Whether the manager has controllers or definitions in several clusters.
    has_others: bool,
}

impl Manager {
    /// Starts the installations. `registration` runs after the definitions were installed in the manager's own cluster.
    /// If there are several clusters, it also adds a readiness check for each cluster.
    pub(super) fn start_installations(&mut self, registration: Option<Registration>) -> Installations {
        let mut all = vec![(self.cluster.clone(), std::mem::take(&mut self.definitions), registration)];
        for (cluster, definition) in std::mem::take(&mut self.other_definitions) {
            match all.iter_mut().find(|(known, ..)| known.is_same(&cluster)) {
                Some((_, definitions, _)) => definitions.push(definition),
                None => all.push((cluster, vec![definition], None)),
            }
        }
        let initial = all.iter().map(|(_, definitions, registration)| {
            let first = definitions.first().map(waits_for);
            let first = first.or_else(|| Some(registration.as_ref()?.waiting.clone()));
            first.map_or(Progress::Done, Progress::Waits)
        });
        let (sender, progress) = watch::channel(initial.collect::<Vec<_>>());
        let (sender, mut tasks) = (Arc::new(sender), JoinSet::new());
        let has_others = all.len() > 1 || !self.other_clusters.is_empty();
        #[cfg(feature = "webhook")]
        let clusters = all.iter().map(|(cluster, ..)| cluster.clone()).collect();
        for (index, (cluster, definitions, registration)) in all.into_iter().enumerate() {
            if has_others {
                let (name, progress) = (format!("cluster {}", cluster.config().server), progress.clone());
                let check = move || progress.borrow()[index].problem().map_or(Ok(()), Err);
                self.ready_checks.push((name, Arc::new(check) as Check));
            }
            let installer = Installer { awaits_permissions: index > 0, ..self.installer() };
            let reporter = Reporter { all: sender.clone(), index };
            tasks.spawn(install(installer, cluster, definitions, registration, reporter));
        }
        Installations {
            tasks,
            #[cfg(feature = "webhook")]
            clusters,
            progress,
            has_others,
        }
    }

    pub(super) fn installer(&self) -> Installer {
        let (field_manager, replaces_newer) = (self.name.clone(), self.replaces_newer);
        Installer { field_manager, replaces_newer, awaits_permissions: false }
    }
}

async fn install(
    installer: Installer,
    cluster: Cluster,
    definitions: Vec<CustomResourceDefinition>,
    registration: Option<Registration>,
    reporter: Reporter,
) -> Result<(), OperatorError> {
    for definition in &definitions {
        let report = |error: &ApiError| reporter.set(Progress::Fails(format!("{}: {error}", waits_for(definition))));
        installer.install(&cluster, definition, report).await?;
    }
    if let Some(Registration { waiting, run }) = registration {
        reporter.set(Progress::Waits(waiting));
        run(reporter.clone()).await?;
    }
    reporter.set(Progress::Done);
    Ok(())
}

impl Installations {
    /// Returns a future that waits until everything is installed in `cluster`. If an installation fails, this future
    /// never completes, because the manager then ends.
    #[cfg(feature = "webhook")]
    pub(super) fn done(&self, cluster: &Cluster) -> impl Future<Output = ()> + Send + use<> {
        let index = self.clusters.iter().position(|known| known.is_same(cluster));
        let mut progress = self.progress.clone();
        async move {
            let is_done = |all: &Vec<Progress>| index.is_none_or(|index| matches!(all[index], Progress::Done));
            let has_ended = progress.wait_for(is_done).await.is_err();
            if has_ended {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until everything is installed. With several clusters, it only waits for the first attempt in each cluster,
    /// and at most for [`PATIENCE`]. Returns `false` if a stop was requested and the manager must not continue.
    pub(super) async fn first(&mut self, waits: &Waits, stop: &CancellationToken) -> Result<bool, OperatorError> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let (own, is_pending) = {
                let all = self.progress.borrow_and_update();
                let is_pending = |progress: &Progress| matches!(progress, Progress::Waits(_));
                (all[0].clone(), all.iter().any(is_pending))
            };
            let has_others = self.has_others;
            set(waits, own.problem());
            if !is_pending && (has_others || matches!(own, Progress::Done)) {
                return Ok(true);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(false),
                Some(ended) = self.tasks.join_next() => joined(ended)?,
                Ok(()) = self.progress.changed() => {}
                () = sleep_until(patience), if has_others => return Ok(true),
            }
        }
    }

    pub(super) async fn rest(mut self, stop: CancellationToken) -> Result<(), Box<dyn Error + Send + Sync>> {
        while let Some(Some(ended)) = stop.run_until_cancelled(self.tasks.join_next()).await {
            joined(ended)?;
        }
        Ok(())
    }
}

fn waits_for(definition: &CustomResourceDefinition) -> String {
    format!("waits for the CustomResourceDefinition {:?}", definition.metadata.name)
}

fn joined(ended: Result<Result<(), OperatorError>, JoinError>) -> Result<(), OperatorError> {
    match ended {
        Ok(ended) => ended,
        // A `JoinError` is always a panic, because the tasks are never aborted.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
