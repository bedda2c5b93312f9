//! A small HTTP client for tests. Unlike a client library, this client opens a new connection for each request, and
//! keeps no data between requests that could affect tests.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use pintle_apiserver::ApiServer;
use pintle_json::{Json, json};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Json,
}

/// Sends a request and returns the response, whose body the caller must read.
pub(crate) async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Response<Incoming> {
    let address = server.url().trim_start_matches("http://").to_owned();
    let socket = TcpStream::connect(&address).await.expect("the server listens");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.expect("HTTP");
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_ref()))).expect("a request");
    sender.send_request(request).await.expect("an answer")
}

/// Sends a request and reads the whole response. A body that is not JSON becomes a JSON string.
pub(crate) async fn call(server: &ApiServer, method: Method, path: &str, body: Json) -> Answer {
    let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let response = send(server, method, path, &[("content-type", media)], &text).await;
    read(response).await
}

pub(crate) async fn over_tls(ca: &[u8], socket: TcpStream) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("TLS")
}

pub(crate) async fn read(response: Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
    Answer { code: head.status.as_u16(), headers: head.headers, body }
}

pub(crate) fn definition_of(kind: &str, version: Json) -> Json {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    })
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> Answer {
    call(server, Method::GET, path, Json::Null).await
}

pub(crate) async fn delete(server: &ApiServer, path: &str) -> Answer {
    call(server, Method::DELETE, path, Json::Null).await
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates an object and returns the stored object.
pub(crate) async fn create(server: &ApiServer, path: &str, object: Json) -> Json {
    let made = call(server, Method::POST, path, object).await;
    assert_eq!(made.code, 201, "{path}: {:?}", made.body);
    made.body
}

pub(crate) async fn create_map(server: &ApiServer, name: &str, labels: Json) -> u64 {
    let object = json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
    let answer = call(server, Method::POST, CONFIG_MAPS, object).await;
    assert_eq!(answer.code, 201, "{:?}", answer.body);
    version(&answer.body)
}

pub(crate) async fn patch_map(server: &ApiServer, name: &str, patch: Json) -> u64 {
    let answer = call(server, Method::PATCH, &format!("{CONFIG_MAPS}/{name}"), patch).await;
    assert_eq!(answer.code, 200, "{:?}", answer.body);
    version(&answer.body)
}

pub(crate) fn version(object: &Json) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

pub(crate) struct Watch<B = Incoming> {
    body: B,
    rest: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Event(Json),
    End,
    Broken,
}

impl Watch {
    pub(crate) async fn start(server: &ApiServer, query: &str) -> Self {
        Self::start_as(server, "", query).await
    }

    pub(crate) async fn start_as(server: &ApiServer, user_agent: &str, query: &str) -> Self {
        let path = format!("{CONFIG_MAPS}?watch=1&{query}");
        let response = send(server, Method::GET, &path, &[("user-agent", user_agent)], "").await;
        assert_eq!(response.status(), 200);
        Self::of(response)
    }
}

impl<B: Body<Data = Bytes, Error: Debug> + Unpin> Watch<B> {
    pub(crate) fn of(response: Response<B>) -> Self {
        Self { body: response.into_body(), rest: Vec::new() }
    }

    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Next::Event(serde_json::from_slice(&line).expect("a frame of JSON"));
            }
            match tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a frame in time") {
                Some(Ok(frame)) => self.rest.extend(frame.into_data().expect("data")),
                Some(Err(_)) => return Next::Broken,
                None => return Next::End,
            }
        }
    }

    /// Returns the next event in the form `TYPE name version`.
    pub(crate) async fn next_event(&mut self) -> String {
        match self.next().await {
            Next::Event(event) => {
                let object = &event["object"];
                let name = object["metadata"]["name"].as_str().unwrap_or("-");
                format!("{} {name} {}", event["type"].as_str().unwrap_or("?"), version(object))
            }
            other => panic!("an event expected: {other:?}"),
        }
    }
}
