//! What a cluster's controllers do that clients take for part of the API: custom resource definitions come into force, deleted
//! namespaces and definitions are emptied, dependents follow their owners, and cluster roles are aggregated. And what the API server
//! itself looks after: the Service `kubernetes`.
//!
//! One task runs them all. It is told of every change, lets each controller note what to do, and then does it through the same
//! functions that requests use. A controller that lagged too far behind looks at everything anew.

mod definitions;
mod garbage;
mod kubernetes;
mod namespaces;
mod roles;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use kubernetes::put_right as put_kubernetes_right;

use crate::config::Controllers;
use crate::registry::Registry;
use crate::request::options::WriteOptions;
use crate::store::{AllChanges, Change, Range, Run};

/// Runs the controllers of a server that listens on `address` until `stop`. `quiet` is told each revision up to which nothing is
/// left to do.
pub(crate) async fn run(
    registry: Arc<Registry>,
    address: SocketAddr,
    stop: CancellationToken,
    quiet: watch::Sender<u64>,
) {
    let _running = registry.health.controllers_run();
    let mut feed = registry.db.follow_all();
    let mut controllers = All::new(address);
    controllers.look_anew(&registry);
    loop {
        let wake = controllers.work(&registry).await;
        registry.health.controllers_have_looked();
        if let Some(revision) = registry.db.revision_if_all_read(&feed)
            && !(registry.config.controllers.namespaces && controllers.is_busy())
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
            change = feed.recv() => match change {
                Ok(change) => controllers.observe(&change),
                Err(RecvError::Lagged(_)) => controllers.look_anew(&registry),
                Err(RecvError::Closed) => return,
            },
            () = sleep => (),
        }
        controllers.catch_up(&registry, &mut feed);
    }
}

#[derive(Debug)]
struct All {
    definitions: definitions::Definitions,
    garbage: garbage::Collector,
    kubernetes: kubernetes::Kubernetes,
    namespaces: namespaces::Cleaner,
    roles: roles::Aggregator,
}

impl All {
    fn new(address: SocketAddr) -> Self {
        Self {
            definitions: definitions::Definitions::default(),
            garbage: garbage::Collector::default(),
            kubernetes: kubernetes::Kubernetes::new(address),
            namespaces: namespaces::Cleaner::default(),
            roles: roles::Aggregator::default(),
        }
    }

    fn observe(&mut self, change: &Change) {
        self.definitions.observe(change);
        self.kubernetes.observe(change);
        self.garbage.observe(change);
        self.namespaces.observe(change);
        self.roles.observe(change);
    }

    /// Whether something is due that has not been tried yet.
    fn is_busy(&self) -> bool {
        self.namespaces.is_busy()
    }

    /// Takes the changes that have come meanwhile.
    fn catch_up(&mut self, registry: &Registry, feed: &mut AllChanges) {
        loop {
            match feed.try_recv() {
                Ok(change) => self.observe(&change),
                Err(TryRecvError::Lagged(_)) => self.look_anew(registry),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn look_anew(&mut self, registry: &Registry) {
        self.definitions.look_anew();
        self.kubernetes.look_anew();
        self.namespaces.look_anew(registry);
        self.garbage.look_anew(registry);
        self.roles.look_anew();
    }

    /// Does what is due; answers when the next is.
    async fn work(&mut self, registry: &Arc<Registry>) -> Option<Instant> {
        let later = self.definitions.work(registry).await;
        self.kubernetes.work(registry);
        let Controllers { garbage, namespaces, roles } = registry.config.controllers;
        if roles {
            self.roles.work(registry);
        }
        let collected = if garbage { self.garbage.work(registry).await } else { None };
        let cleaned = if namespaces { self.namespaces.work(registry).await } else { None };
        later.into_iter().chain(collected).chain(cleaned).min()
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
