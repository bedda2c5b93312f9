//! The checks of the health endpoints, with kube-apiserver's names and order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_meta::__private::Mutex;

use crate::db::Db;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/healthz` and `/livez`, which report whether the server process works.
    Alive,
    /// `/readyz`, which reports whether the server accepts requests.
    Ready,
}

#[derive(Clone, Copy, Debug)]
enum CheckKind {
    Process,
    Store,
    /// Passes if all background controllers are running. The check need not wait for the controllers to start, because
    /// the server responds only after they have processed all existing objects.
    Controllers,
}

/// The name and the condition of each health check. If only one endpoint runs the check, the entry contains this
/// endpoint. The checks of some post-start hooks pass as soon as the server responds, because these hooks complete
/// before the server listens.
const CHECKS: &[(&str, Option<Endpoint>, CheckKind)] = &[
    ("ping", None, CheckKind::Process),
    ("log", None, CheckKind::Process),
    ("loopback-serving-certificate", Some(Endpoint::Alive), CheckKind::Process),
    ("etcd", None, CheckKind::Store),
    ("etcd-readiness", Some(Endpoint::Ready), CheckKind::Store),
    ("informer-sync", Some(Endpoint::Ready), CheckKind::Controllers),
    ("poststarthook/start-apiserver-admission-initializer", None, CheckKind::Process),
    ("poststarthook/generic-apiserver-start-informers", None, CheckKind::Process),
    ("poststarthook/priority-and-fairness-config-consumer", None, CheckKind::Controllers),
    ("poststarthook/priority-and-fairness-filter", None, CheckKind::Process),
    ("poststarthook/storage-object-count-tracker-hook", None, CheckKind::Process),
    ("poststarthook/start-apiextensions-informers", None, CheckKind::Process),
    ("poststarthook/start-apiextensions-controllers", None, CheckKind::Controllers),
    ("poststarthook/crd-informer-synced", None, CheckKind::Controllers),
    ("poststarthook/start-system-namespaces-controller", None, CheckKind::Process),
    ("poststarthook/peer-endpoint-reconciler-controller", None, CheckKind::Process),
    ("poststarthook/start-cluster-authentication-info-controller", None, CheckKind::Process),
    ("poststarthook/start-kube-apiserver-identity-lease-controller", None, CheckKind::Process),
    ("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", None, CheckKind::Process),
    ("poststarthook/storage-readiness", None, CheckKind::Store),
    ("poststarthook/start-legacy-token-tracking-controller", None, CheckKind::Process),
    ("poststarthook/start-service-ip-repair-controllers", None, CheckKind::Process),
    ("poststarthook/rbac/bootstrap-roles", None, CheckKind::Process),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", None, CheckKind::Process),
    ("poststarthook/priority-and-fairness-config-producer", None, CheckKind::Process),
    ("poststarthook/bootstrap-controller", None, CheckKind::Controllers),
    ("poststarthook/start-kubernetes-service-cidr-controller", None, CheckKind::Process),
    ("poststarthook/start-kube-aggregator-informers", None, CheckKind::Process),
    ("poststarthook/apiservice-status-local-available-controller", None, CheckKind::Controllers),
    ("poststarthook/apiservice-status-remote-available-controller", None, CheckKind::Controllers),
    ("poststarthook/apiservice-registration-controller", None, CheckKind::Controllers),
    ("poststarthook/apiservice-discovery-controller", None, CheckKind::Process),
    ("poststarthook/kube-apiserver-autoregistration", None, CheckKind::Process),
    ("autoregister-completion", None, CheckKind::Process),
    ("poststarthook/apiservice-openapi-controller", None, CheckKind::Process),
    ("poststarthook/apiservice-openapiv3-controller", None, CheckKind::Process),
    ("shutdown", Some(Endpoint::Ready), CheckKind::Process),
];

#[derive(Debug, Default)]
pub struct Health {
    controllers: AtomicUsize,
    running: AtomicUsize,
    failing: Mutex<BTreeSet<String>>,
}

impl Health {
    /// Returns the names and results of an endpoint's checks.
    pub fn check_all(&self, endpoint: Endpoint, db: &Db) -> impl Iterator<Item = (&'static str, bool)> {
        let failing = self.failing.lock().clone();
        let controllers = self.controllers.load(Ordering::Relaxed) == self.running.load(Ordering::Relaxed);
        // If another thread holds the store's lock indefinitely, this read blocks, so the health request times out.
        let store = db.read(|store| store.revision()) > 0;
        let of_endpoint = CHECKS.iter().filter(move |(_, only, _)| only.is_none_or(|only| only == endpoint));
        of_endpoint.map(move |(name, _, kind)| {
            let is_ok = match kind {
                CheckKind::Process => true,
                CheckKind::Store => store,
                CheckKind::Controllers => controllers,
            };
            (*name, is_ok && !failing.contains(*name))
        })
    }

    pub fn controller_starts(&self) {
        self.controllers.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports a controller as running until the returned guard is dropped.
    pub fn controller_runs(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }

    /// Makes the health check `check` fail, or return its normal result again if `fails` is `false`.
    pub fn fail(&self, check: &str, fails: bool) {
        let mut failing = self.failing.lock();
        if fails {
            failing.insert(check.to_owned());
        } else {
            failing.remove(check);
        }
    }
}

/// A guard for a running controller.
#[derive(Debug)]
pub struct Running<'a>(&'a Health);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
