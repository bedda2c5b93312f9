//! What a cluster's controllers do that clients take for part of the API: custom resource definitions come into force, deleted
//! namespaces and definitions are emptied, dependents follow their owners, and cluster roles are aggregated. And what the API server itself looks after: the
//! Service `kubernetes`.
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

use crate::api::Api;
use crate::db::AllChanges;
use crate::request::options::WriteOptions;
use crate::server::Controllers;
use crate::store::{Change, Stored};

/// Runs the controllers of a server that listens on `address` until `stop`. `quiet` is told each revision up to which nothing is
/// left to do.
pub(crate) async fn run(api: Arc<Api>, address: SocketAddr, stop: CancellationToken, quiet: watch::Sender<u64>) {
    let _running = api.health.controllers_run();
    let mut feed = api.db.follow_all();
    let mut controllers = All::new(address);
    controllers.look_anew(&api);
    loop {
        let wake = controllers.work(&api).await;
        api.health.controllers_have_looked();
        if let Some(revision) = api.db.revision_if_all_read(&feed)
            && !(api.config.controllers.namespaces && controllers.is_busy())
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
                Err(RecvError::Lagged(_)) => controllers.look_anew(&api),
                Err(RecvError::Closed) => return,
            },
            () = sleep => (),
        }
        controllers.catch_up(&api, &mut feed);
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
    fn catch_up(&mut self, api: &Api, feed: &mut AllChanges) {
        loop {
            match feed.try_recv() {
                Ok(change) => self.observe(&change),
                Err(TryRecvError::Lagged(_)) => self.look_anew(api),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn look_anew(&mut self, api: &Api) {
        self.definitions.look_anew();
        self.kubernetes.look_anew();
        self.namespaces.look_anew(api);
        self.garbage.look_anew(api);
        self.roles.look_anew();
    }

    /// Does what is due; answers when the next is.
    async fn work(&mut self, api: &Arc<Api>) -> Option<Instant> {
        let later = self.definitions.work(api).await;
        self.kubernetes.work(api);
        let Controllers { garbage, namespaces, roles } = api.config.controllers;
        if roles {
            self.roles.work(api);
        }
        let collected = if garbage { self.garbage.work(api).await } else { None };
        let cleaned = if namespaces { self.namespaces.work(api).await } else { None };
        later.into_iter().chain(collected).chain(cleaned).min()
    }
}

/// The options of the controllers' own writes.
fn options() -> WriteOptions {
    WriteOptions::default()
}

/// The objects of one resource, all namespaces together.
fn all(api: &Api, resource: &str) -> Vec<Arc<Stored>> {
    let range = crate::store::Range::namespace(None);
    api.db.read(|store| store.range(resource, &range).map(|(_, stored)| stored.clone()).collect())
}
