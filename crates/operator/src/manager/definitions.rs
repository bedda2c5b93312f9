//! Installs CustomResourceDefinitions in all clusters of a manager.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use pintle_crd::CustomResourceDefinition;
use pintle_meta::ApiError;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Manager;
use super::run::{Waits, set};
use crate::Result;
use crate::error::OperatorError;
use crate::install::Installer;
use crate::serve::Check;

/// How long a starting manager with several clusters waits for unreachable clusters.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(super) enum Progress {
    #[default]
    Done,
    /// The first attempt is running. Contains what the installation waits for.
    Waits(String),
    /// The last attempt failed. Contains the reason.
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

/// The installations in all clusters. Each cluster has its own task, so that an unreachable cluster does not delay the
/// other clusters. Dropping an `Installations` aborts the tasks.
pub(super) struct Installations {
    tasks: JoinSet<Result<(), OperatorError>>,
    /// The state of each cluster. The first element belongs to the manager's own cluster.
    progress: watch::Receiver<Vec<Progress>>,
}

impl Manager {
    /// Starts the installations. If there are several clusters, also adds a readiness check for each cluster.
    pub(super) fn start_installations(&mut self) -> Installations {
        let mut clusters = vec![(self.cluster.clone(), std::mem::take(&mut self.definitions))];
        for (cluster, definition) in std::mem::take(&mut self.other_definitions) {
            match clusters.iter_mut().find(|(known, _)| known.is_same(&cluster)) {
                Some((_, definitions)) => definitions.push(definition),
                None => clusters.push((cluster, vec![definition])),
            }
        }
        let initial = clusters.iter().map(|(_, definitions)| {
            definitions.first().map_or(Progress::Done, |first| Progress::Waits(waits_for(first)))
        });
        let (sender, progress) = watch::channel(initial.collect::<Vec<_>>());
        let (sender, mut tasks, has_others) = (Arc::new(sender), JoinSet::new(), clusters.len() > 1);
        for (index, (cluster, definitions)) in clusters.into_iter().enumerate() {
            if has_others {
                let (name, progress) = (format!("cluster {}", cluster.config().server), progress.clone());
                let check = move || progress.borrow()[index].problem().map_or(Ok(()), Err);
                self.ready_checks.push((name, Arc::new(check) as Check));
            }
            let installer = Installer { awaits_permissions: index > 0, ..self.installer() };
            let sender = sender.clone();
            tasks.spawn(async move {
                let set = |progress| sender.send_modify(|all| all[index] = progress);
                for definition in &definitions {
                    let report = |error: &ApiError| set(Progress::Fails(format!("{}: {error}", waits_for(definition))));
                    installer.install(&cluster, definition, report).await?;
                }
                set(Progress::Done);
                Ok(())
            });
        }
        Installations { tasks, progress }
    }

    pub(super) fn installer(&self) -> Installer {
        let (field_manager, replaces_newer) = (self.name.clone(), self.replaces_newer);
        Installer { field_manager, replaces_newer, awaits_permissions: false }
    }
}

impl Installations {
    /// Waits until all definitions are installed. With several clusters, only waits for the first attempt in each
    /// cluster, and for at most [`PATIENCE`]. Returns `false` if a stop was requested, because the manager must not
    /// continue.
    pub(super) async fn first(&mut self, waits: &Waits, stop: &CancellationToken) -> Result<bool, OperatorError> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let (own, has_others, is_pending) = {
                let all = self.progress.borrow_and_update();
                let is_pending = |progress: &Progress| matches!(progress, Progress::Waits(_));
                (all[0].clone(), all.len() > 1, all.iter().any(is_pending))
            };
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
        // The tasks are never aborted, so a `JoinError` is always a panic.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
