//! Tests of the objects and endpoints that exist in every new server.

use std::time::Duration;

use http::Method;
use pintle_apiserver::faults::{Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { seed: Some(1), ..ApiServerConfig::default() }).await.expect("a server")
}

fn names(list: &Json) -> Vec<&str> {
    list["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

#[tokio::test]
async fn new_server_has_the_bootstrap_objects_of_kube_apiserver() {
    let server = server().await;
    for (path, count, one) in [
        ("/api/v1/namespaces".to_owned(), 4, "kube-node-lease"),
        (format!("{RBAC}/clusterroles"), 69, "system:aggregate-to-edit"),
        (format!("{RBAC}/clusterrolebindings"), 50, "system:public-info-viewer"),
        (format!("{RBAC}/roles"), 7, "extension-apiserver-authentication-reader"),
        (format!("{RBAC}/rolebindings"), 7, "system:controller:bootstrap-signer"),
        (format!("{FLOW}/flowschemas"), 11, "service-accounts"),
        (format!("{FLOW}/prioritylevelconfigurations"), 8, "workload-low"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(), 2, "system-node-critical"),
        ("/apis/networking.k8s.io/v1/servicecidrs".to_owned(), 1, "kubernetes"),
        ("/apis/networking.k8s.io/v1/ipaddresses".to_owned(), 1, "10.0.0.1"),
        ("/apis/apiregistration.k8s.io/v1/apiservices".to_owned(), 21, "v1."),
        ("/apis/coordination.k8s.io/v1/leases".to_owned(), 1, ""),
    ] {
        let list = get(&server, &path).await.body;
        let names = names(&list);
        assert_eq!(names.len(), count, "{path}: {names:?}");
        assert!(one.is_empty() || names.contains(&one), "{path}: {names:?}");
    }
    let service = get(&server, "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps").await.body;
    assert_eq!(service["status"]["conditions"][0]["reason"], "Local");
    assert!(service["status"]["conditions"][0]["lastTransitionTime"].is_string());
}

#[tokio::test]
async fn component_statuses_are_healthy_and_have_no_version() {
    let server = server().await;
    let list = get(&server, "/api/v1/componentstatuses").await.body;
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
    assert_eq!(names(&list), ["scheduler", "controller-manager", "etcd-0"]);
    let etcd = get(&server, "/api/v1/componentstatuses/etcd-0").await.body;
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    let whole =
        json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"}, "conditions": healthy});
    assert_eq!(etcd, whole);
    let one = get(&server, "/api/v1/componentstatuses?fieldSelector=metadata.name=etcd-0").await.body;
    assert_eq!(names(&one), ["etcd-0"]);
    let missing = get(&server, "/api/v1/componentstatuses/zzz").await;
    assert_eq!((missing.code, &missing.body["message"]), (404, &json!("componentstatus \"zzz\" not found")));
}

async fn flow(server: &ApiServer, token: &str, path: &str) -> [String; 2] {
    let response = send(server, Method::GET, path, &[("authorization", token)], "").await;
    ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"]
        .map(|name| response.headers().get(name).and_then(|uid| uid.to_str().ok()).unwrap_or_default().to_owned())
}

#[tokio::test]
async fn response_headers_name_flow_schema_and_priority_level() {
    let file = std::env::temp_dir().join(format!("pintle-fresh-{:x}.csv", fastrand::u64(..)));
    std::fs::write(
        &file,
        "boss,boss,1,system:masters\nbob,bob,2\nrobot,system:serviceaccount:default:robot,3,system:serviceaccounts\n",
    )
    .expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(file.clone()), ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    std::fs::remove_file(file).expect("the file");
    let service = server.in_process();
    let uid = async |path: String| {
        let request = http::Request::get(path).body(http_body_util::Empty::new()).expect("a request");
        let answer = tower_service::Service::call(&mut service.clone(), request).await.expect("an answer");
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.expect("a body").to_bytes();
        let object: Json = serde_json::from_slice(&body).expect("an object");
        object["metadata"]["uid"].as_str().expect("a uid").to_owned()
    };
    for (token, path, schema, level) in [
        ("Bearer boss", CONFIG_MAPS, "exempt", "exempt"),
        ("Bearer bob", CONFIG_MAPS, "global-default", "global-default"),
        ("Bearer bob", "/readyz", "probes", "exempt"),
        ("Bearer robot", CONFIG_MAPS, "service-accounts", "workload-low"),
        ("", "/version", "global-default", "global-default"),
    ] {
        let schema = uid(format!("{FLOW}/flowschemas/{schema}")).await;
        let level = uid(format!("{FLOW}/prioritylevelconfigurations/{level}")).await;
        assert_eq!(flow(&server, token, path).await, [schema, level], "{token} {path}");
    }
    // A custom flow schema with a lower `matchingPrecedence` is evaluated before the built-in flow schemas.
    let rule = json!({
        "subjects": [{"kind": "User", "user": {"name": "bob"}}],
        "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"], "namespaces": ["default"]}],
    });
    let spec =
        json!({"priorityLevelConfiguration": {"name": "workload-high"}, "matchingPrecedence": 50, "rules": [rule]});
    let schema = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "bobs"}, "spec": spec});
    server.load(&schema.to_string()).expect("a flow schema");
    let [bobs, high] = [
        uid(format!("{FLOW}/flowschemas/bobs")).await,
        uid(format!("{FLOW}/prioritylevelconfigurations/workload-high")).await,
    ];
    assert_eq!(flow(&server, "Bearer bob", CONFIG_MAPS).await, [bobs, high]);
}

#[tokio::test]
async fn cluster_roles_are_aggregated() {
    let server = server().await;
    server.settle().await;
    let view = get(&server, &format!("{RBAC}/clusterroles/view")).await.body;
    assert!(view["rules"].as_array().expect("rules").iter().any(|rule| rule["resources"][0] == "configmaps"), "{view}");
    let admin = get(&server, &format!("{RBAC}/clusterroles/admin")).await.body;
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let rule = json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]});
    let mine = json!({"metadata": {"name": "mine", "labels": labels}, "rules": [rule]});
    let made = call(&server, Method::POST, &format!("{RBAC}/clusterroles"), mine).await;
    assert_eq!(made.code, 201, "{}", made.body);
    server.settle().await;
    let has = |role: &Json| role["rules"].as_array().expect("rules").contains(&rule);
    // The role `edit` includes the rules of `view`, and `admin` includes the rules of `edit`.
    for name in ["view", "edit", "admin"] {
        assert!(has(&get(&server, &format!("{RBAC}/clusterroles/{name}")).await.body), "{name}");
    }
    delete(&server, &format!("{RBAC}/clusterroles/mine")).await;
    server.settle().await;
    let after = get(&server, &format!("{RBAC}/clusterroles/admin")).await.body;
    assert!(!has(&after) && after["rules"].as_array().map(Vec::len) == admin["rules"].as_array().map(Vec::len));
}

#[tokio::test]
async fn system_objects_cannot_be_deleted() {
    let server = server().await;
    for path in ["/api/v1/namespaces/kube-system", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"] {
        assert_eq!(delete(&server, path).await.code, 403, "{path}");
    }
    assert_eq!(delete(&server, "/api/v1/namespaces/kube-node-lease").await.code, 200);
}

#[tokio::test]
async fn health_checks_are_listed_and_can_be_failed() {
    let server = server().await;
    let listing = get(&server, "/readyz?verbose").await;
    let text = listing.body.as_str().expect("text").to_owned();
    for line in [
        "[+]ping ok",
        "[+]etcd-readiness ok",
        "[+]informer-sync ok",
        "[+]poststarthook/rbac/bootstrap-roles ok",
        "[+]shutdown ok",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.ends_with("readyz check passed\n"), "{text}");
    assert_eq!(get(&server, "/readyz/poststarthook/rbac/bootstrap-roles").await.body, "ok");
    assert_eq!(get(&server, "/livez/informer-sync").await.code, 404, "only a readiness check");

    server.fail_check("informer-sync", true);
    let failed = get(&server, "/readyz").await;
    assert_eq!(failed.code, 500);
    let text = failed.body.as_str().expect("text").to_owned();
    assert!(
        text.contains("[-]informer-sync failed: reason withheld\n") && text.ends_with("readyz check failed\n"),
        "{text}"
    );
    assert_eq!(get(&server, "/readyz/informer-sync").await.code, 500);
    assert_eq!(get(&server, "/readyz?exclude=informer-sync").await.code, 200);
    assert_eq!(get(&server, "/livez").await.code, 200);
    server.fail_check("informer-sync", false);
    assert_eq!(get(&server, "/readyz").await.code, 200);
}

#[tokio::test]
async fn verbose_health_lists_the_checks_of_kube_apiserver() {
    let server = server().await;
    for (endpoint, count, first) in [
        ("livez", 34, "[+]ping ok\n[+]log ok\n[+]loopback-serving-certificate ok\n"),
        ("readyz", 36, "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n"),
    ] {
        let text = get(&server, &format!("/{endpoint}?verbose")).await.body.as_str().expect("text").to_owned();
        assert_eq!(text.lines().filter(|line| line.starts_with("[+]")).count(), count, "{text}");
        assert!(
            text.starts_with(first) && text.contains("[+]poststarthook/apiservice-openapiv3-controller ok\n"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn metrics_count_requests_as_kube_apiserver_does() {
    let server = server().await;
    get(&server, CONFIG_MAPS).await;
    get(&server, &format!("{CONFIG_MAPS}/none")).await;
    get(&server, "/livez").await;
    get(&server, "/nowhere").await;
    let secrets = "/api/v1/namespaces/default/secrets";
    // Requests that are refused before they reach a handler are not counted.
    get(&server, "/api/v1/namespaces/default/inventions").await;
    get(&server, "/api/v1/namespaces/default/pods/p/invented").await;
    get(&server, &format!("{secrets}?timeout=x")).await;
    let as_nobody = [("impersonate-user", "nobody")];
    assert_eq!(read(send(&server, Method::GET, secrets, &as_nobody, "").await).await.code, 403);
    server.faults().add(Rule { resource: Some("pods".into()), ..Rule::new(Fault::Delay(Duration::from_secs(60))) });
    assert_eq!(get(&server, "/api/v1/namespaces/default/pods/p?timeout=1s").await.code, 504);
    let answer = get(&server, "/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    let text = answer.body.as_str().expect("text").to_owned();
    let shared = r#"component="apiserver",dry_run="",group="",resource="configmaps""#;
    for line in [
        format!(r#"apiserver_request_total{{code="200",{shared},scope="namespace",subresource="",verb="LIST",version="v1"}} 1"#),
        format!(r#"apiserver_request_total{{code="404",{shared},scope="resource",subresource="",verb="GET",version="v1"}} 1"#),
        r#"apiserver_request_total{code="504",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1"#.into(),
        r#"apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/livez",verb="GET",version=""} 1"#.into(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for uncounted in ["nowhere", "invent", "secrets"] {
        assert!(!text.contains(uncounted), "{text}");
    }
}

#[tokio::test]
async fn service_account_signing_keys_are_published() {
    let server = server().await;
    let configuration = get(&server, "/.well-known/openid-configuration").await;
    assert_eq!(configuration.body["issuer"], "https://kubernetes.default.svc");
    assert_eq!(configuration.body["jwks_uri"], format!("{}/openid/v1/jwks", server.url()));
    let keys = get(&server, "/openid/v1/jwks").await;
    assert_eq!(
        (&keys.headers["content-type"], &keys.headers["cache-control"]),
        (&"application/jwk-set+json".parse().expect("a header"), &"public, max-age=3600".parse().expect("a header"))
    );
    let key = keys.body["keys"][0].clone();
    assert_eq!((key.text("/kty"), key.text("/crv"), key.text("/alg")), ("OKP", "Ed25519", "EdDSA"));
    assert_eq!(call(&server, Method::POST, "/openid/v1/jwks", json!({})).await.code, 405);
}
