//! Tests of in-process requests, without sockets.

use std::io;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig, InProcess, InProcessBody, RequestVerb};
use pintle_json::{Json, json};
use tower_service::Service;

use crate::support::{self, CONFIG_MAPS, PATIENCE};

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn send(service: &InProcess, request: Request<String>) -> io::Result<Response<InProcessBody>> {
    service.clone().call(request.map(|body| Full::new(Bytes::from(body)))).await
}

async fn call(service: &InProcess, method: Method, path: &str, body: Json) -> (u16, Json) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = send(service, request.body(body).expect("a request")).await.expect("an answer");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()))
}

#[tokio::test]
async fn in_process_responses_equal_those_over_a_connection() {
    let server = server().await;
    let service = server.in_process();
    let made = call(&service, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(made.0, 201);
    for path in [&format!("{CONFIG_MAPS}/a"), CONFIG_MAPS, "/apis", "/version", "/nowhere", "/readyz?verbose"] {
        let (code, body) = call(&service, Method::GET, path, Json::Null).await;
        let over_a_connection = support::get(&server, path).await;
        assert_eq!((code, body), (over_a_connection.code, over_a_connection.body), "{path}");
    }
    assert_eq!(call(&service, Method::GET, "https://kubernetes.default.svc/version", Json::Null).await.0, 200);
}

#[tokio::test]
async fn response_to_head_has_no_body() {
    let server = server().await;
    let request = Request::head("/version").body(String::new()).expect("a request");
    let get = Request::get("/apis").body(String::new()).expect("a request");
    let head = Request::head("/apis").body(String::new()).expect("a request");
    let service = server.in_process();
    for (request, is_empty) in [(request, true), (get, false), (head, true)] {
        let answer = send(&service, request).await.expect("an answer");
        let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
        assert_eq!(body.is_empty(), is_empty);
    }
}

#[tokio::test]
async fn watch_lasts_until_the_server_shuts_down() {
    let server = server().await;
    let service = server.in_process();
    let watch = Request::get(format!("{CONFIG_MAPS}?watch=1")).body(String::new()).expect("a request");
    let mut watch = send(&service, watch).await.expect("an answer").into_body();
    support::create_map(&server, "a", json!({})).await;
    let frame =
        tokio::time::timeout(PATIENCE, watch.frame()).await.expect("in time").expect("an event").expect("bytes");
    let event: Json = serde_json::from_slice(&frame.into_data().expect("data")).expect("an event");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    server.shutdown().await;
    let end =
        tokio::time::timeout(PATIENCE, watch.frame()).await.expect("in time").expect("the watch ends with an error");
    assert_eq!(end.expect_err("cut off").kind(), io::ErrorKind::ConnectionAborted);
    assert!(watch.frame().await.is_none());
    let late = Request::get("/version").body(String::new()).expect("a request");
    let refused = send(&service, late).await.expect_err("there is no server");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn in_process_requests_are_administrators_by_default() {
    let file = std::env::temp_dir().join(format!("pintle-in-process-{:x}.csv", fastrand::u64(..)));
    std::fs::write(&file, "bobs,bob,1\n").expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(file.clone()), ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.expect("a server");
    std::fs::remove_file(file).expect("the file");
    let service = server.in_process();
    for (authorization, expected) in [(None, 200), (Some("Bearer bobs"), 403), (Some("Bearer alices"), 401)] {
        let mut request = Request::get("/api/v1/nodes");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let answer = send(&service, request.body(String::new()).expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), expected, "{authorization:?}");
    }
}

#[tokio::test]
async fn fault_rules_apply_to_in_process_requests() {
    let server = server().await;
    let service = server.in_process();
    server.faults().add(Rule { verb: Some(RequestVerb::List), ..Rule::new(Fault::Answer(Answer::new(503))) });
    server.faults().add(Rule { resource: Some("configmaps".into()), ..Rule::new(Fault::CutAfter(0)) });
    assert_eq!(call(&service, Method::GET, CONFIG_MAPS, Json::Null).await.0, 503);
    let watch = Request::get(format!("{CONFIG_MAPS}?watch=1")).body(String::new()).expect("a request");
    let mut watch = send(&service, watch).await.expect("an answer").into_body();
    support::create_map(&server, "a", json!({})).await;
    let cut =
        tokio::time::timeout(PATIENCE, watch.frame()).await.expect("in time").expect("the watch ends with an error");
    assert!(cut.is_err());
}
