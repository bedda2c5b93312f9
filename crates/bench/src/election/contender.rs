//! A leader election candidate with its own client, like a separate process.

use std::time::{Duration, Instant};

use pintle::leaderelect::{LeaderElector, LockKind, ResourceLock};
use pintle::prelude::*;
use pintle_metrics::InMemoryProvider;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Setting, cluster, election};

/// The number of the new leader, and the time at which it began to lead.
pub(super) type Start = (u64, Instant);

pub(super) struct Contender {
    pub(super) number: u64,
    pub(super) stop: CancellationToken,
    pub(super) run: JoinHandle<()>,
    memory: InMemoryProvider,
}

impl Contender {
    pub(super) fn start(setting: &Setting, lease: &str, number: u64, started: &mpsc::UnboundedSender<Start>) -> Self {
        let (stop, memory, started) = (CancellationToken::new(), InMemoryProvider::new(), started.clone());
        let config = election(&format!("{lease}-{number}"));
        let lock = cluster(setting, &memory).lock(
            LockKind::Leases,
            format!("default/{lease}").as_str(),
            config.renew_deadline,
        );
        let Ok(ResourceLock::Lease(mut lock)) = lock else { panic!("cannot create a Lease lock") };
        lock.watch = !setting.polling;
        let mut elector = LeaderElector::new(lock, config).expect("a valid configuration");
        let stopped = stop.clone();
        let run = tokio::spawn(async move {
            let work = LeaderCallbacks::new(move |leadership: Leadership| {
                let _ = started.send((number, Instant::now()));
                async move { leadership.cancelled().await }
            });
            elector.run(&stopped, work).await;
        });
        Self { number, stop, run, memory }
    }

    pub(super) fn requests(&self) -> f64 {
        requests(&self.memory)
    }
}

pub(super) fn requests(memory: &InMemoryProvider) -> f64 {
    memory.value("rest_client_requests_total", &[]).unwrap_or_default()
}

pub(super) async fn next(starts: &mut mpsc::UnboundedReceiver<Start>) -> Start {
    let next = tokio::time::timeout(Duration::from_secs(60), starts.recv()).await;
    next.expect("a new leader within a minute").expect("a contender runs")
}
