//! Tests of the Service `kubernetes` in `default`, and of its endpoints.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers};
use pintle_json::{Json, json};

use crate::support::*;

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { seed: Some(1), ..ApiServerConfig::default() }).await.expect("a server")
}

#[tokio::test]
async fn new_server_creates_the_kubernetes_service_and_its_endpoints() {
    let server = server().await;
    let port: u16 = server.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);

    let service = shown(&server, SERVICE).await;
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    let spec = json!({
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    });
    assert_eq!(service["spec"], spec);
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let labels = json!({".": {}, "f:component": {}, "f:provider": {}});
    let port = json!({".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    let fields = json!({
        "f:metadata": {"f:labels": labels},
        "f:spec": {
            "f:clusterIP": {},
            "f:internalTrafficPolicy": {},
            "f:ipFamilyPolicy": {},
            "f:ports": {".": {}, "k:{\"port\":443,\"protocol\":\"TCP\"}": port},
            "f:sessionAffinity": {},
            "f:type": {},
        },
    });
    assert_eq!(managed(&service), json!(["kube-apiserver", "Update", fields]));

    let endpoints = shown(&server, ENDPOINTS).await;
    let skip = "endpointslice.kubernetes.io/skip-mirror";
    assert_eq!(endpoints["metadata"]["labels"], json!({skip: "true"}));
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]));
    let labels = json!({".": {}, (format!("f:{skip}")): {}});
    let fields = json!({"f:metadata": {"f:labels": labels}, "f:subsets": {}});
    assert_eq!(managed(&endpoints), json!(["kube-apiserver", "Update", fields]));

    let slice = shown(&server, SLICE).await;
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!(slice["metadata"]["generation"], 1);
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["endpoints"], json!([{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]));
    assert_eq!(slice["ports"], ports);
    let labels = json!({".": {}, "f:kubernetes.io/service-name": {}});
    let fields = json!({"f:addressType": {}, "f:endpoints": {}, "f:metadata": {"f:labels": labels}, "f:ports": {}});
    assert_eq!(managed(&slice), json!(["kube-apiserver", "Update", fields]));
}

#[tokio::test]
async fn deleted_kubernetes_service_and_endpoints_are_recreated() {
    for controllers in [Controllers::default(), Controllers::NONE] {
        let server =
            ApiServer::start(ApiServerConfig { controllers, ..ApiServerConfig::default() }).await.expect("a server");
        for path in [SERVICE, ENDPOINTS, SLICE] {
            let before = shown(&server, path).await;
            assert_eq!(delete(&server, path).await.code, 200);
            server.settle().await;
            let after = shown(&server, path).await;
            assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"], "{path}");
            assert_eq!(parts(&after), parts(&before), "{path}");
        }
    }
}

#[tokio::test]
async fn edits_of_endpoints_are_reverted_and_service_labels_stay() {
    let server = server().await;
    let [endpoints, slice] = [shown(&server, ENDPOINTS).await, shown(&server, SLICE).await];
    let other = json!({"metadata": {"labels": {"a": "b"}}});
    for path in [SERVICE, ENDPOINTS, SLICE] {
        let answer = call(&server, Method::PATCH, path, other.clone()).await;
        assert_eq!(answer.code, 200, "{:?}", answer.body);
    }
    let subsets = json!({"subsets": [{"addresses": [{"ip": "10.1.1.1"}]}]});
    assert_eq!(call(&server, Method::PATCH, ENDPOINTS, subsets).await.code, 200);
    assert_eq!(call(&server, Method::PATCH, SLICE, json!({"endpoints": []})).await.code, 200);
    server.settle().await;
    assert_eq!(shown(&server, SERVICE).await["metadata"]["labels"]["a"], "b");
    assert_eq!(shown(&server, ENDPOINTS).await["subsets"], endpoints["subsets"]);
    assert_eq!(shown(&server, SLICE).await["endpoints"], slice["endpoints"]);
}

#[tokio::test]
async fn other_endpoint_slices_may_not_have_loopback_addresses() {
    let server = server().await;
    let mut slice = shown(&server, SLICE).await;
    slice["metadata"] = json!({"name": "other"});
    let answer = call(&server, Method::POST, SLICES, slice).await;
    assert_eq!(answer.code, 422, "{:?}", answer.body);
}

#[tokio::test]
async fn allocated_cluster_ip_is_rejected_for_another_service() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let server = server().await;
    let service = |name: &str, spec: Json| {
        let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        for (field, value) in spec.as_object().expect("members") {
            service["spec"][field] = value.clone();
        }
        service
    };
    let assert_taken = |answer: Answer, name: &str| {
        let message = "Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: provided IP is already allocated";
        assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{:?}", answer.body);
        let expected = format!("Service {name:?} is invalid: spec.clusterIPs: {message}");
        assert_eq!(answer.body["message"], expected);
        let causes = json!([{"reason": "FieldValueInvalid", "message": message, "field": "spec.clusterIPs"}]);
        assert_eq!(answer.body["details"]["causes"], causes);
    };
    for (name, spec) in [
        ("a", json!({"clusterIP": "10.0.0.1"})),
        ("a", json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]})),
        ("kubernetes", json!({"clusterIP": "10.0.0.1"})),
    ] {
        assert_taken(call(&server, Method::POST, SERVICES, service(name, spec)).await, name);
    }
    // The server allocates addresses before it validates the Service, so the response contains only the error about the
    // address.
    let faulty = service("a", json!({"clusterIP": "10.0.0.1", "type": "Other"}));
    assert_taken(call(&server, Method::POST, SERVICES, faulty).await, "a");

    let free = service("a", json!({"clusterIP": "10.0.0.9"}));
    assert_eq!(call(&server, Method::POST, SERVICES, free).await.code, 201);
    for name in ["headless", "headless-too"] {
        let headless = service(name, json!({"clusterIP": "None"}));
        assert_eq!(call(&server, Method::POST, SERVICES, headless).await.code, 201, "several services can be headless");
    }
    let path = format!("{SERVICES}/a");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(call(&server, Method::PATCH, &path, labelled).await.code, 200, "it keeps its own address");
    let external =
        json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": "", "clusterIPs": null}});
    let answer = call(&server, Method::PATCH, &path, external).await;
    assert_eq!(answer.code, 200, "{:?}", answer.body);
    let back = json!({"spec": {"type": "ClusterIP", "externalName": null, "clusterIP": "10.0.0.1"}});
    assert_taken(call(&server, Method::PATCH, &path, back).await, "a");
}

async fn shown(server: &ApiServer, path: &str) -> Json {
    let answer = get(server, path).await;
    assert_eq!(answer.code, 200, "{path}: {:?}", answer.body);
    answer.body
}

fn managed(object: &Json) -> Json {
    let entries = object["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 1, "{entries:?}");
    json!([entries[0]["manager"], entries[0]["operation"], entries[0]["fieldsV1"]])
}

fn parts(object: &Json) -> Json {
    let mut object = object.clone();
    object["metadata"] = object["metadata"]["labels"].take();
    object
}
