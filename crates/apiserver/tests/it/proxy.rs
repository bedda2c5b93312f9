//! Tests of the proxies for pods, services and nodes, and of the deprecated path prefixes `watch` and `proxy`. The
//! expected responses were recorded from a real kube-apiserver whose proxied addresses had no listening process.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const NODES: &str = "/api/v1/nodes";

async fn make(server: &ApiServer, path: &str, object: Json) {
    let made = call(server, Method::POST, path, object).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let address = |kind: &str, address: &str| json!([{"type": kind, "address": address}]);
    for (name, ip, ports) in [
        ("new", "", json!([])),
        ("near", "127.0.0.1", json!([])),
        ("p", "10.1.2.3", json!([])),
        ("ported", "10.1.2.4", json!([{"containerPort": 8080}])),
        ("six", "fd00::1", json!([])),
    ] {
        let containers = json!([{"name": "c", "image": "i", "ports": ports}]);
        make(&server, PODS, json!({"metadata": {"name": name}, "spec": {"containers": containers}})).await;
        let status = json!({"status": {"podIP": ip}});
        assert_eq!(call(&server, Method::PATCH, &format!("{PODS}/{name}/status"), status).await.code, 200);
    }
    let pod =
        |name: &str, ip: &str| json!([{"ip": ip, "targetRef": {"kind": "Pod", "namespace": "default", "name": name}}]);
    for (name, addresses) in [("s", Some(pod("p", "10.1.2.3"))), ("lone", None), ("moved", Some(pod("p", "10.9.9.9")))]
    {
        let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
        make(&server, SERVICES, json!({"metadata": {"name": name}, "spec": {"ports": ports}})).await;
        if let Some(addresses) = addresses {
            let subsets = json!([{"addresses": addresses, "ports": [{"name": "a", "port": 9}]}]);
            let endpoints = json!({"metadata": {"name": name}, "subsets": subsets});
            make(&server, "/api/v1/namespaces/default/endpoints", endpoints).await;
        }
    }
    for (name, status) in [
        ("bare", json!({})),
        ("n", json!({"addresses": address("InternalIP", "10.1.2.5")})),
        ("own", json!({"addresses": address("InternalIP", "127.0.0.1")})),
        ("called", json!({"addresses": address("Hostname", "no.such.host")})),
    ] {
        make(&server, NODES, json!({"metadata": {"name": name}, "status": status})).await;
    }
    server
}

#[tokio::test]
async fn proxy_errors_name_the_first_missing_part() {
    let server = server().await;
    let refused =
        |address: &str| format!("error trying to reach service: dial tcp {address}: connect: connection refused");
    let no_endpoints = |service: &str| format!("no endpoints available for service \"{service}\"");
    for (path, code, message) in [
        (format!("{PODS}/none/proxy"), 404, "pods \"none\" not found".to_owned()),
        (format!("{PODS}/ftp:p:1/proxy/"), 400, "invalid pod request \"ftp:p:1\"".into()),
        (format!("{PODS}/a:b:c:d/proxy/"), 400, "invalid pod request \"a:b:c:d\"".into()),
        (format!("{PODS}/:p/proxy/"), 400, "invalid pod request \":p\"".into()),
        (format!("{PODS}/new/proxy"), 400, "address not allowed".into()),
        (format!("{PODS}/near/proxy/"), 400, "address not allowed".into()),
        (format!("{PODS}/p/proxy/"), 503, refused("10.1.2.3:80")),
        (format!("{PODS}/p/proxy/a/b?x=y"), 503, refused("10.1.2.3:80")),
        (format!("{PODS}/p:81/proxy/a"), 503, refused("10.1.2.3:81")),
        (format!("{PODS}/https:p:/proxy/a"), 503, refused("10.1.2.3:443")),
        (format!("{PODS}/ported/proxy/a"), 503, refused("10.1.2.4:8080")),
        (format!("{PODS}/six/proxy/a"), 503, refused("[fd00::1]:80")),
        (
            format!("{PODS}/p:99999/proxy/a"),
            503,
            "error trying to reach service: dial tcp: address 99999: invalid port".into(),
        ),
        (format!("{SERVICES}/none/proxy"), 404, "services \"none\" not found".into()),
        (format!("{SERVICES}/none:80/proxy"), 404, "services \"none\" not found".into()),
        (format!("{SERVICES}/lone:80/proxy"), 404, "services \"lone\" not found".into()),
        (format!("{SERVICES}/lone:99/proxy"), 503, "no service port 99 found for service \"lone\"".into()),
        (format!("{SERVICES}/ftp:s:a/proxy"), 400, "invalid service request \"ftp:s:a\"".into()),
        (format!("{SERVICES}/s/proxy"), 503, no_endpoints("s")),
        (format!("{SERVICES}/s:b/proxy"), 503, no_endpoints("s:b")),
        (format!("{SERVICES}/moved:a/proxy"), 503, no_endpoints("moved:a")),
        (format!("{SERVICES}/https:kubernetes:443/proxy"), 503, no_endpoints("https:kubernetes:443")),
        (format!("{SERVICES}/s:a/proxy/"), 503, refused("10.1.2.3:9")),
        (format!("{SERVICES}/http:s:80/proxy/a"), 503, refused("10.1.2.3:9")),
        (format!("{NODES}/none/proxy"), 404, "nodes \"none\" not found".into()),
        (format!("{NODES}/ftp:n:1/proxy"), 400, "invalid node request \"ftp:n:1\"".into()),
        (format!("{NODES}/bare/proxy"), 500, "no preferred addresses found; known addresses: []".into()),
        (format!("{NODES}/own/proxy"), 400, "address not allowed".into()),
        (format!("{NODES}/called/proxy/"), 400, "lookup no.such.host: no such host".into()),
        (format!("{NODES}/n/proxy/"), 503, refused("10.1.2.5:10250")),
        (format!("{NODES}/http:n:1/proxy/a"), 503, refused("10.1.2.5:1")),
        (format!("{PODS}/p/exec/x"), 404, "the server could not find the requested resource".into()),
        (format!("{PODS}/p/log/x"), 404, "the server could not find the requested resource".into()),
        (
            "/api/v1/namespaces/default/configmaps/c/proxy".into(),
            404,
            "the server could not find the requested resource".into(),
        ),
    ] {
        let answer = get(&server, &path).await;
        assert_eq!((answer.code, &answer.body["message"]), (code, &json!(message)), "{path}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let answer = call(&server, method.parse().expect("a method"), &format!("{PODS}/p/proxy"), Json::Null).await;
        assert_eq!((answer.code, &answer.body["message"]), (503, &json!(refused("10.1.2.3:80"))), "{method}");
    }
    assert_eq!(call(&server, Method::TRACE, &format!("{PODS}/p/proxy"), Json::Null).await.code, 405);
}

#[tokio::test]
async fn proxy_root_redirects_to_the_path_with_a_slash() {
    let server = server().await;
    for (path, location) in [
        (format!("{PODS}/p/proxy"), format!("{PODS}/p/proxy/")),
        (format!("{SERVICES}/s:a/proxy?x=y&z"), format!("{SERVICES}/s:a/proxy/?x=y&z")),
        (format!("{NODES}/n/proxy"), format!("{NODES}/n/proxy/")),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let answer = call(&server, method, &path, Json::Null).await;
            assert_eq!((answer.code, answer.headers["location"].as_bytes()), (301, location.as_bytes()), "{path}");
            assert_eq!((answer.body.as_str(), answer.headers.get("content-type")), (Some(""), None));
        }
    }
}

#[tokio::test]
async fn deprecated_prefixes_are_authorized_by_their_own_verb() {
    let file = std::env::temp_dir().join(format!("pintle-verbs-{}", std::process::id()));
    std::fs::write(&file, "t,nobody,1\n").expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(file.clone()), ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    std::fs::remove_file(file).expect("it is there");
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for (path, expected) in [
            ("/api/v1/watch/configmaps", "cannot watch resource \"configmaps\" in API group \"\" at the cluster scope"),
            (
                "/apis/apps/v1/watch/namespaces/n/deployments/d/scale",
                "cannot watch resource \"deployments/scale\" in API group \"apps\" in the namespace \"n\"",
            ),
            (
                "/api/v1/proxy/namespaces/n/pods/p/a/b",
                "cannot proxy resource \"pods\" in API group \"\" in the namespace \"n\"",
            ),
        ] {
            let headers = [("authorization", "Bearer t")];
            let answer = read(send(&server, method.parse().expect("a method"), path, &headers, "").await).await;
            let message = answer.body["message"].as_str().expect("a message");
            assert!(answer.code == 403 && message.ends_with(expected), "{method} {path}: {message}");
        }
    }
}

#[tokio::test]
async fn deprecated_watch_prefix_works_and_proxy_prefix_does_not() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "e.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.e.com"}, "spec": spec,
    });
    server.load(&definition.to_string()).expect("it is valid");
    server.settle().await;
    for (path, code, expected) in [
        ("/api/v1/proxy/namespaces/n/pods/p", 404, "the server could not find the requested resource"),
        ("/api/v1/proxy/nodes/n/x", 404, "the server could not find the requested resource"),
        (
            "/apis/e.com/v1/proxy/namespaces/n/widgets/w/x",
            405,
            "proxy is not supported on resources of kind \"widgets.e.com\"",
        ),
        ("/apis/e.com/v1/proxy/widgets", 404, "404 page not found\n"),
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = call(&server, method.parse().expect("a method"), path, Json::Null).await;
            let message = answer.body.get("message").unwrap_or(&answer.body);
            assert_eq!((answer.code, message), (code, &json!(expected)), "{method} {path}");
        }
    }
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        let method: Method = method.parse().expect("a method");
        let expected = if method == Method::GET { 200 } else { 405 };
        let built_in = "/api/v1/watch/configmaps?timeoutSeconds=1";
        assert_eq!(send(&server, method.clone(), built_in, &[], "").await.status(), expected, "{method}");
        // A single route serves all requests for custom resources, so the response depends only on the path prefix, not
        // on the method.
        let custom = "/apis/e.com/v1/watch/widgets?timeoutSeconds=1";
        assert_eq!(send(&server, method.clone(), custom, &[], "").await.status(), 200, "{method}");
    }
    for path in ["/api/v1/watch", "/api/v1/proxy/", "/apis/e.com/v1/watch?x=y"] {
        let answer = get(&server, path).await;
        let why = format!("failed to create RequestInfo: unable to determine kind and namespace from url, {path}");
        let expected = format!("Internal Server Error: \"{path}\": {why}\n");
        assert_eq!((answer.code, answer.body.as_str()), (500, Some(&*expected)));
    }
}
