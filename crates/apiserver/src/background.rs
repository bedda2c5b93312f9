//! The controllers that run in the server. Clients rely on the effects of the controllers as a part of the API. In a
//! real cluster, the controllers run in two programs:
//!
//! - The controllers of kube-controller-manager empty deleted namespaces, collect garbage, aggregate cluster roles, and
//!   check the types of admission policies.
//! - The controllers of kube-apiserver maintain custom resource definitions, the Service `kubernetes`, APIServices and
//!   the status of FlowSchemas, and delete expired events.
//!
//! Each controller has its own task, so a slow controller does not delay the others. A controller observes all changes
//! of its resources, records the objects to process, and writes through the same functions as client requests. If a
//! controller lags too far behind the changes, it lists its resources again.

mod api_services;
mod backoff;
mod definitions;
mod events;
mod flows;
mod garbage;
mod kubernetes;
mod namespaces;
mod policy_status;
mod reviews;
mod roles;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use definitions::Definitions;
pub(crate) use kubernetes::reconcile as reconcile_kubernetes;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_serving::offload::{self, Offload};
use pintle_storage::{Change, Changes, Db, Lagged, Range, Run};

use crate::registry::Registry;

trait Controller: Send + 'static {
    /// The resources to observe, or `None` for all resources.
    const RESOURCES: Option<&'static [&'static str]>;

    /// Records a change. Returns `true` if the change requires a call of `work`.
    fn observe(&mut self, _: &Change) -> bool {
        true
    }

    /// Records all existing objects. `resync` is called when the controller starts, and after the controller has lagged
    /// too far behind the changes.
    fn resync(&mut self, _: &Registry) {}

    /// Processes the recorded changes. The controller has observed all changes up to the revision `observed`, and
    /// possibly later changes. Returns the time of the next call of `work`, if any. A change triggers an earlier call
    /// of `work`.
    fn work(&mut self, registry: &Arc<Registry>, observed: u64) -> impl Future<Output = Option<Instant>> + Send;

    /// Waits for an additional trigger of `work`, besides changes and the time that `work` returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    fn wait_for_event(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Returns `true` if `work` has not tried to process all recorded changes yet.
    fn is_busy(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Background {
    /// The revision of each controller, up to which it has processed all changes.
    idle_at: Vec<watch::Receiver<u64>>,
    /// Wakes all controllers to make them update their revisions in `idle_at`.
    wake: watch::Sender<()>,
}

impl Background {
    /// Starts the controllers, which run until `stop` is cancelled. `address` is the server's address. The future
    /// completes when each controller has processed all existing objects, or has ended. The health endpoints report
    /// ended controllers.
    pub(crate) async fn start(
        registry: &Arc<Registry>,
        address: SocketAddr,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let wanted = registry.config.controllers;
        let mut started = Starting { registry, stop, tasks, idle_at: Vec::new(), wake: watch::Sender::new(()) };
        let served_at = started.run(definitions::Definitions::default());
        started.run(api_services::ApiServices::default());
        started.run(kubernetes::Kubernetes { address });
        started.run(events::Expiry::default());
        started.run(flows::Flows::default());
        if wanted.roles {
            started.run(roles::Aggregator::default());
        }
        if wanted.garbage {
            started.run(garbage::Collector::new(served_at.clone()));
        }
        if wanted.namespaces {
            started.run(namespaces::Cleaner::default());
        }
        if wanted.policies {
            let wake = started.wake.clone();
            started.run(policy_status::PolicyStatus::new(served_at, wake));
        }
        let Starting { mut idle_at, wake, .. } = started;
        for idle_at in &mut idle_at {
            let _ = idle_at.wait_for(|revision| *revision > 0).await;
        }
        Self { idle_at, wake }
    }

    /// Waits until the controllers have processed all previous writes, including their own. Dropping the future has no
    /// effect.
    pub(crate) async fn settle(&self, db: &Db) {
        loop {
            let revision = db.revision();
            self.wake.send_replace(());
            for idle_at in &self.idle_at {
                // `wait_for` returns an error only if the controller has stopped because the server has ended.
                if idle_at.clone().wait_for(|idle_at| *idle_at >= revision).await.is_err() {
                    return;
                }
            }
            if revision == db.revision() {
                return;
            }
        }
    }
}

struct Starting<'a> {
    registry: &'a Arc<Registry>,
    stop: &'a CancellationToken,
    tasks: &'a TaskTracker,
    idle_at: Vec<watch::Receiver<u64>>,
    wake: watch::Sender<()>,
}

impl Starting<'_> {
    fn run(&mut self, controller: impl Controller) -> watch::Receiver<u64> {
        let (sender, idle_at) = watch::channel(0);
        self.registry.health.controller_starts();
        let run = run(controller, self.registry.clone(), self.stop.clone(), sender, self.wake.subscribe());
        self.tasks.spawn(Offload::new(&self.registry.offload_permits, run));
        self.idle_at.push(idle_at.clone());
        idle_at
    }
}

async fn run<C: Controller>(
    mut controller: C,
    registry: Arc<Registry>,
    stop: CancellationToken,
    idle_at: watch::Sender<u64>,
    mut wake: watch::Receiver<()>,
) {
    let _running = registry.health.controller_runs();
    let mut feed = registry.db.follow_all(C::RESOURCES);
    let mut observed = registry.db.revision();
    controller.resync(&registry);
    let (mut due, mut next_work) = (true, None);
    loop {
        if std::mem::take(&mut due) {
            next_work = controller.work(&registry, observed).await;
        }
        if let Some(revision) = registry.db.revision_if_all_read(&feed)
            && !controller.is_busy()
        {
            idle_at.send_replace(revision);
        }
        let sleep = async {
            match next_work {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            next = feed.next() => due |= apply(&mut controller, &registry, next).await,
            () = sleep => due = true,
            () = controller.wait_for_event() => due = true,
            Ok(()) = wake.changed() => (),
        }
        observed = registry.db.revision();
        due |= catch_up(&mut controller, &registry, &mut feed).await;
    }
}

/// Passes all pending changes to the controller. Returns `true` if a call of [`Controller::work`] is required.
async fn catch_up(controller: &mut impl Controller, registry: &Registry, feed: &mut Changes) -> bool {
    let mut due = false;
    while let Some(next) = feed.try_next() {
        due |= apply(controller, registry, next).await;
    }
    due
}

async fn apply(controller: &mut impl Controller, registry: &Registry, next: Result<Arc<Change>, Lagged>) -> bool {
    match next {
        Ok(change) => {
            offload::work_on(change.new.weight()).await;
            controller.observe(&change)
        }
        Err(Lagged) => {
            offload::work_on(offload::ALWAYS).await;
            controller.resync(registry);
            true
        }
    }
}

fn options() -> WriteOptions {
    WriteOptions::default()
}

fn all(registry: &Registry, resource: &str) -> Run {
    registry.db.objects_of(resource, &Range::namespace(None))
}
