//! Leases on an in-memory server that checks the electors' requests.

use pintle_leaderelect::{LeaderElectionRecord, Lease};
use pintle_meta::{ObjectKey, ObjectMeta};
use pintle_testing::{Call, Collection, RecordedRequest};

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "lock";

pub(crate) fn key() -> ObjectKey {
    ObjectKey::new(NAMESPACE, NAME)
}

pub(crate) fn server() -> Collection<Lease> {
    let server = Collection::default();
    server.faults().when(|request| {
        check(request);
        None
    });
    server
}

fn check(request: &RecordedRequest) {
    match &request.call {
        Call::Get { .. } | Call::Create { .. } => {}
        Call::Update { object, .. } => {
            let has = |field: &str| object["metadata"][field].as_str().is_some_and(|text| !text.is_empty());
            assert!(has("uid") && has("resourceVersion"), "S5: a blind PUT");
        }
        Call::Watch { options } => assert_eq!(options.field_selector.exact("metadata.name"), Some(NAME)),
        other => panic!("an elector sends {other}"),
    }
}

pub(crate) fn take_log(server: &Collection<Lease>) -> Vec<RecordedRequest> {
    let log = server.take_requests();
    log.iter().for_each(check);
    log
}

/// Returns the verbs of all requests since the last call, such as `get` and `update`.
pub(crate) fn take_verbs(server: &Collection<Lease>) -> Vec<String> {
    take_log(server).iter().map(|request| format!("{:?}", request.verb()).to_lowercase()).collect()
}

pub(crate) fn lease(server: &Collection<Lease>) -> Option<Lease> {
    server.object(&key())
}

pub(crate) fn record(server: &Collection<Lease>) -> LeaderElectionRecord {
    lease(server).expect("no lease").spec.record()
}

pub(crate) fn holder(server: &Collection<Lease>) -> String {
    lease(server).map_or("(none)".into(), |lease| lease.spec.record().holder_identity)
}

pub(crate) fn put(server: &Collection<Lease>, record: &LeaderElectionRecord) {
    let mut lease = lease(server).unwrap_or_else(|| Lease::new(ObjectMeta::new(NAMESPACE, NAME), record));
    lease.spec.put(record);
    server.put(lease);
}

pub(crate) fn delete(server: &Collection<Lease>) {
    assert!(server.remove(&key()));
}
