//! Tests of the subresources log, exec, attach and portforward. The server has no kubelets.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

#[tokio::test]
async fn stream_errors_name_the_first_missing_part() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let pods = "/api/v1/namespaces/default/pods";
    let containers = |names: &[&str]| names.iter().map(|name| json!({"name": name, "image": "x"})).collect::<Json>();
    for (name, node, names) in
        [("free", "", &["c"][..]), ("two", "", &["c", "d"]), ("lost", "gone", &["c"]), ("bound", "n", &["c"])]
    {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers(names)}});
        assert_eq!(call(&server, Method::POST, pods, pod).await.code, 201);
    }
    let status = json!({"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]});
    assert_eq!(
        call(&server, Method::POST, "/api/v1/nodes", json!({"metadata": {"name": "n"}, "status": status})).await.code,
        201
    );
    let host = "pod free does not have a host assigned";
    let refused = "error dialing backend: dial tcp 192.0.2.1:10250: connect: connection refused";
    for (method, path, code, message) in [
        (Method::GET, "none/log", 404, "pods \"none\" not found"),
        (Method::GET, "free/log", 204, ""),
        (
            Method::GET,
            "none/log?tailLines=-1",
            422,
            "PodLogOptions \"none\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            Method::GET,
            "free/log?sinceSeconds=0",
            422,
            "PodLogOptions \"free\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            Method::GET,
            "free/log?stream=Stdout",
            422,
            "PodLogOptions \"free\" is invalid: stream: Forbidden: may not be specified",
        ),
        (Method::GET, "free/log?limitBytes=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        (Method::GET, "free/log?container=x", 400, "container x is not valid for pod free"),
        (Method::GET, "two/log", 400, "a container name must be specified for pod two, choose one of: [c d]"),
        (Method::GET, "two/log?container=d", 204, ""),
        (Method::POST, "free/exec?command=ls", 400, host),
        (Method::GET, "free/attach", 400, host),
        (Method::POST, "free/portforward", 400, host),
        (Method::GET, "lost/log", 404, "nodes \"gone\" not found"),
        (Method::POST, "lost/exec", 404, "nodes \"gone\" not found"),
        (Method::GET, "bound/log", 500, refused),
        (Method::POST, "bound/portforward", 500, refused),
        (Method::POST, "free/log", 405, "the server does not allow this method on the requested resource"),
        (Method::DELETE, "free/exec", 405, "the server does not allow this method on the requested resource"),
    ] {
        let answer = call(&server, method.clone(), &format!("{pods}/{path}"), Json::Null).await;
        let found = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!((answer.code, found), (code, message), "{method} {path}");
    }
}
