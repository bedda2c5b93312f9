//! What the health endpoints ask: one check after the other, in the order and under the names of a real server.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::store::Db;

/// An endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/healthz` and `/livez`: whether the process does what it should.
    Alive,
    /// `/readyz`: whether to send requests here.
    Ready,
}

/// What a check looks at.
#[derive(Clone, Copy, Debug)]
enum Looks {
    /// It answers: that is all.
    Answers,
    /// The store can be read.
    Store,
    /// The background controllers run. The server answers once they have looked at all that is there.
    Controllers,
}

/// Name, endpoint if it is of one alone, and what it looks at. What is made before the server listens is well once it answers.
const CHECKS: &[(&str, Option<Endpoint>, Looks)] = &[
    ("ping", None, Looks::Answers),
    ("log", None, Looks::Answers),
    ("loopback-serving-certificate", Some(Endpoint::Alive), Looks::Answers),
    ("etcd", None, Looks::Store),
    ("etcd-readiness", Some(Endpoint::Ready), Looks::Store),
    ("informer-sync", Some(Endpoint::Ready), Looks::Controllers),
    ("poststarthook/start-apiserver-admission-initializer", None, Looks::Answers),
    ("poststarthook/generic-apiserver-start-informers", None, Looks::Answers),
    ("poststarthook/priority-and-fairness-config-consumer", None, Looks::Controllers),
    ("poststarthook/priority-and-fairness-filter", None, Looks::Answers),
    ("poststarthook/storage-object-count-tracker-hook", None, Looks::Answers),
    ("poststarthook/start-apiextensions-informers", None, Looks::Answers),
    ("poststarthook/start-apiextensions-controllers", None, Looks::Controllers),
    ("poststarthook/crd-informer-synced", None, Looks::Controllers),
    ("poststarthook/start-system-namespaces-controller", None, Looks::Answers),
    ("poststarthook/peer-endpoint-reconciler-controller", None, Looks::Answers),
    ("poststarthook/start-cluster-authentication-info-controller", None, Looks::Answers),
    ("poststarthook/start-kube-apiserver-identity-lease-controller", None, Looks::Answers),
    ("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", None, Looks::Answers),
    ("poststarthook/storage-readiness", None, Looks::Store),
    ("poststarthook/start-legacy-token-tracking-controller", None, Looks::Answers),
    ("poststarthook/start-service-ip-repair-controllers", None, Looks::Answers),
    ("poststarthook/rbac/bootstrap-roles", None, Looks::Answers),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", None, Looks::Answers),
    ("poststarthook/priority-and-fairness-config-producer", None, Looks::Answers),
    ("poststarthook/bootstrap-controller", None, Looks::Controllers),
    ("poststarthook/start-kubernetes-service-cidr-controller", None, Looks::Answers),
    ("poststarthook/start-kube-aggregator-informers", None, Looks::Answers),
    ("poststarthook/apiservice-status-local-available-controller", None, Looks::Controllers),
    ("poststarthook/apiservice-status-remote-available-controller", None, Looks::Controllers),
    ("poststarthook/apiservice-registration-controller", None, Looks::Controllers),
    ("poststarthook/apiservice-discovery-controller", None, Looks::Answers),
    ("poststarthook/kube-apiserver-autoregistration", None, Looks::Answers),
    ("autoregister-completion", None, Looks::Answers),
    ("poststarthook/apiservice-openapi-controller", None, Looks::Answers),
    ("poststarthook/apiservice-openapiv3-controller", None, Looks::Answers),
    ("shutdown", Some(Endpoint::Ready), Looks::Answers),
];

/// How a server is.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// So many controllers were started.
    controllers: AtomicUsize,
    /// So many of them run.
    running: AtomicUsize,
    /// Checks that a test wants to fail.
    failing: Mutex<BTreeSet<String>>,
}

impl Health {
    /// What came of each check of the endpoint.
    pub(crate) fn look(&self, endpoint: Endpoint, db: &Db) -> impl Iterator<Item = (&'static str, bool)> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let controllers = self.controllers.load(Ordering::Relaxed) == self.running.load(Ordering::Relaxed);
        // Whoever holds the store keeps this from answering, and there is an answer to that in time.
        let store = db.read(|store| store.revision()) > 0;
        let of_endpoint = CHECKS.iter().filter(move |(_, only, _)| only.is_none_or(|only| only == endpoint));
        of_endpoint.map(move |(name, _, looks)| {
            let well = match looks {
                Looks::Answers => true,
                Looks::Store => store,
                Looks::Controllers => controllers,
            };
            (*name, well && !failing.contains(*name))
        })
    }

    /// One more controller is to run.
    pub(crate) fn controller_starts(&self) {
        self.controllers.fetch_add(1, Ordering::Relaxed);
    }

    /// A controller runs for as long as what this answers is there.
    pub(crate) fn controller_runs(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }

    /// Has a check fail from now on, or be what it is.
    pub(crate) fn fail(&self, check: &str, fails: bool) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if fails {
            failing.insert(check.to_owned());
        } else {
            failing.remove(check);
        }
    }
}

/// A controller runs.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Health);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
