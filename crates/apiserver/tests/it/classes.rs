//! Tests of storage classes, ingress classes, IP addresses, and the topology labels of pods.

use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn post(server: &ApiServer, path: &str, object: Json) -> Json {
    let made = call(server, Method::POST, path, object).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    made.body
}

async fn class(server: &ApiServer, name: &str, is_default: bool, more: Json) {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": is_default.to_string()});
    let mut class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"});
    class["allowVolumeExpansion"] = more;
    post(server, "/apis/storage.k8s.io/v1/storageclasses", class).await;
}

fn claim(name: &str) -> Json {
    let resources = json!({"requests": {"storage": "1Gi"}});
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}})
}

#[tokio::test(start_paused = true)]
async fn claim_without_a_class_gets_the_newest_default() {
    let server = server().await;
    let class_of = async |claim: Json| post(&server, CLAIMS, claim).await["spec"]["storageClassName"].clone();
    class(&server, "other", false, Json::Null).await;
    assert_eq!(class_of(claim("a")).await, Json::Null);
    class(&server, "older", true, Json::Null).await;
    assert_eq!(class_of(claim("b")).await, "older");
    tokio::time::sleep(Duration::from_secs(2)).await;
    class(&server, "newer", true, Json::Null).await;
    assert_eq!(class_of(claim("c")).await, "newer");
    let mut none = claim("d");
    none["spec"]["storageClassName"] = "".into();
    assert_eq!(class_of(none).await, "");
}

#[tokio::test]
async fn claim_grows_only_if_bound_and_class_allows() {
    let server = server().await;
    class(&server, "grows", false, json!(true)).await;
    class(&server, "stays", false, json!(false)).await;
    let grow = async |name: &str, size: &str| {
        let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let answer = call(&server, Method::PATCH, &format!("{CLAIMS}/{name}"), patch).await;
        (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned())
    };
    for name in ["grows", "stays"] {
        let mut claim = claim(name);
        claim["spec"]["storageClassName"] = name.into();
        post(&server, CLAIMS, claim).await;
        let (code, message) = grow(name, "2Gi").await;
        assert!(code == 422 && message.contains("for bound claims"), "{code} {message}");
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        assert_eq!(call(&server, Method::PATCH, &format!("{CLAIMS}/{name}/status"), bound).await.code, 200);
    }
    assert_eq!(grow("grows", "2Gi").await.0, 200);
    assert_eq!(grow("grows", "1536Mi").await.0, 200, "more than the current capacity");
    let (code, message) = grow("grows", "1Gi").await;
    assert!(code == 422 && message.contains("field can not be less than status.capacity"), "{code} {message}");
    let (code, message) = grow("stays", "2Gi").await;
    assert!(
        code == 403 && message.contains("the storageclass that provisions the pvc must support resize"),
        "{message}"
    );
}

#[tokio::test]
async fn ingress_without_a_class_gets_the_default() {
    let server = server().await;
    let api = "/apis/networking.k8s.io/v1";
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "i", "annotations": annotations}, "spec": {"controller": "example.com/c"}});
    post(&server, &format!("{api}/ingressclasses"), class).await;
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    for (name, annotations, class) in
        [("a", json!({}), json!("i")), ("b", json!({"kubernetes.io/ingress.class": "old"}), Json::Null)]
    {
        let ingress =
            json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"defaultBackend": backend}});
        let made = post(&server, &format!("{api}/namespaces/default/ingresses"), ingress).await;
        assert_eq!(made["spec"]["ingressClassName"], class);
    }
    // The class column shows `ingressClassName`, but not the class in the annotation.
    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let path = format!("{api}/namespaces/default/ingresses");
    let table = read(send(&server, Method::GET, &path, &accept, "").await).await.body;
    let classes: Vec<_> = table.list("/rows").map(|row| row["cells"][1].clone()).collect();
    assert_eq!(classes, ["i", "<none>"]);
}

#[tokio::test]
async fn ip_addresses_need_a_canonical_name_and_a_parent() {
    let server = server().await;
    let path = "/apis/networking.k8s.io/v1/ipaddresses";
    let parent = json!({"resource": "services", "namespace": "default", "name": "s"});
    for (name, parent, expected) in [
        ("192.168.1.5", parent.clone(), ""),
        ("192.168.1.6", Json::Null, "spec.parentRef: Required value"),
        ("192.168.1.7", json!({"name": "s"}), "spec.parentRef.resource: Required value"),
        ("2001:0db8::1", parent.clone(), "must be in canonical form"),
        ("a", parent, "must be a valid IP address"),
    ] {
        let made =
            call(&server, Method::POST, path, json!({"metadata": {"name": name}, "spec": {"parentRef": parent}})).await;
        let message = made.body["message"].as_str().unwrap_or_default();
        assert_eq!(made.code, if expected.is_empty() { 201 } else { 422 }, "{name}: {message}");
        assert!(message.contains(expected), "{name}: {message}");
        let is_warned =
            made.headers.get("warning").is_some_and(|text| text.to_str().is_ok_and(|text| text.contains("IPAddress")));
        assert_eq!(is_warned, expected.is_empty(), "{name}");
    }
    let moved = json!({"spec": {"parentRef": {"name": "t"}}});
    assert_eq!(call(&server, Method::PATCH, &format!("{path}/192.168.1.5"), moved).await.code, 422);
}

#[tokio::test]
async fn pod_gets_region_and_zone_labels_of_its_node() {
    let server = server().await;
    let zone = "topology.kubernetes.io/zone";
    let labels = json!({(zone): "z", "topology.kubernetes.io/region": "r", "topology.kubernetes.io/rack": "k"});
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n", "labels": labels}})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: Json| {
        let containers = json!([{"name": "a", "image": "a"}]);
        let metadata = json!({"name": name, "labels": {(zone): "its-own"}});
        json!({"metadata": metadata, "spec": {"nodeName": node, "containers": containers}})
    };
    let expected = json!({(zone): "z", "topology.kubernetes.io/region": "r"});
    let placed = post(&server, pods, pod("placed", "n".into())).await;
    assert_eq!(placed["metadata"]["labels"], expected);
    post(&server, pods, pod("bound", Json::Null)).await;
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}});
    post(&server, &format!("{pods}/bound/binding"), binding).await;
    assert_eq!(get(&server, &format!("{pods}/bound")).await.body["metadata"]["labels"], expected);
    // The server does not copy the node's labels if the pod is bound through the resource `bindings`, or if the
    // binding's target has no kind.
    for (name, path, target) in [
        ("by-itself", "bindings", json!({"kind": "Node", "name": "n"})),
        ("to-something", "pods/to-something/binding", json!({"name": "n"})),
    ] {
        post(&server, pods, pod(name, Json::Null)).await;
        let binding = json!({"metadata": {"name": name}, "target": target});
        post(&server, &format!("/api/v1/namespaces/default/{path}"), binding).await;
        let bound = get(&server, &format!("{pods}/{name}")).await.body;
        assert_eq!(
            (&bound["spec"]["nodeName"], &bound["metadata"]["labels"]),
            (&json!("n"), &json!({(zone): "its-own"}))
        );
    }
    let unknown_node = post(&server, pods, pod("elsewhere", "unknown".into())).await;
    assert_eq!(unknown_node["metadata"]["labels"], json!({(zone): "its-own"}));
}
