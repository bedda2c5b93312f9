//! Tests of a `Plan`, the dry run of a controller against a live cluster. A second embedded server acts as the cluster,
//! and its audit proves that it receives no writes.

use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{
    ApiServer, ApiServerConfig, InProcess, InProcessBody, Plan, PlanAction, PlanError, RequestVerb, eventually,
};
use pintle_json::{Json, json};
use tower_service::Service;

use crate::support::{self, CONFIG_MAPS, Watch, call, delete, get};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITION: &str = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com},\n\
    spec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [\n\
    {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {\n\
    spec: {type: object, properties: {size: {type: integer, default: 3, maximum: 9}}},\n\
    status: {type: object, properties: {ready: {type: boolean}}}}}}}]}}";

async fn start_plan(manifests: &str) -> (ApiServer, Plan) {
    let live = ApiServer::start(ApiServerConfig { first_revision: 5_000, ..ApiServerConfig::default() }).await;
    let live = live.expect("a server");
    live.load(manifests).expect("they are valid");
    live.settle().await;
    let plan = Plan::start(live.in_process(), ApiServerConfig::default()).await.expect("a plan");
    (live, plan)
}

/// Asserts that the cluster has not received any writes. Returns the lines of the plan's text form, without the
/// summary.
async fn planned(live: &ApiServer, plan: &Plan) -> Vec<String> {
    assert!(live.audit().writes().is_empty(), "{:?}", live.audit().writes());
    let text = plan.changes().await.to_string();
    let mut lines: Vec<_> = text.lines().map(|line| line.trim_start().to_owned()).collect();
    lines.pop();
    lines
}

fn map(name: &str, data: Json) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

fn write_live(live: &ApiServer, object: &Json) {
    live.load(&object.to_string()).expect("it is valid");
}

#[tokio::test]
async fn unwritten_objects_read_as_in_the_cluster() {
    let (live, plan) = start_plan(&format!("{}\n---\n{DEFINITION}", map("a", json!({"k": "v"})))).await;
    write_live(
        &live,
        &json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}),
    );
    let paths = [
        &format!("{CONFIG_MAPS}/a"),
        &format!("{CONFIG_MAPS}/none"),
        &format!("{WIDGETS}/w"),
        "/apis/example.com/v1",
        "/apis",
    ];
    for path in paths.into_iter().chain(["/version", "/apis/none.io/v1/things"]) {
        let (upstream, local) = (get(&live, path).await, get(plan.server(), path).await);
        assert_eq!((upstream.code, upstream.body), (local.code, local.body), "{path}");
    }
    for path in [CONFIG_MAPS, "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles", WIDGETS] {
        let (upstream, local) = (get(&live, path).await, get(plan.server(), path).await);
        assert_eq!(upstream.body["items"], local.body["items"], "{path}: with the same versions");
    }
    write_live(&live, &map("b", json!({})));
    assert_eq!(get(plan.server(), &format!("{CONFIG_MAPS}/b")).await.code, 200);
    assert!(planned(&live, &plan).await.is_empty());
}

#[tokio::test]
async fn writes_stay_in_the_plan_in_order() {
    let manifests = [map("a", json!({"k": "v", "old": "1"})), map("b", json!({})), map("c", json!({}))];
    let (live, plan) = start_plan(&manifests.map(|map| map.to_string()).join("\n---\n")).await;
    let server = plan.server();
    let version = support::version(&get(server, &format!("{CONFIG_MAPS}/a")).await.body);
    assert_eq!(delete(server, &format!("{CONFIG_MAPS}/b")).await.code, 200);
    let patch = json!({"data": {"k": "w", "old": null, "new": "2"}});
    let patched = call(server, Method::PATCH, &format!("{CONFIG_MAPS}/a"), patch).await;
    assert!(support::version(&patched.body) > version);
    let stale = json!({"metadata": {"name": "a", "resourceVersion": version.to_string()}});
    assert_eq!(call(server, Method::PUT, &format!("{CONFIG_MAPS}/a"), stale).await.code, 409);
    assert_eq!(call(server, Method::POST, CONFIG_MAPS, map("c", json!({}))).await.code, 409, "it exists");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    assert_eq!(call(server, Method::POST, "/api/v1/namespaces/default/pods", pod).await.code, 201);
    assert_eq!(get(server, &format!("{CONFIG_MAPS}/b")).await.code, 404);
    // Writes that cancel each other out do not appear in the plan.
    call(server, Method::PATCH, &format!("{CONFIG_MAPS}/c"), json!({"data": {"k": "v"}})).await;
    call(server, Method::PATCH, &format!("{CONFIG_MAPS}/c"), json!({"data": null})).await;

    let lines = planned(&live, &plan).await;
    let before_pod = [
        "- v1 ConfigMap default/b",
        "~ v1 ConfigMap default/a",
        "~ data.k: \"v\" -> \"w\"",
        "+ data.new: \"2\"",
        "- data.old: \"1\"",
        "+ v1 Pod default/p",
    ];
    assert_eq!(lines[..6], before_pod);
    assert!(lines.contains(&"+ spec.restartPolicy: \"Always\"".to_owned()), "with defaults: {lines:?}");
    assert!(lines.contains(&"+ spec.containers[c].image: \"nginx\"".to_owned()), "{lines:?}");
    assert!(plan.changes().await.to_string().ends_with("1 to create, 1 to change, 1 to delete\n"));
    assert_eq!(get(&live, &format!("{CONFIG_MAPS}/b")).await.code, 200);
}

#[tokio::test]
async fn watch_merges_events_of_the_cluster_and_the_plan() {
    let (live, plan) = start_plan(&map("a", json!({})).to_string()).await;
    let server = plan.server();
    let version =
        get(server, CONFIG_MAPS).await.body["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let mut watch = Watch::start(server, &format!("resourceVersion={version}")).await;
    let without_version = |event: String| event.rsplit_once(' ').map(|(head, _)| head.to_owned()).unwrap_or_default();
    write_live(&live, &map("there", json!({})));
    assert_eq!(without_version(watch.next_event().await), "ADDED there");
    call(server, Method::POST, CONFIG_MAPS, map("here", json!({}))).await;
    assert_eq!(without_version(watch.next_event().await), "ADDED here");
    let others =
        Plan::start(live.in_process(), ApiServerConfig::default()).await.expect("cannot start the second plan");
    assert_eq!(get(others.server(), &format!("{CONFIG_MAPS}/here")).await.code, 404);
    call(server, Method::PATCH, &format!("{CONFIG_MAPS}/a"), json!({"data": {"k": "here"}})).await;
    assert_eq!(without_version(watch.next_event().await), "MODIFIED a");
    delete(server, &format!("{CONFIG_MAPS}/there")).await;
    assert_eq!(without_version(watch.next_event().await), "DELETED there");
    for name in ["a", "there"] {
        call(&live, Method::PATCH, &format!("{CONFIG_MAPS}/{name}"), json!({"data": {"k": "there"}})).await;
    }
    write_live(&live, &map("last", json!({})));
    assert_eq!(without_version(watch.next_event().await), "ADDED last", "no other events");
    let moved: Vec<_> = plan.changes().await.iter().map(|change| (change.name.clone(), change.moved)).collect();
    assert_eq!(moved, [("here".into(), false), ("a".into(), true), ("there".into(), true)]);
}

#[tokio::test]
async fn definitions_of_cluster_and_plan_both_apply() {
    let (live, plan) = start_plan(DEFINITION).await;
    let server = plan.server();
    let widget = |size: u8| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size}});
    assert_eq!(call(server, Method::POST, WIDGETS, widget(10)).await.code, 422);
    let apply =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}).to_string();
    let path = format!("{WIDGETS}/w?fieldManager=me");
    let applied =
        support::send(server, Method::PATCH, &path, &[("content-type", "application/apply-patch+yaml")], &apply).await;
    assert_eq!(applied.status(), 201);
    let status = json!({"status": {"ready": true}});
    assert_eq!(call(server, Method::PATCH, &format!("{WIDGETS}/w/status"), status).await.code, 200);
    // A plan omits changes to Events, but includes a custom resource whose kind is also called `Event`.
    let own_definition = DEFINITION.replace("widgets", "gadgets").replace("Widget", "Event").replace("\n", " ");
    let posted = support::send(
        server,
        Method::POST,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &[("content-type", "application/yaml")],
        &own_definition,
    );
    assert_eq!(posted.await.status(), 201);
    server.settle().await;
    let gadgets = WIDGETS.replace("widgets", "gadgets");
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Event", "metadata": {"name": "g"}});
    assert_eq!(call(server, Method::POST, &gadgets, gadget).await.code, 201);
    assert_eq!(get(server, &gadgets).await.body["items"].as_array().map(Vec::len), Some(1));
    let found = get(server, "/apis/example.com/v1").await.body;
    assert!(found["resources"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "gadgets")), "{found}");
    let lines = planned(&live, &plan).await;
    let expected = ["+ example.com/v1 Widget default/w", "+ spec.size: 3", "+ status.ready: true"];
    assert_eq!(lines[..3], expected);
    assert_eq!(lines[3], "+ apiextensions.k8s.io/v1 CustomResourceDefinition gadgets.example.com");
    assert_eq!(lines.last().map(String::as_str), Some("+ example.com/v1 Event default/g"));
}

#[tokio::test]
async fn deleting_an_owner_deletes_its_loaded_dependents() {
    let (live, plan) = start_plan(&map("owner", json!({})).to_string()).await;
    let uid = get(&live, &format!("{CONFIG_MAPS}/owner")).await.body["metadata"]["uid"].clone();
    let dependent = |group: &str, kind: &str, name: &str| {
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": name, "ownerReferences": owners}})
    };
    write_live(&live, &dependent("v1", "Secret", "held"));
    write_live(&live, &dependent("v1", "Secret", "free"));
    write_live(&live, &dependent("v1", "ServiceAccount", "unread"));
    let server = plan.server();
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(get(server, secrets).await.body["items"].as_array().map(Vec::len), Some(2));
    assert!(planned(&live, &plan).await.is_empty(), "an owner that was not read is not considered absent");
    let finalizers = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    assert_eq!(call(server, Method::PATCH, &format!("{secrets}/held"), finalizers).await.code, 200);
    assert_eq!(delete(server, &format!("{CONFIG_MAPS}/owner")).await.code, 200);
    let lines = planned(&live, &plan).await;
    let expected = [
        "- v1 Secret default/held (waits for example.com/hold)",
        "+ metadata.finalizers[0]: \"example.com/hold\"",
        "- v1 ConfigMap default/owner",
        "- v1 Secret default/free",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn binding_a_pod_loads_topology_labels_of_its_node() {
    let labels = json!({"topology.kubernetes.io/zone": "z"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}});
    let (_live, plan) = start_plan(&node.to_string()).await;
    let (server, pods) = (plan.server(), "/api/v1/namespaces/default/pods");
    let spec = json!({"containers": [{"name": "a", "image": "a"}]});
    let unbound = json!({"metadata": {"name": "bound"}, "spec": spec});
    assert_eq!(call(server, Method::POST, pods, unbound).await.code, 201);
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(call(server, Method::POST, &format!("{pods}/bound/binding"), binding).await.code, 201);
    assert_eq!(get(server, &format!("{pods}/bound")).await.body["metadata"]["labels"], labels);
}

#[tokio::test]
async fn objects_being_deleted_in_the_cluster_are_not_planned() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going", "finalizers": ["example.com/hold"]}});
    let (live, plan) = start_plan(&namespace.to_string()).await;
    let inside = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "going", "finalizers": ["example.com/hold"]}});
    write_live(&live, &inside);
    let deleted = delete(&live, "/api/v1/namespaces/going").await;
    assert_eq!(deleted.code, 200);
    let server = plan.server();
    assert_eq!(get(server, "/api/v1/namespaces/going/configmaps").await.code, 200);
    assert!(get(server, "/api/v1/namespaces/going").await.body["metadata"]["deletionTimestamp"].is_string());
    let refused =
        call(server, Method::POST, "/api/v1/namespaces/going/secrets", json!({"metadata": {"name": "s"}})).await;
    assert_eq!(refused.code, 403, "{:?}", refused.body);
    assert!(plan.changes().await.is_empty());
}

#[tokio::test]
async fn delete_and_create_of_one_name_is_a_replacement() {
    let (live, plan) = start_plan(&map("a", json!({"k": "v"})).to_string()).await;
    let server = plan.server();
    delete(server, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(call(server, Method::POST, CONFIG_MAPS, map("a", json!({"k": "w"}))).await.code, 201);
    assert_eq!(planned(&live, &plan).await, ["-/+ v1 ConfigMap default/a", "~ data.k: \"v\" -> \"w\""]);
    assert_eq!(plan.changes().await.iter().map(|change| change.action).collect::<Vec<_>>(), [PlanAction::Replace]);
    delete(server, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(planned(&live, &plan).await, ["- v1 ConfigMap default/a"]);
}

#[tokio::test]
async fn events_are_omitted_and_secret_values_are_hidden() {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "old"}});
    let (live, plan) = start_plan(&secret.to_string()).await;
    let server = plan.server();
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    assert_eq!(call(server, Method::POST, "/api/v1/namespaces/default/events", event).await.code, 201);
    let patch = json!({"stringData": {"password": "new"}, "data": {"more": "YQ=="}});
    assert_eq!(call(server, Method::PATCH, "/api/v1/namespaces/default/secrets/s", patch).await.code, 200);
    let expected =
        ["~ v1 Secret default/s", "+ data.more: \"(hidden)\"", "~ data.password: \"(hidden)\" -> \"(hidden)\""];
    assert_eq!(planned(&live, &plan).await, expected);
    assert!(!format!("{:?}", plan.changes().await).contains("YQ=="));
}

#[tokio::test]
async fn refusals_are_returned_and_an_expired_watch_re_lists() {
    let (live, plan) = start_plan(&map("a", json!({})).to_string()).await;
    let refuse = |verb: RequestVerb, resource: &str, code: u16| {
        let (verb, resource) = (Some(verb), Some(resource.into()));
        live.faults().add(Rule { verb, resource, ..Rule::new(Fault::Answer(Answer::new(code))) });
    };
    let server = plan.server();
    refuse(RequestVerb::List, "secrets", 403);
    let secrets = "/api/v1/namespaces/default/secrets";
    let refused = get(server, secrets).await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(get(server, secrets).await.code, 200, "the next request asks the cluster again");
    refuse(RequestVerb::Watch, "configmaps", 410);
    let version =
        get(server, CONFIG_MAPS).await.body["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    write_live(&live, &map("b", json!({})));
    let mut watch = Watch::start(server, &format!("resourceVersion={version}")).await;
    assert!(watch.next_event().await.starts_with("ADDED b "));
    assert_eq!(live.audit().of("", "configmaps").only(|record| record.verb == Some(RequestVerb::List)).len(), 2);
    live.shutdown().await;
    let late = get(server, "/api/v1/namespaces/default/services").await;
    assert_eq!((late.code, &late.body["reason"]), (503, &json!("ServiceUnavailable")));
    assert_eq!(get(server, CONFIG_MAPS).await.code, 200, "a loaded collection is served without the cluster");
}

#[derive(Clone)]
struct Recorder {
    to: InProcess,
    lines: Arc<Mutex<Vec<String>>>,
    /// Requests whose request line contains this string get no response.
    lost: &'static str,
}

impl Recorder {
    fn to(live: &ApiServer) -> Self {
        Self { to: live.in_process(), lines: Arc::default(), lost: "none of it" }
    }
}

impl Service<Request<Full<Bytes>>> for Recorder {
    type Response = Response<InProcessBody>;
    type Error = io::Error;
    type Future = <InProcess as Service<Request<Full<Bytes>>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Service::<Request<Full<Bytes>>>::poll_ready(&mut self.to, context)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let line = format!("{} {}", request.method(), request.uri().path());
        let is_lost = line.contains(self.lost);
        self.lines.lock().expect("whole lines").push(line);
        if is_lost { Box::pin(std::future::pending()) } else { self.to.call(request) }
    }
}

#[tokio::test]
async fn plan_sends_only_reads_and_reviews_to_the_cluster() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "nginx"}]},
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let manifests = [pod, account, map("a", json!({}))].map(|object| object.to_string()).join("\n---\n");
    let live = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    live.load(&manifests).expect("they are valid");
    let sent = Recorder::to(&live);
    let config = ApiServerConfig { own_thread: true, ..ApiServerConfig::default() };
    let plan = Plan::start(sent.clone(), config).await.expect("a plan");
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT-TO-ALL"];
    let core = [
        "configmaps",
        "configmaps/a",
        "configmaps/a/status",
        "configmaps/..",
        "configmaps/%2e%2e/pods/p",
        "pods",
        "pods/p",
        "pods/p/status",
        "pods/p/binding",
        "pods/p/eviction",
        "pods/p/exec?command=rm",
        "pods/p/attach",
        "pods/p/portforward",
        "pods/p/log",
        "pods/p/proxy",
        "pods/p/proxy/shutdown",
        "pods%2Fp%2Fproxy%2Fshutdown%2Flog",
        "pods/p%2Fproxy/log",
        "pods/http:p:80/proxy/log",
        "services/s/proxy/",
        "serviceaccounts/robot/token",
        "bindings",
        "events",
    ];
    let others = [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/finalize",
        "/api/v1/namespaces/../configmaps",
        "/api/v1/nodes/n/proxy/run/x",
        "/api/v1/proxy/namespaces/default/pods/p",
        "/api/v1/watch/namespaces/default/pods/p/proxy/x",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval",
        "/apis/metrics.k8s.io/v1beta1/pods",
        "/apis/aggregated.io/v1/things/x/proxy/y",
        "/apis",
        "/metrics",
        "/debug/flags/v",
        "/",
    ];
    let core = core.map(|path| format!("/api/v1/namespaces/default/{path}"));
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("x-http-method-override", "DELETE")];
    for path in core.iter().map(String::as_str).chain(others) {
        for method in methods {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
            let headers = [&upgrade[..], &[("content-type", media)]].concat();
            // Ignore the responses here, because other tests check them.
            drop(support::send(plan.server(), method, path, &headers, "{\"metadata\":{\"name\":\"p\"}}").await);
        }
    }
    plan.server().settle().await;
    let lines = sent.lines.lock().expect("whole lines").clone();
    let changes = |line: &&String| {
        let (method, path) = line.split_once(' ').expect("a method");
        let reviews =
            ["/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"];
        let is_review = method == "POST" && reviews.contains(&path);
        let reads = matches!(method, "GET" | "HEAD")
            && !["proxy", "exec", "attach", ".."].iter().any(|part| path.contains(part));
        !reads && !is_review
    };
    assert!(lines.len() > methods.len(), "some requests reach the cluster: {lines:?}");
    assert_eq!(lines.iter().filter(changes).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(live.audit().writes().is_empty());
    plan.shutdown().await;
}

#[tokio::test]
async fn requests_of_other_users_do_not_reach_the_cluster() {
    let live = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let sent = Recorder::to(&live);
    let path = std::env::temp_dir().join(format!("pintle-plan-{:x}.csv", fastrand::u64(..)));
    std::fs::write(&path, "root,root,1,\"system:masters\"\nweak,bob,2,users\n").expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(path.clone()), ..ApiServerConfig::default() };
    let plan = Plan::start(sent.clone(), config).await;
    std::fs::remove_file(path).expect("the file");
    let plan = plan.expect("a plan");
    let request_count = || sent.lines.lock().expect("whole lines").len();
    let before = request_count();
    for path in [CONFIG_MAPS, "/api/v1/namespaces/default/pods/p/log", "/apis/metrics.k8s.io/v1beta1/pods", "/metrics"]
    {
        for (token, code) in [("weak", 403), ("wrong", 401)] {
            let bearer = format!("Bearer {token}");
            let refused = support::send(plan.server(), Method::GET, path, &[("authorization", &bearer)], "").await;
            assert_eq!(refused.status(), code, "{path}");
        }
        assert_eq!(request_count(), before, "{path}");
    }
    let root = [("authorization", "Bearer root")];
    assert_eq!(support::send(plan.server(), Method::GET, CONFIG_MAPS, &root, "").await.status(), 200);
    assert!(request_count() > before);
}

/// Sends an in-process request. A request over a socket would not work, because a paused clock does not wait for
/// sockets.
async fn send_in_process(server: &ApiServer, method: Method, path: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(Full::new(Bytes::new())).expect("a request");
    let (head, body) = server.in_process().call(request).await.expect("an answer").into_parts();
    let text = body.collect().await.expect("a whole body").to_bytes();
    (head.status.as_u16(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(start_paused = true)]
async fn failing_watches_back_off_and_stop_without_a_definition() {
    const LONG: Duration = Duration::from_secs(600);
    let (live, plan) = start_plan(DEFINITION).await;
    assert_eq!(send_in_process(plan.server(), Method::GET, WIDGETS).await.0, 200);
    let watches =
        || live.audit().of("example.com", "widgets").only(|record| record.verb == Some(RequestVerb::Watch)).len();
    let (verb, resource) = (Some(RequestVerb::Watch), Some("widgets".into()));
    // The cluster rejects each watch, ends it immediately, or always reports an expired version.
    for code in [500, 200, 410] {
        let before = watches();
        let answer = Fault::Answer(Answer::new(code));
        let rule = Rule { verb, resource: resource.clone(), times: None, ..Rule::new(answer) };
        let fault = live.faults().add(rule);
        tokio::time::sleep(LONG).await;
        assert!((8..20).contains(&(watches() - before)), "{code}: {}", watches() - before);
        live.faults().remove(fault);
        let name = format!("w{code}");
        write_live(&live, &json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}));
        let is_shown = async || send_in_process(plan.server(), Method::GET, WIDGETS).await.1.contains(&name);
        assert!(eventually(LONG, is_shown).await, "{code}: it is watched again");
    }
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(send_in_process(&live, Method::DELETE, definition).await.0, 200);
    live.settle().await;
    let is_gone = async || send_in_process(plan.server(), Method::GET, WIDGETS).await.0 == 404;
    assert!(eventually(LONG, is_gone).await, "the definition is watched");
    tokio::time::sleep(LONG).await;
    let before = watches();
    tokio::time::sleep(LONG).await;
    assert_eq!(watches(), before, "no watches of a resource that does not exist");
}

#[tokio::test(start_paused = true)]
async fn unresponsive_cluster_times_out_and_does_not_block_shutdown() {
    let live = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let sent = Recorder { lost: "configmaps", ..Recorder::to(&live) };
    let plan = Plan::start(sent, ApiServerConfig::default()).await.expect("a plan");
    let late =
        tokio::time::timeout(Duration::from_secs(70), send_in_process(plan.server(), Method::GET, CONFIG_MAPS)).await;
    assert_eq!(late.expect("an answer in time").0, 504);
    let request = Request::get(CONFIG_MAPS).body(Full::new(Bytes::new())).expect("a request");
    let waiting = tokio::spawn(plan.server().in_process().call(request));
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::time::timeout(Duration::from_secs(10), plan.shutdown())
        .await
        .expect("the plan shuts down although a request waits");
    let end = waiting.await.expect("no panic").expect_err("cut off");
    assert_eq!(end.kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn plan_fails_to_start_when_definitions_cannot_be_read() {
    let live = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let (verb, resource) = (Some(RequestVerb::List), Some("customresourcedefinitions".into()));
    live.faults().add(Rule { verb, resource, ..Rule::new(Fault::Answer(Answer::new(403))) });
    let error = Plan::start(live.in_process(), ApiServerConfig::default()).await.expect_err("it is refused");
    assert!(matches!(&error, PlanError::Cluster { why } if why.contains("403")), "{error}");
}

#[tokio::test]
async fn self_reviews_are_answered_for_the_impersonated_user() {
    let (live, plan) = start_plan(&map("a", json!({})).to_string()).await;
    let post = async |path: &str, headers: &[(&str, &str)], body: Json| {
        let headers = [headers, &[("content-type", "application/json")]].concat();
        let answer = support::send(plan.server(), Method::POST, path, &headers, body.to_string()).await;
        support::read(answer).await.body
    };
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let access =
        json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}}});
    let accesses = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let jane: &[_] = &[("impersonate-user", "jane"), ("impersonate-group", "a"), ("impersonate-group", "b")];
    for (headers, name, allowed) in [(jane, "jane", false), (&[], "admin", true)] {
        let user = &post(reviews, headers, json!({})).await["status"]["userInfo"];
        assert_eq!(user["username"], name, "{user}");
        assert_eq!(
            user["groups"].as_array().is_some_and(|groups| groups.contains(&json!("b"))),
            name == "jane",
            "{user}"
        );
        assert_eq!(post(accesses, headers, access.clone()).await["status"]["allowed"], allowed, "{name}");
    }
    live.shutdown().await;
}
