//! The locks of the time before leases: the same outcomes, by an annotation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_leaderelect::{
    AnnotationLock, ElectionStatus, LEADER_ANNOTATION, LeaderCallbacks, LeaderElectionConfig, LeaderElector,
    Leadership, Lock,
};
use pintle_meta::{
    ApiError, DeleteOptions, DynamicObject, Object, ObjectApi, ObjectKey, ObjectMeta, Patch, PostOptions, Reason,
    Status,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};

/// A server with one object at most.
#[derive(Clone, Debug, Default)]
struct Objects(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    object: Option<DynamicObject>,
    version: u64,
    verbs: Vec<&'static str>,
}

impl Objects {
    /// One that holds an object with this annotation, if any, and other things beside it.
    fn holding(annotation: Option<&str>) -> Self {
        let mut metadata = ObjectMeta::new("kube-system", "lock");
        metadata.uid = "uid-1".into();
        metadata.annotations.insert("foreign".into(), "note".into());
        metadata.annotations.extend(annotation.map(|text| (LEADER_ANNOTATION.into(), text.into())));
        let mut object = DynamicObject { metadata, ..DynamicObject::default() };
        object.data.insert("data".into(), serde_json::json!({"key": "value"}));
        let server = Self::default();
        server.store(object);
        server
    }

    fn store(&self, mut object: DynamicObject) -> DynamicObject {
        let mut server = self.0.lock().unwrap();
        server.version += 1;
        object.metadata.resource_version = server.version.to_string();
        object.metadata.uid = "uid-1".into();
        server.object.insert(object).clone()
    }

    fn object(&self) -> DynamicObject {
        self.0.lock().unwrap().object.clone().unwrap()
    }

    fn annotation(&self) -> String {
        self.object().metadata.annotations[LEADER_ANNOTATION].clone()
    }

    fn annotate(&self, text: &str) {
        let mut object = self.object();
        object.metadata.annotations.insert(LEADER_ANNOTATION.into(), text.into());
        self.store(object);
    }

    fn note(&self, verb: &'static str) {
        self.0.lock().unwrap().verbs.push(verb);
    }

    fn verbs(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap().verbs)
    }
}

fn failure(code: u16, reason: Reason) -> ApiError {
    Status::failure(code, reason, "").into()
}

impl ObjectApi<DynamicObject> for Objects {
    async fn get(&self, _: &ObjectKey) -> Result<DynamicObject, ApiError> {
        self.note("get");
        self.0.lock().unwrap().object.clone().ok_or_else(|| failure(404, Reason::NotFound))
    }

    async fn create(&self, object: &DynamicObject, _: &PostOptions) -> Result<DynamicObject, ApiError> {
        self.note("create");
        Ok(self.store(object.clone()))
    }

    async fn update(&self, object: &DynamicObject, _: &PostOptions) -> Result<DynamicObject, ApiError> {
        self.note("update");
        match self.object().resource_version() == object.resource_version() {
            true => Ok(self.store(object.clone())),
            false => Err(failure(409, Reason::Conflict)),
        }
    }

    async fn update_status(&self, _: &DynamicObject, _: &PostOptions) -> Result<DynamicObject, ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }

    async fn patch(&self, _: &ObjectKey, _: &Patch, _: &PostOptions) -> Result<DynamicObject, ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }

    async fn delete(&self, _: &ObjectKey, _: &DeleteOptions) -> Result<(), ApiError> {
        Err(failure(405, Reason::MethodNotAllowed))
    }
}

struct Contender {
    status: ElectionStatus,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

fn contend(lock: AnnotationLock<Objects>) -> Contender {
    let seconds = Duration::from_secs;
    let mut config = LeaderElectionConfig::new("baz").with_durations(seconds(10), seconds(8), seconds(2));
    config.seed = Some(7);
    let mut elector = LeaderElector::new(lock, config).unwrap().with_clock(TestClock::new());
    let (status, stop) = (elector.status(), CancellationToken::new());
    let run = tokio::spawn({
        let stop = stop.clone();
        let callbacks = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        async move { drop(elector.run(&stop, callbacks).await) }
    });
    Contender { status, stop, run }
}

fn locks(server: &Objects) -> [AnnotationLock<Objects>; 2] {
    let (namespace, name) = ("kube-system", "lock");
    [
        AnnotationLock::config_map(server.clone(), namespace, name),
        AnnotationLock::endpoints(server.clone(), namespace, name),
    ]
}

const BING: &str = r#"{"holderIdentity":"bing","leaseDurationSeconds":3,"leaderTransitions":4}"#;

/// Both kinds of lock meet what is given; after a while, these requests were made, and so often the holder has changed.
async fn check(annotation: Option<Option<&str>>, wait: f64, verbs: &[&str], transitions: i32) {
    for kind in 0..2 {
        let server = annotation.map_or_else(Objects::default, Objects::holding);
        let [config_map, endpoints] = locks(&server);
        let elector = contend(if kind == 0 { config_map } else { endpoints });
        pass(wait).await;
        assert_eq!(server.verbs(), verbs, "{annotation:?}");
        assert!(elector.status.is_leader());
        assert!(
            server.annotation().contains(&format!("\"leaderTransitions\":{transitions}}}")),
            "{}",
            server.annotation()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_outcomes_are_those_of_a_lease() {
    check(None, 0.1, &["get", "create"], 0).await;
    check(Some(None), 0.1, &["get", "update"], 1).await;
    check(Some(Some(r#"{"holderIdentity":"","leaderTransitions":4}"#)), 0.1, &["get", "update"], 5).await;
    check(Some(Some(BING)), 3.5, &["get", "get", "update"], 5).await;
    check(None, 7.0, &["get", "create", "update", "update", "update"], 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_record_is_written_as_client_go_writes_it_and_all_else_is_kept() {
    let server = Objects::holding(None);
    let [lock, _] = locks(&server);
    let elector = contend(lock);
    pass(2.5).await;
    let expected = r#"{"holderIdentity":"baz","leaseDurationSeconds":10,"acquireTime":"2027-01-15T08:00:00Z","renewTime":"2027-01-15T08:00:02Z","leaderTransitions":1}"#;
    assert_eq!(server.annotation(), expected);
    elector.stop.cancel();
    elector.run.await.unwrap();
    let released = r#"{"holderIdentity":"","leaseDurationSeconds":1,"acquireTime":"2027-01-15T08:00:02Z","renewTime":"2027-01-15T08:00:02Z","leaderTransitions":1}"#;
    assert_eq!(server.annotation(), released);
    let object = server.object();
    assert_eq!(object.metadata.annotations["foreign"], "note");
    assert_eq!(object.data["data"]["key"], "value");
}

#[tokio::test(start_paused = true)]
async fn a_term_outlives_many_renewals_and_lost_races() {
    let server = Objects::default();
    let [_, lock] = locks(&server);
    let elector = contend(lock);
    for _ in 0..30 {
        pass(1.7).await;
        let object = server.object();
        server.store(object);
    }
    assert_eq!((elector.status.is_leader(), elector.status.metrics().terms), (true, 1));
}

#[tokio::test]
async fn a_record_is_read_as_others_have_written_it() {
    for (text, holder, renewed) in [
        (r#"{"holderIdentity":"a","renewTime":"2016-01-02T03:04:05.123456789Z"}"#, "a", Some(1_451_703_845)),
        (r#"{"holderIdentity":"a","renewTime":"2016-01-02T04:04:05+01:00"}"#, "a", Some(1_451_703_845)),
        (r#"{"holderIdentity":"a","renewTime":null,"holderKey":"istio"}"#, "a", None),
        (r#"{"holderIdentity":null,"leaseDurationSeconds":null,"leaderTransitions":null}"#, "", None),
        ("{}", "", None),
    ] {
        let [lock, _] = locks(&Objects::holding(Some(text)));
        let record = lock.get().await.unwrap().unwrap().snapshot.record;
        assert_eq!(record.holder_identity, holder, "{text}");
        assert_eq!(record.renew_time.map(|time| time.0.as_second()), renewed, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_record_keeps_everybody_out_until_it_is_mended() {
    let server = Objects::holding(Some("not JSON"));
    let [lock, other] = locks(&server);
    let error = other.get().await.unwrap_err().to_string();
    assert!(error.contains("Endpoints kube-system/lock") && error.contains(LEADER_ANNOTATION), "{error}");
    let elector = contend(lock);
    pass(60.0).await;
    assert!(!elector.status.is_leader() && !server.verbs().contains(&"update"));
    server.annotate("{}");
    pass(5.0).await;
    assert!(elector.status.is_leader());
}
