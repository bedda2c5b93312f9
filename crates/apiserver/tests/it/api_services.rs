//! Tests of APIServices for CustomResourceDefinitions, and of APIServices with an unavailable Service.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn make(server: &ApiServer, path: &str, object: Json) {
    let made = call(server, Method::POST, path, object).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    server.settle().await;
}

async fn available(server: &ApiServer, name: &str) -> Json {
    let found = get(server, &format!("{API_SERVICES}/{name}")).await;
    assert_eq!(found.code, 200, "{:?}", found.body);
    let condition = &found.body["status"]["conditions"][0];
    json!([condition["type"], condition["status"], condition["reason"], condition["message"]])
}

#[tokio::test]
async fn local_api_service_is_available_when_created() {
    let server = server().await;
    let spec = json!({"group": "a.io", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10});
    let service = json!({"metadata": {"name": "v1.a.io"}, "spec": spec});
    let made = call(&server, Method::POST, &format!("{API_SERVICES}?dryRun=All"), service).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    assert_eq!(made.body["status"]["conditions"][0]["reason"], "Local");
    assert_eq!(get(&server, &format!("{API_SERVICES}/v1.a.io")).await.code, 404);
}

#[tokio::test]
async fn definition_versions_have_local_api_services() {
    let server = server().await;
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")],
        },
    });
    make(&server, DEFINITIONS, definition).await;
    for name in ["v1.example.com", "v2.example.com"] {
        let expected = json!(["Available", "True", "Local", "Local APIServices are always available"]);
        assert_eq!(available(&server, name).await, expected);
    }
    let found = get(&server, &format!("{API_SERVICES}/v2.example.com")).await.body;
    let spec = json!({"group": "example.com", "version": "v2", "groupPriorityMinimum": 1000, "versionPriority": 100});
    assert_eq!(found["spec"], spec);
    let unserved = json!({"spec": {"versions": [version("v1")]}});
    let patched = call(&server, Method::PATCH, &format!("{DEFINITIONS}/widgets.example.com"), unserved).await;
    assert_eq!(patched.code, 200, "{:?}", patched.body);
    server.settle().await;
    assert_eq!(get(&server, &format!("{API_SERVICES}/v2.example.com")).await.code, 404);
    assert_eq!(get(&server, &format!("{API_SERVICES}/v1.example.com")).await.code, 200);
    delete(&server, &format!("{DEFINITIONS}/widgets.example.com")).await;
    server.settle().await;
    assert_eq!(get(&server, &format!("{API_SERVICES}/v1.example.com")).await.code, 404);
    assert_eq!(get(&server, &format!("{API_SERVICES}/v1.apps")).await.code, 200, "built-in APIServices stay");
}

#[tokio::test]
async fn unreachable_service_makes_its_api_service_unavailable() {
    let server = server().await;
    let service = json!({"namespace": "default", "name": "far"});
    let spec = json!({
        "group": "far.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": service,
        "insecureSkipTLSVerify": true,
    });
    make(&server, API_SERVICES, json!({"metadata": {"name": "v1.far.io"}, "spec": spec})).await;
    let not = |reason: &str, message: &str| json!(["Available", "False", reason, message]);
    let absent = "service/far in \"default\" is not present";
    assert_eq!(available(&server, "v1.far.io").await, not("ServiceNotFound", absent));
    let services = "/api/v1/namespaces/default/services";
    make(&server, services, json!({"metadata": {"name": "far"}, "spec": {"ports": [{"port": 80}]}})).await;
    let deaf = "service/far in \"default\" is not listening on port 443";
    assert_eq!(available(&server, "v1.far.io").await, not("ServicePortError", deaf));
    call(&server, Method::PATCH, &format!("{services}/far"), json!({"spec": {"ports": [{"port": 443}]}})).await;
    server.settle().await;
    let empty = "cannot find endpointslices for service/far in \"default\"";
    assert_eq!(available(&server, "v1.far.io").await, not("EndpointsNotFound", empty));

    for path in ["", "/things", "/namespaces/default/things/x"] {
        let refused = get(&server, &format!("/apis/far.io/v1{path}")).await;
        assert_eq!((refused.code, refused.body), (503, json!("service unavailable\n")), "{path}");
    }
    let group = get(&server, "/apis/far.io").await.body;
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "far.io/v1", "version": "v1"}));
    assert_eq!(get(&server, "/apis/far.io/v2").await.code, 404);
    delete(&server, &format!("{API_SERVICES}/v1.far.io")).await;
    for path in ["/apis/far.io", "/apis/far.io/v1", "/apis/far.io/v1/things"] {
        assert_eq!(get(&server, path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn api_service_becomes_local_without_its_service() {
    let server = server().await;
    let service = json!({"namespace": "default", "name": "far"});
    let spec = json!({
        "group": "far.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": service,
        "insecureSkipTLSVerify": true,
    });
    make(&server, API_SERVICES, json!({"metadata": {"name": "v1.far.io"}, "spec": spec})).await;
    assert_eq!(available(&server, "v1.far.io").await[2], "ServiceNotFound");
    let local = json!({"spec": {"service": null, "insecureSkipTLSVerify": null}});
    let changed = call(&server, Method::PATCH, &format!("{API_SERVICES}/v1.far.io"), local).await;
    assert_eq!(changed.code, 200, "{:?}", changed.body);
    server.settle().await;
    let expected = json!(["Available", "True", "Local", "Local APIServices are always available"]);
    assert_eq!(available(&server, "v1.far.io").await, expected);
}

#[tokio::test]
async fn api_service_table_has_column_descriptions() {
    let server = server().await;
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let shown = read(send(&server, Method::GET, API_SERVICES, &table, "").await).await.body;
    let descriptions: Vec<_> =
        ["1", "2"].map(|at| shown.at(&format!("/columnDefinitions/{at}/description")).cloned()).into();
    let expected = ["The reference to the service that hosts this API endpoint.", "Whether this service is available."];
    assert_eq!(descriptions, expected.map(|text| Some(json!(text))));
}
