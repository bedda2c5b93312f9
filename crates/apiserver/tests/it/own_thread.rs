//! Tests of a server with its own thread.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig, InProcess};
use pintle_json::{Json, json};
use tower_service::Service;

use crate::support::CONFIG_MAPS;

async fn server(own_thread: bool) -> ApiServer {
    ApiServer::start(ApiServerConfig { own_thread, ..ApiServerConfig::default() }).await.expect("a server")
}

fn request(method: Method, path: &str, body: &Json) -> Request<Full<Bytes>> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    request.body(Full::from(body)).expect("a request")
}

async fn call(service: &InProcess, method: Method, path: &str, body: Json) -> (u16, Json) {
    let answer = service.clone().call(request(method, path, &body)).await.expect("an answer");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.expect("a whole body").to_bytes();
    (code, serde_json::from_slice(&bytes).expect("JSON"))
}

#[tokio::test]
async fn server_responds_while_the_callers_only_thread_blocks() {
    let server = server(true).await;
    // Use no `.await` from here on, so that a server on the same thread could not respond.
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
    write!(socket, "GET {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let url = server.url();
    server.shutdown().await;
    let refused = TcpStream::connect(url.trim_start_matches("http://")).expect_err("no server listens");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn server_runs_without_the_callers_io_and_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without timers or sockets");
    let server = runtime.block_on(server(true));
    let service = server.in_process();
    assert_eq!(runtime.block_on(call(&service, Method::GET, "/version", Json::Null)).0, 200);
    drop(server);
    let late = runtime.block_on(service.clone().call(request(Method::GET, "/version", &Json::Null)));
    assert_eq!(late.expect_err("the server is gone").kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn webhooks_are_called_without_the_callers_io() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without timers or sockets");
    let server = runtime.block_on(server(true));
    let service = server.in_process();
    // Connections to port 1 are refused, because only privileged programs can listen on this port.
    let closed = "127.0.0.1:1";
    let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate").cert.pem();
    let webhook = json!({
        "name": "maps.example.com",
        "clientConfig": {"url": format!("https://{closed}/"), "caBundle": STANDARD.encode(certificate)},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let object = json!({"metadata": {"name": "maps"}, "webhooks": [webhook]});
    assert_eq!(runtime.block_on(call(&service, Method::POST, path, object)).0, 201);
    let map = json!({"metadata": {"name": "a"}});
    let (code, status) = runtime.block_on(call(&service, Method::POST, CONFIG_MAPS, map));
    assert!(code == 500 && status.text("/message").ends_with("connect: connection refused"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn paused_clock_does_not_jump_to_request_deadlines() {
    for own_thread in [false, true] {
        let server = server(own_thread).await;
        let service = server.in_process();
        let soon = async |method, path: &str, body| {
            let answer = tokio::time::timeout(Duration::from_secs(1), call(&service, method, path, body)).await;
            answer.expect("the clock does not jump to the deadline")
        };
        for number in 0..300 {
            let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"text": "x".repeat(2000)}});
            assert_eq!(soon(Method::POST, CONFIG_MAPS, map).await.0, 201);
        }
        let (code, list) = soon(Method::GET, CONFIG_MAPS, Json::Null).await;
        assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(300)));
        let watch = format!(
            "{CONFIG_MAPS}?watch=1&resourceVersion={}",
            list["metadata"]["resourceVersion"].as_str().expect("a version")
        );
        let watch = service.clone().call(request(Method::GET, &watch, &Json::Null)).await.expect("an answer");
        assert_eq!(soon(Method::DELETE, &format!("{CONFIG_MAPS}/m-7"), Json::Null).await.0, 200);
        let frame = watch.into_body().frame().await.expect("an event").expect("bytes").into_data().expect("data");
        let event: Json = serde_json::from_slice(&frame).expect("an event");
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("m-7")));
        server.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn advancing_the_callers_clock_does_not_affect_the_server() {
    let server = server(true).await;
    let service = server.in_process();
    let made = async |name: &str| {
        let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}");
        server.load(&namespace).expect("it is valid");
        let (_, namespace) = call(&service, Method::GET, &format!("/api/v1/namespaces/{name}"), Json::Null).await;
        namespace["metadata"]["creationTimestamp"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time")
    };
    let before = made("before").await;
    tokio::time::advance(Duration::from_secs(86_400)).await;
    let after = made("after").await;
    assert!(after.duration_since(before) < jiff::SignedDuration::from_hours(12), "{before} {after}");
    server.shutdown().await;
}

#[tokio::test]
async fn in_process_watch_lasts_until_the_server_shuts_down() {
    let server = server(true).await;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let watch = server.in_process().call(request(Method::GET, &path, &Json::Null)).await.expect("an answer");
    let mut watch = watch.into_body();
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").expect("it is valid");
    let frame = watch.frame().await.expect("an event").expect("bytes").into_data().expect("data");
    assert!(String::from_utf8_lossy(&frame).contains("\"name\":\"a\""));
    server.shutdown().await;
    let end = watch.frame().await.expect("the watch ends with an error");
    assert_eq!(end.expect_err("cut off").kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn panic_in_a_request_body_aborts_only_that_request() {
    let server = server(true).await;
    let service = server.in_process();
    let broken = |_: Frame<Bytes>| -> Frame<Bytes> { panic!("in the caller's body") };
    let broken = Full::new(Bytes::from_static(b"x")).map_frame(broken);
    let request = Request::post(CONFIG_MAPS).header("content-type", "application/json").body(broken);
    let cut = service.clone().call(request.expect("a request")).await.expect_err("there is no answer");
    assert_eq!(cut.kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(call(&service, Method::GET, "/version", Json::Null).await.0, 200);
    server.shutdown().await;
}

#[test]
fn dropping_the_server_inside_a_runtime_ends_open_watches() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let path = format!("{CONFIG_MAPS}?watch=1");
    let (mut watch, address) = runtime.block_on(async {
        let server = server(true).await;
        let watch = server.in_process().call(request(Method::GET, &path, &Json::Null)).await.expect("an answer");
        let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
        write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        let mut begin = [0; 12];
        socket.read_exact(&mut begin).expect("an answer");
        let address = server.url();
        // Drop the server on the only thread of the test's runtime.
        drop(server);
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let end = socket.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(matches!(end, Ok(_) | Err(io::ErrorKind::ConnectionReset)), "{end:?}");
        (watch.into_body(), address)
    });
    let end = runtime.block_on(watch.frame()).expect("the watch ends with an error");
    assert_eq!(end.expect_err("cut off").kind(), io::ErrorKind::ConnectionAborted);
    drop(runtime);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address.trim_start_matches("http://")).is_ok() {
        assert!(std::time::Instant::now() < deadline, "it still listens");
        std::thread::yield_now();
    }
}

#[tokio::test(start_paused = true)]
async fn fault_windows_use_the_servers_clock() {
    let server = server(true).await;
    tokio::time::advance(Duration::from_secs(86_400)).await;
    let fault = Fault::Answer(Answer::new(503));
    // The clock of the caller is a day ahead of the clock of the server. The fault rule fires only if its delay is
    // measured with the server's clock.
    server.faults().add(Rule { from: Duration::from_nanos(1), ..Rule::new(fault) });
    let code = call(&server.in_process(), Method::GET, CONFIG_MAPS, Json::Null).await.0;
    assert_eq!(code, 503);
    server.shutdown().await;
}
