//! Tests of evictions, scales, restarts, cordons and tokens.

use std::time::Duration;

use pintle_meta::{
    ApiResource, DeleteOptions, DynamicObject, ErrorKind, Patch, Preconditions, Reason, Scope, Time, WriteOptions,
};
use pintle_restreq::{Api, BoundObjectReference, EvictionOutcome, TokenRequest};
use serde_json::{Value, json};

use crate::support::{Reply, Server, soon};

fn api(server: &Server, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let scope = if plural == "nodes" { Scope::Cluster } else { Scope::Namespaced };
    let namespace = (scope == Scope::Namespaced).then_some("ns");
    Api::dynamic(server.client(), ApiResource::new(api_version, kind, plural, scope), namespace).unwrap()
}

fn pods(server: &Server) -> Api<DynamicObject> {
    api(server, "v1", "Pod", "pods")
}

fn last(server: &Server) -> (String, Value) {
    let seen = server.seen().pop().unwrap();
    (format!("{} {}", seen.method, seen.uri), serde_json::from_slice(&seen.body).unwrap())
}

#[tokio::test]
async fn eviction_sends_the_delete_options() {
    let server = Server::always(Reply::json(201, r#"{"kind":"Status","status":"Success","code":201}"#)).await;
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: Some("u".into()), resource_version: None }),
        ..DeleteOptions::default()
    };
    assert_eq!(soon(pods(&server).evict("web", &options)).await.unwrap(), EvictionOutcome::Evicted);
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"},
        "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}});
    assert_eq!(last(&server), ("POST /api/v1/namespaces/ns/pods/web/eviction".into(), body));
}

#[tokio::test]
async fn blocked_eviction_is_an_outcome_without_a_wait() {
    let blocked = r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429,"message":
        "Cannot evict pod as it would violate the pod's disruption budget.","details":{"causes":[{"reason":
        "DisruptionBudget","message":"The disruption budget web needs 3 healthy pods and has 3 currently"}]}}"#;
    let server = Server::start([
        Reply::json(429, blocked),
        Reply::json(429, blocked).header("retry-after", "10"),
        Reply::json(404, r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404}"#),
    ])
    .await;
    for expected in [None, Some(Duration::from_secs(10))] {
        let outcome = soon(pods(&server).evict("web", &DeleteOptions::default())).await.unwrap();
        let EvictionOutcome::Blocked { retry_after, status } = outcome else { panic!("{outcome:?}") };
        assert_eq!(retry_after, expected);
        assert_eq!(status.details.unwrap().causes[0].reason, "DisruptionBudget");
    }
    let missing = soon(pods(&server).evict("web", &DeleteOptions::default())).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert_eq!(server.seen().len(), 3, "nothing is retried");
}

#[tokio::test]
async fn scale_is_read_and_written() {
    // Leave out fields that are zero, as Go does.
    let stored = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web", "namespace": "ns", "resourceVersion": "7"}, "spec": {},
        "status": {"replicas": 2, "selector": "app=web"}});
    let server = Server::always(Reply::json(200, stored.to_string())).await;
    let deployments = api(&server, "apps/v1", "Deployment", "deployments");
    let mut scale = soon(deployments.scale("web").get()).await.unwrap();
    assert_eq!((scale.spec.replicas, scale.status.replicas, &*scale.status.selector), (0, 2, "app=web"));
    scale.spec.replicas = 3;
    soon(deployments.scale("web").update(&scale, &WriteOptions::default())).await.unwrap();
    let (line, body) = last(&server);
    assert_eq!(line, "PUT /apis/apps/v1/namespaces/ns/deployments/web/scale");
    assert_eq!((&body["spec"]["replicas"], &body["kind"]), (&json!(3), &json!("Scale")));
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    soon(deployments.scale("web").patch(&patch, &WriteOptions::default())).await.unwrap();
    assert!(last(&server).0.starts_with("PATCH "));
}

#[tokio::test]
async fn restart_writes_the_annotation_of_kubectl() {
    let server = Server::always(Reply::json(200, r#"{"metadata":{"name":"web"}}"#)).await;
    let before = Time::now();
    let options = WriteOptions { field_manager: "me".into(), ..WriteOptions::default() };
    soon(api(&server, "apps/v1", "StatefulSet", "statefulsets").restart("web", &options)).await.unwrap();
    let (line, body) = last(&server);
    assert_eq!(line, "PATCH /apis/apps/v1/namespaces/ns/statefulsets/web?fieldManager=me");
    let at = &body["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
    let at: Time = serde_json::from_value(at.clone()).unwrap();
    assert!(at.to_string() >= before.to_string() && at <= Time::now(), "{at}");
}

#[tokio::test]
async fn nodes_are_cordoned_and_uncordoned() {
    let server = Server::always(Reply::json(200, r#"{"metadata":{"name":"a"}}"#)).await;
    let nodes = api(&server, "v1", "Node", "nodes");
    soon(nodes.cordon("a", &WriteOptions::default())).await.unwrap();
    assert_eq!(last(&server), ("PATCH /api/v1/nodes/a".into(), json!({"spec": {"unschedulable": true}})));
    soon(nodes.uncordon("a", &WriteOptions::default())).await.unwrap();
    assert_eq!(last(&server).1, json!({"spec": {"unschedulable": null}}));
    assert_eq!(server.seen()[0].header("content-type"), Some("application/merge-patch+json"));
}

#[tokio::test]
async fn token_is_created_and_not_printed() {
    let created = r#"{"status":{"token":"s3cret","expirationTimestamp":"2026-11-20T08:30:00Z"}}"#;
    let server = Server::start([
        Reply::json(201, created),
        Reply::json(201, r#"{"status":{"token":"s3cret","expirationTimestamp":"s3cret"}}"#),
    ])
    .await;
    let accounts = api(&server, "v1", "ServiceAccount", "serviceaccounts");
    let request = TokenRequest {
        audiences: vec!["vault".into()],
        lifetime: Some(Duration::from_secs(600)),
        bound_object: Some(BoundObjectReference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: "web".into(),
            uid: String::new(),
        }),
    };
    let token = soon(accounts.create_token("builder", &request)).await.unwrap();
    assert_eq!(token.expires.to_string(), "2026-11-20T08:30:00Z");
    assert_eq!(token.token.expose(), "s3cret");
    assert!(!format!("{token:?}").contains("s3cret"));
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
        "audiences": ["vault"], "expirationSeconds": 600,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web"}}});
    assert_eq!(last(&server), ("POST /api/v1/namespaces/ns/serviceaccounts/builder/token".into(), body));
    let broken = soon(accounts.create_token("builder", &TokenRequest::default())).await.unwrap_err();
    assert!(matches!(broken.kind, ErrorKind::Decode(_)), "{broken}");
    assert!(!format!("{broken} {broken:?}").contains("s3cret"), "{broken}");
    assert_eq!(last(&server).1["spec"], json!({"audiences": [], "expirationSeconds": null, "boundObjectRef": null}));
}

#[tokio::test]
async fn verbs_reject_other_resources() {
    let server = Server::start([]).await;
    let jobs = api(&server, "batch/v1", "Job", "jobs");
    // The resource `pods` also exists in another API group.
    let metrics = api(&server, "metrics.k8s.io/v1beta1", "PodMetrics", "pods");
    for (error, expected) in [
        (soon(jobs.restart("a", &WriteOptions::default())).await.unwrap_err(), "deployments, daemonsets, statefulsets"),
        (soon(jobs.cordon("a", &WriteOptions::default())).await.unwrap_err(), "only nodes"),
        (soon(metrics.evict("a", &DeleteOptions::default())).await.unwrap_err(), "only pods"),
        (soon(jobs.create_token("a", &TokenRequest::default())).await.unwrap_err(), "only serviceaccounts"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
        assert_ne!(error.reason(), Some(&Reason::NotFound));
    }
    assert!(server.seen().is_empty());
}
