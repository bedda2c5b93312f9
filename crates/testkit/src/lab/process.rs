//! Starts, stops and kills the processes of an operator.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use pintle_cluster::{Cluster, ClusterConfig};
use pintle_meta::Impersonate;
use pintle_restreq::TransportLayer;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Lab;
use crate::journal::PANICKED;
use crate::reporter::Reporter;
use crate::violation::Violation;
use crate::wire::{CrashPoint, Disturbances, Link, Wire};
use crate::world::World;

#[derive(Debug)]
pub(super) struct Process {
    link: Arc<Link>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl<W: World> Lab<W> {
    /// Starts a process of the operator and returns its name: `operator-1`, `operator-2` and so on.
    ///
    /// # Errors
    ///
    /// Returns an error if a client cannot be created.
    pub fn start(&self) -> Result<String, Violation> {
        self.start_with(None, None)
    }

    pub(crate) fn start_with(
        &self,
        crash: Option<CrashPoint>,
        disturbances: Option<Disturbances>,
    ) -> Result<String, Violation> {
        let mut processes = self.processes.lock();
        let name = format!("operator-{}", processes.len() + 1);
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(processes.len() as u64);
        let link = Link::new(name.clone(), self.server.clone(), self.journal.clone(), seed);
        link.crash_at(crash);
        link.set_disturbances(disturbances);
        let mut client = self.server.client_config();
        client.user_agent = Some(name.clone());
        client.impersonate =
            self.settings.role.as_ref().map(|role| Impersonate { user: role.user(), ..Impersonate::default() });
        let transport = Some(TransportLayer::in_place(Wire(link.clone())));
        let cluster = Cluster::connect(ClusterConfig { client: Some(client), transport, ..ClusterConfig::default() })
            .map_err(|error| Violation::Start(Box::new(error)))?;
        let stop = CancellationToken::new();
        let (operator, world, journal) = (self.operator.clone(), self.world.clone(), self.journal.clone());
        let (token, own_link, replicas) = (stop.clone(), link.clone(), self.replicas.clone());
        let running = self.journal.running(&name);
        let run = async move {
            let _running = running;
            // Do not serve probes, metrics or a debug page, because parallel runs would use the same port.
            let running = async {
                let mut manager = operator(cluster.clone(), world).without_server();
                let _serving = replicas.serve(&mut manager, &own_link.dead);
                journal.report(&own_link.process, Reporter::of(&manager));
                manager.run(&token).await
            };
            let ended = tokio::select! {
                biased;
                () = own_link.dead.cancelled() => return,
                ended = AssertUnwindSafe(running).catch_unwind() => ended,
            };
            let cause = match ended {
                Ok(Ok(())) if token.is_cancelled() => None,
                Ok(Ok(())) => Some("the manager returned although nothing stopped it".to_owned()),
                Ok(Err(error)) => Some(error.to_string()),
                Err(panic) => Some(format!("{PANICKED}: {}", message(&*panic))),
            };
            if let Some(cause) = cause {
                journal.ended(&own_link.process, cause);
            }
            // Send pending Events to the server, like a real program before it exits.
            tokio::select! {
                biased;
                () = own_link.dead.cancelled() => {}
                () = cluster.shutdown() => {}
            }
        };
        processes.insert(name.clone(), Process { link, stop, task: tokio::spawn(run) });
        Ok(name)
    }

    /// Kills a process, like SIGKILL. All requests of the process stop immediately, and its Lease is not released.
    /// Returns after the memory of the process has been freed. Does nothing if the process has already ended.
    ///
    /// # Cancel safety
    ///
    /// The process is killed even if the future is dropped after its first poll.
    pub async fn kill(&self, process: &str) {
        self.end(process, |found| found.link.kill()).await;
    }

    /// Stops a process like SIGTERM, and waits until the process has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the process ends or has already ended with an error or a panic.
    ///
    /// # Cancel safety
    ///
    /// The process is stopped even if the future is dropped after its first poll.
    pub async fn stop(&self, process: &str) -> Result<(), Violation> {
        self.end(process, |found| found.stop.cancel()).await;
        self.check_ended()
    }

    /// Ends a process with `end`, and waits until its task has ended.
    async fn end(&self, process: &str, end: impl FnOnce(&Process)) {
        let found = self.processes.lock().get_mut(process).map(|found| {
            end(found);
            std::mem::replace(&mut found.task, tokio::spawn(async {}))
        });
        if let Some(task) = found {
            // Ignore the result, because the task catches panics of the operator and does not panic itself.
            let _ = task.await;
        }
    }

    /// Returns the names of the running processes.
    pub fn running(&self) -> Vec<String> {
        let is_running = |process: &Process| !process.link.dead.is_cancelled() && !process.task.is_finished();
        let processes = self.processes.lock();
        processes.iter().filter(|(_, process)| is_running(process)).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn started(&self) -> usize {
        self.processes.lock().len()
    }

    pub(crate) fn death(&self, process: &str) -> CancellationToken {
        self.processes.lock().get(process).map(|found| found.link.dead.clone()).unwrap_or_default()
    }

    pub(crate) fn set_disturbances(&self, disturbances: Option<Disturbances>) {
        self.processes.lock().values().for_each(|process| process.link.set_disturbances(disturbances));
    }

    /// Breaks all open watches of all processes.
    pub fn break_watches(&self) {
        self.processes.lock().values().for_each(|process| process.link.break_watches());
    }

    pub(crate) fn check_ended(&self) -> Result<(), Violation> {
        match self.journal.first_ended() {
            Some((process, cause)) => Err(Violation::Ended { process, cause }),
            None => Ok(()),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
