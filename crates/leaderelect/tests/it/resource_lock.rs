//! Tests that each kind of `ResourceLock` stores its record in the same objects as client-go.

use std::sync::{Arc, Mutex};

use pintle_leaderelect::{
    LEADER_ANNOTATION, LeaderCallbacks, LeaderElectionConfig, LeaderElector, LeaderEvent, Leadership, Lease, LockKind,
    Observers, ResourceLock,
};
use pintle_meta::{DynamicObject, Object};
use pintle_metrics::{InMemoryProvider, Provider};
use pintle_testing::{Client, Collection, CollectionConfig};
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};
use crate::server::key;

struct Server {
    annotated: Option<Collection<DynamicObject>>,
    leases: Collection<Lease>,
}

fn lock(kind: LockKind) -> (ResourceLock<Client<DynamicObject>, Client<Lease>>, Server) {
    let mut annotated = None;
    let leases = Collection::default();
    let api = |resource| {
        let objects = Collection::dynamic(resource, CollectionConfig::default());
        annotated.insert(objects).client("baz")
    };
    let lock = ResourceLock::new(kind, "kube-system", "lock", api, leases.client("baz"));
    (lock, Server { annotated, leases })
}

impl Server {
    fn holders(&self) -> (Option<String>, Option<String>) {
        let object = self.annotated.as_ref().and_then(|objects| objects.object(&key()));
        let holder = |object: DynamicObject| {
            let record: serde_json::Value =
                serde_json::from_str(&object.metadata.annotations[LEADER_ANNOTATION]).unwrap();
            record["holderIdentity"].as_str().unwrap().to_owned()
        };
        let lease = self.leases.object(&key()).map(|lease| lease.spec.record().holder_identity);
        (object.map(holder), lease)
    }
}

#[tokio::test(start_paused = true)]
async fn each_lock_kind_uses_its_own_resource() {
    let rows = [
        ("leases", None, true),
        ("configmaps", Some("ConfigMap"), false),
        ("endpoints", Some("Endpoints"), false),
        ("configmapsleases", Some("ConfigMap"), true),
        ("endpointsleases", Some("Endpoints"), true),
    ];
    for (name, annotated, in_lease) in rows {
        let kind: LockKind = name.parse().unwrap();
        assert_eq!(kind.to_string(), name);
        let (lock, server) = lock(kind);
        let config = LeaderElectionConfig { identity: "baz".into(), clocks: TestClock::new(), ..Default::default() };
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let (status, stop) = (elector.status(), CancellationToken::new());
        let run = tokio::spawn({
            let stop = stop.clone();
            let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
            async move { drop(elector.run(&stop, work).await) }
        });
        // Wait for several renewals, each of which replaces the object that was read before.
        pass(15.0).await;
        assert!(status.is_leader(), "{name}");
        let baz = |there: bool| there.then(|| "baz".to_owned());
        assert_eq!(server.holders(), (baz(annotated.is_some()), baz(in_lease)), "{name}");
        let kinds = server.annotated.as_ref().map(|objects| objects.object(&key()).unwrap().types.kind);
        assert_eq!(kinds.as_deref(), annotated, "{name}");
        let token = status.leadership().unwrap().token().unwrap().uid.clone();
        let lease = server.leases.object(&key()).map(|lease| lease.uid().to_owned());
        assert!(lease.is_none_or(|uid| uid == token), "{name}: the token is the token of the lease");
        stop.cancel();
        run.await.unwrap();
        let free = |there: bool| there.then(String::new);
        assert_eq!(server.holders(), (free(annotated.is_some()), free(in_lease)), "{name}");
    }
}

#[test]
fn unknown_kind_error_lists_the_known_kinds() {
    for name in ["", "lease", "Leases", "multi", "configmaps,leases"] {
        let error = name.parse::<LockKind>().unwrap_err();
        assert_eq!(error.name, name);
        for kind in ["leases", "configmaps", "endpoints", "configmapsleases", "endpointsleases"] {
            assert!(error.to_string().contains(kind), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lock_observers_apply_unless_the_config_overrides_them() {
    for (name, kind) in [
        ("leases", "Lease"),
        ("configmaps", "ConfigMap"),
        ("endpoints", "Endpoints"),
        ("configmapsleases", "ConfigMap"),
        ("endpointsleases", "Endpoints"),
    ] {
        for has_own in [false, true] {
            let reported = Arc::new(Mutex::new(Vec::new()));
            let record = {
                let reported = reported.clone();
                move |event: &LeaderEvent| reported.lock().unwrap().push(format!("{} {event}", event.resource.kind))
            };
            let (of_lock, own) = (InMemoryProvider::new(), InMemoryProvider::new());
            let observers = Observers { metrics: Some(Arc::new(of_lock.clone())), events: Some(Arc::new(record)) };
            let (lock, _server) = lock(name.parse().unwrap());
            let config = LeaderElectionConfig {
                identity: "baz".into(),
                clocks: TestClock::new(),
                metrics: has_own.then(|| Arc::new(own.clone()) as Arc<dyn Provider>),
                events: has_own.then(|| Arc::new(|_: &LeaderEvent| ()) as Arc<dyn Fn(&LeaderEvent) + Send + Sync>),
                ..LeaderElectionConfig::default()
            };
            let mut elector = LeaderElector::new(lock.observed_by(observers), config).unwrap();
            let work = LeaderCallbacks::new(async |_: Leadership| {});
            assert!(elector.run(&CancellationToken::new(), work).await.is_some());
            let terms = |memory: &InMemoryProvider| memory.value("leader_election_terms_total", &[("name", "lock")]);
            let expected = if has_own { (None, Some(1.0)) } else { (Some(1.0), None) };
            assert_eq!((terms(&of_lock), terms(&own)), expected, "{name}");
            let events = [format!("{kind} baz became leader"), format!("{kind} baz stopped leading")];
            assert_eq!(*reported.lock().unwrap(), if has_own { &[][..] } else { &events }, "{name}");
        }
    }
}

#[test]
fn only_a_single_lease_can_be_coordinated() {
    for (name, refused) in [
        ("leases", None),
        ("configmaps", Some("ConfigMap")),
        ("endpoints", Some("Endpoints")),
        ("configmapsleases", Some("ConfigMap")),
        ("endpointsleases", Some("Endpoints")),
    ] {
        let (lock, _server) = lock(name.parse().unwrap());
        let config = LeaderElectionConfig { coordinated: true, ..LeaderElectionConfig::default() };
        let error = LeaderElector::new(lock, config).err().map(|error| error.to_string());
        let expected = refused.map(|kind| {
            format!(
                "coordinated requires a Lease as the lock, but {kind} kube-system/lock is not one: use leases, or set \
                 coordinated to false"
            )
        });
        assert_eq!(error, expected, "{name}");
    }
}
