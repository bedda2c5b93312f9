//! What a cluster's controllers do that clients take for part of the API: custom resource definitions come into force, deleted
//! namespaces and definitions are emptied, dependents follow their owners, and cluster roles are aggregated. And what the API server
//! itself looks after: the Service `kubernetes`, APIServices, the status of FlowSchemas, and events that have had their time.
//!
//! Each is a task of its own, so that one that empties a namespace of 100,000 objects keeps no definition from coming into force. It is
//! told of every change that may concern it, notes what to do, and then does it through the same functions that requests use. One that
//! lagged too far behind looks at everything anew.

mod api_services;
mod definitions;
mod events;
mod flows;
mod garbage;
mod kubernetes;
mod namespaces;
mod roles;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use kubernetes::put_right as put_kubernetes_right;

use crate::offload::{self, Offload};
use crate::registry::Registry;
use crate::request::options::WriteOptions;
use crate::store::{Change, Changes, Db, Lagged, Range, Run};

/// What looks after something.
trait Controller: Send + 'static {
    /// The resources whose changes it is told. None: all.
    const OF: Option<&'static [&'static str]>;

    /// Notes what follows from a change; answers whether it may be anything.
    fn observe(&mut self, _: &Change) -> bool {
        true
    }

    /// Notes what follows from all that is there.
    fn look_anew(&mut self, _: &Registry) {}

    /// Does what is due, having been told of all changes up to that revision, and maybe of later ones. Answers when to be asked again,
    /// if there is no change before that.
    fn work(&mut self, registry: &Arc<Registry>, told: u64) -> impl Future<Output = Option<Instant>> + Send;

    /// Whether something is due that has not been tried yet.
    fn is_busy(&self) -> bool {
        false
    }
}

/// The controllers of a server.
#[derive(Debug)]
pub(crate) struct Background {
    /// Up to which revision each has nothing left to do, as it was when it last looked.
    quiet: Vec<watch::Receiver<u64>>,
    /// Has each look.
    asked: watch::Sender<()>,
}

impl Background {
    /// Runs the controllers of a server that listens on `address` until `stop`. When this returns, each has looked at all there is, or
    /// has ended, which the health endpoints tell.
    pub(crate) async fn start(
        registry: &Arc<Registry>,
        address: SocketAddr,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let wanted = registry.config.controllers;
        let mut started = Starting { registry, stop, tasks, quiet: Vec::new(), asked: watch::Sender::new(()) };
        started.run(definitions::Definitions::default());
        started.run(api_services::ApiServices::default());
        started.run(kubernetes::Kubernetes { address });
        started.run(events::Expiry::default());
        started.run(flows::Flows::default());
        if wanted.roles {
            started.run(roles::Aggregator);
        }
        if wanted.garbage {
            started.run(garbage::Collector::default());
        }
        if wanted.namespaces {
            started.run(namespaces::Cleaner::default());
        }
        let Starting { mut quiet, asked, .. } = started;
        for quiet in &mut quiet {
            let _ = quiet.wait_for(|revision| *revision > 0).await;
        }
        Self { quiet, asked }
    }

    /// Waits until the controllers have done all that follows from the writes so far, their own among them. Dropping it has no effect.
    pub(crate) async fn settle(&self, db: &Db) {
        loop {
            let revision = db.revision();
            self.asked.send_replace(());
            for quiet in &self.quiet {
                // It fails only where the server ends, and nothing will follow any more.
                if quiet.clone().wait_for(|quiet| *quiet >= revision).await.is_err() {
                    return;
                }
            }
            if revision == db.revision() {
                return;
            }
        }
    }
}

/// The controllers that have been started.
struct Starting<'a> {
    registry: &'a Arc<Registry>,
    stop: &'a CancellationToken,
    tasks: &'a TaskTracker,
    quiet: Vec<watch::Receiver<u64>>,
    asked: watch::Sender<()>,
}

impl Starting<'_> {
    fn run(&mut self, controller: impl Controller) {
        let (told, quiet) = watch::channel(0);
        self.registry.health.controller_starts();
        let run = run(controller, self.registry.clone(), self.stop.clone(), told, self.asked.subscribe());
        self.tasks.spawn(Offload::new(&self.registry.offload_permits, run));
        self.quiet.push(quiet);
    }
}

async fn run<C: Controller>(
    mut controller: C,
    registry: Arc<Registry>,
    stop: CancellationToken,
    quiet: watch::Sender<u64>,
    mut asked: watch::Receiver<()>,
) {
    let _running = registry.health.controller_runs();
    let mut feed = registry.db.follow_all(C::OF);
    let mut told = registry.db.revision();
    controller.look_anew(&registry);
    let (mut due, mut wake) = (true, None);
    loop {
        if std::mem::take(&mut due) {
            wake = controller.work(&registry, told).await;
        }
        if let Some(revision) = registry.db.revision_if_all_read(&feed)
            && !controller.is_busy()
        {
            quiet.send_replace(revision);
        }
        let sleep = async {
            match wake {
                Some(wake) => tokio::time::sleep_until(wake).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            next = feed.next() => due |= take_up(&mut controller, &registry, next).await,
            () = sleep => due = true,
            Ok(()) = asked.changed() => (),
        }
        told = registry.db.revision();
        due |= catch_up(&mut controller, &registry, &mut feed).await;
    }
}

/// Takes the changes that have come meanwhile; answers whether anything may follow from them.
async fn catch_up(controller: &mut impl Controller, registry: &Registry, feed: &mut Changes) -> bool {
    let mut due = false;
    while let Some(next) = feed.try_next() {
        due |= take_up(controller, registry, next).await;
    }
    due
}

async fn take_up(controller: &mut impl Controller, registry: &Registry, next: Result<Arc<Change>, Lagged>) -> bool {
    match next {
        Ok(change) => {
            offload::work_on(change.new.weight()).await;
            controller.observe(&change)
        }
        Err(Lagged) => {
            controller.look_anew(registry);
            true
        }
    }
}

/// The options of the controllers' own writes.
fn options() -> WriteOptions {
    WriteOptions::default()
}

/// The objects of one resource as they are now, all namespaces together.
fn all(registry: &Registry, resource: &str) -> Run {
    registry.db.objects_of(resource, &Range::namespace(None))
}
