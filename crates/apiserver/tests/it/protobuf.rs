//! Tests of responses in protobuf, and of resources that protobuf cannot encode.

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { seed: Some(1), ..ApiServerConfig::default() }).await.expect("a server")
}

async fn get_as(server: &ApiServer, path: &str, accept: &str) -> Response<Incoming> {
    send(server, Method::GET, path, &[("accept", accept)], "").await
}

async fn body(response: Response<Incoming>) -> Bytes {
    assert_eq!(response.headers()["content-type"], PROTOBUF);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(body.starts_with(b"k8s\0"), "{body:?}");
    body
}

fn message(body: &[u8]) -> &[u8] {
    let head = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12";
    let rest = body.strip_prefix(head).expect("a config map").strip_suffix(b"\x1a\0\x22\0").expect("an end");
    let digits = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    &rest[digits..]
}

/// Returns the next frame of the watch without its length prefix. `rest` contains the bytes that were received after
/// the previous frame.
async fn next_frame(watch: &mut Incoming, rest: &mut Vec<u8>) -> Vec<u8> {
    loop {
        if let Some((length, frame)) = rest.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if frame.len() >= length {
                return rest.drain(..4 + length).skip(4).collect();
            }
        }
        let more = tokio::time::timeout(PATIENCE, watch.frame()).await.expect("a frame in time");
        rest.extend(more.expect("a frame").expect("it comes").into_data().expect("data"));
    }
}

fn holds(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len()).any(|found| found == part)
}

#[tokio::test]
async fn get_list_and_watch_use_the_same_message() {
    let server = server().await;
    create_map(&server, "a", json!({"app": "x"})).await;
    create_map(&server, "b", json!({})).await;
    let (path, selected) = (format!("{CONFIG_MAPS}/a"), "labelSelector=app%3Dx");
    let one = body(get_as(&server, &path, &format!("{PROTOBUF}, application/json")).await).await;
    let list = body(get_as(&server, &format!("{CONFIG_MAPS}?{selected}"), PROTOBUF).await).await;
    assert!(holds(&list, message(&one)) && holds(&list, b"\x12\x0dConfigMapList"), "{list:?}");
    let watch = get_as(&server, &format!("{CONFIG_MAPS}?watch=1&{selected}"), PROTOBUF).await;
    assert_eq!(watch.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let (mut watch, mut rest) = (watch.into_body(), Vec::new());
    let frame = next_frame(&mut watch, &mut rest).await;
    assert!(frame.starts_with(b"\x0a\x05ADDED"), "{frame:?}");
    assert!(frame.ends_with(&one), "it contains the body of the GET");
    // A DELETED event contains the last state of the object, with the resourceVersion of the deletion.
    delete(&server, &path).await;
    let frame = next_frame(&mut watch, &mut rest).await;
    assert!(frame.starts_with(b"\x0a\x07DELETED") && !frame.ends_with(&one), "{frame:?}");
}

#[tokio::test]
async fn putting_back_a_protobuf_response_changes_nothing() {
    let server = server().await;
    let pod = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i",
        "ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": "0.5"}}, "env": [{"name": "e", "valueFrom":
        {"secretKeyRef": {"name": "s", "key": "k"}}}], "livenessProbe": {"httpGet": {"port": "http"}}}]}});
    let pods = "/api/v1/namespaces/default/pods";
    let created = call(&server, Method::POST, pods, pod).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    let path = format!("{pods}/p");
    let one = body(get_as(&server, &path, PROTOBUF).await).await;
    let headers = [("content-type", PROTOBUF), ("accept", "application/json")];
    let put = read(send(&server, Method::PUT, &path, &headers, &one).await).await;
    assert_eq!(put.body, created.body, "the same object with the same version");
}

#[tokio::test]
async fn partial_metadata_has_protobuf_but_tables_do_not() {
    let server = server().await;
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": names, "versions": [version]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&server, Method::POST, definitions, definition).await.code, 201);
    let widgets = "/apis/example.com/v1/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let created = tokio::time::timeout(PATIENCE, async {
        while call(&server, Method::POST, widgets, widget.clone()).await.code != 201 {
            tokio::task::yield_now().await;
        }
    });
    created.await.expect("the definition is established");
    let shown = |kind: &str| format!("{PROTOBUF};as={kind};g=meta.k8s.io;v=v1");
    let one = body(get_as(&server, &format!("{widgets}/w"), &shown("PartialObjectMetadata")).await).await;
    let list = body(get_as(&server, widgets, &shown("PartialObjectMetadataList")).await).await;
    for found in [&one, &list] {
        assert!(holds(found, b"PartialObjectMetadata") && holds(found, b"\x0a\x01w\x12\x00\x1a\x00"), "{found:?}");
    }
    let either = format!("{PROTOBUF}, application/json");
    for (path, accept, code, media) in [
        (widgets, PROTOBUF, 406, PROTOBUF),
        (widgets, &*either, 200, "application/json"),
        (widgets, &*shown("Table"), 406, "application/json"),
        (CONFIG_MAPS, &*shown("Table"), 406, "application/json"),
        (CONFIG_MAPS, &*either, 200, PROTOBUF),
    ] {
        let answer = get_as(&server, path, accept).await;
        let found = (answer.status().as_u16(), answer.headers()["content-type"].to_str().expect("text"));
        assert_eq!(found, (code, media), "{path} {accept}");
    }
}

#[tokio::test]
async fn long_list_begins_with_its_exact_length() {
    let server = server().await;
    // The body of the list is large enough for several segments.
    for number in 0..9 {
        let object = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "x".repeat(100_000)}});
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    }
    let list = body(get_as(&server, CONFIG_MAPS, PROTOBUF).await).await;
    let head = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dConfigMapList\x12";
    let rest = list.strip_prefix(head).expect("a list").strip_suffix(b"\x1a\0\x22\0").expect("an end");
    let length = rest[..3].iter().enumerate().map(|(at, byte)| usize::from(byte & 0x7f) << (7 * at)).sum::<usize>();
    assert_eq!(length, rest.len() - 3);
}

#[tokio::test]
async fn websocket_messages_are_frames_without_their_length() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    let one = body(get_as(&server, &format!("{CONFIG_MAPS}/a"), PROTOBUF).await).await;
    let mut request = format!("ws://x{CONFIG_MAPS}?watch=1").into_client_request().expect("a request");
    request.headers_mut().insert("origin", "https://127.0.0.1".parse().expect("a header"));
    request.headers_mut().insert("accept", PROTOBUF.parse().expect("a header"));
    let socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("the server listens");
    let (mut watch, _) = tokio_tungstenite::client_async(request, socket).await.expect("a watch");
    let message = tokio::time::timeout(PATIENCE, watch.next()).await.expect("a message in time");
    let Some(Ok(Message::Binary(bytes))) = message else { panic!("not binary: {message:?}") };
    assert!(bytes.starts_with(b"\x0a\x05ADDED") && bytes.ends_with(&one), "{bytes:?}");
}

#[tokio::test]
async fn expired_watch_ends_with_an_error_event_in_protobuf() {
    let server = server().await;
    let created = create_map(&server, "a", json!({})).await;
    patch_map(&server, "a", json!({"data": {"k": "w"}})).await;
    server.compact();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={created}");
    let frames = get_as(&server, &path, PROTOBUF).await.into_body().collect().await.expect("frames").to_bytes();
    for part in [&b"\x0a\x05ERROR"[..], b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status", b"Expired"] {
        assert!(holds(&frames, part), "{frames:?}");
    }
}

#[tokio::test]
async fn status_without_a_table_form_is_not_acceptable() {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let server = server().await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    create(&server, claims, json!({"metadata": {"name": "a"}, "spec": {"devices": {}}})).await;
    let claim = format!("{claims}/a");
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let definition = create(&server, definitions, definition_of("Widget", version)).await;
    let definition = format!("{definitions}/{}", definition.text("/metadata/name"));
    for path in [&claim, service, &definition] {
        let status = format!("{path}/status");
        for (path, accept, code) in
            [(path, TABLE, 200), (&status, TABLE, 406), (&status, METADATA, 200), (&status, "application/json", 200)]
        {
            for (method, body) in [(Method::GET, ""), (Method::PATCH, "{}")] {
                let headers = [("accept", accept), ("content-type", "application/merge-patch+json")];
                let answer = read(send(&server, method, path, &headers, body).await).await;
                assert_eq!(answer.code, code, "{path} {accept}: {:?}", answer.body);
            }
        }
    }
}
