//! Tests the `tower` integration.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use pintle_meta::{ApiError, ErrorKind, Secret};
use pintle_restreq::{InvalidRequest, RestClient, RestClientConfig, TransportBody, TransportLayer, TransportService};
use tower_layer::layer_fn;
use tower_service::Service;

use crate::deadlines::check_header_timeout_of_uploads;
use crate::support::{End, Reply, Server, closed_port, soon, steady_clock};
use crate::tls::{Authority, settings, trusting};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A layer that signs each request, and records its URL and headers.
#[derive(Clone)]
struct Signing {
    inner: TransportService,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<TransportBody>> for Signing {
    type Response = Response<TransportBody>;
    type Error = Wrapped;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Wrapped>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Wrapped>> {
        self.inner.poll_ready(cx).map_err(Wrapped)
    }

    fn call(&mut self, mut request: Request<TransportBody>) -> Self::Future {
        let secrets = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
        for secret in secrets.into_iter().flat_map(|name| request.headers().get_all(name)) {
            assert!(secret.is_sensitive(), "printing the headers must not show it");
        }
        let login = request.headers().get("authorization");
        let login = login.map(|value| value.to_str().unwrap().to_owned());
        self.seen.lock().unwrap().push(format!("{} {}", request.uri(), login.unwrap_or_default()));
        request.headers_mut().insert("x-signature", "17".parse().unwrap());
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Wrapped) })
    }
}

#[derive(Debug)]
struct Wrapped(BoxError);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not signed")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[tokio::test]
async fn layer_sees_each_attempt_with_all_headers() {
    let frames = &["{\"type\":\"BOOKMARK\",\"object\":{}}\n"];
    let script = [Reply::later(429, 0), Reply::ok(), Reply::watch(frames, End::Stall), Reply::ok()];
    let server = Server::start(script).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let layer = TransportLayer::new(layer_fn(move |inner: TransportService| Signing { inner, seen: noted.clone() }));
    let mut config = server.config();
    config.token = Some(Secret::new("t"));
    let client = RestClient::new(RestClientConfig { transport_layer: Some(layer), ..config.into() }).unwrap();

    soon(client.post().abs_path(["/a"]).param("b", "c").body("text").send()).await.unwrap();
    let _watch = soon(client.get().abs_path(["/w"]).raw_watch()).await.unwrap();
    let direct = client.get().abs_path(["/d"]).header("Authorization", "Bearer t");
    soon(direct.header("Cookie", "a=b").header("Proxy-Authorization", "Basic eA==").send()).await.unwrap();

    let expected = ["/a?b=c", "/a?b=c", "/w", "/d"];
    assert_eq!(*seen.lock().unwrap(), expected.map(|path| format!("{}{path} Bearer t", server.url())));
    let served = server.seen();
    assert!(served.iter().all(|seen| seen.header("x-signature") == Some("17")));
    assert_eq!(served.iter().map(|seen| &*seen.uri).collect::<Vec<_>>(), expected);
    assert_eq!(served[1].body, "text", "the retry has the whole body");
    assert_ne!(served[2].connection, served[3].connection, "a watch has its own connection");
}

#[tokio::test]
async fn transport_error_through_a_layer_keeps_its_type() {
    let layer = TransportLayer::new(layer_fn(|inner: TransportService| Signing { inner, seen: Arc::default() }));
    let config = pintle_meta::ClientConfig::new(format!("http://{}", closed_port().await));
    let client = RestClient::new(RestClientConfig { transport_layer: Some(layer), ..config.into() }).unwrap();
    let error = soon(client.get().send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Connect { refused: true, .. }), "{error}");
}

struct Jumpy(Full<Bytes>);

impl Body for Jumpy {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        panic!("on purpose")
    }

    fn size_hint(&self) -> SizeHint {
        panic!("on purpose")
    }
}

#[derive(Clone)]
struct Startling(TransportService);

impl Service<Request<TransportBody>> for Startling {
    type Response = Response<TransportBody>;
    type Error = BoxError;
    type Future = <TransportService as Service<Request<TransportBody>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<TransportBody>) -> Self::Future {
        let text = Full::from(request.uri().path().to_owned());
        self.0.call(request.map(|_| TransportBody::new(Jumpy(text))))
    }
}

#[tokio::test]
async fn panicking_layer_body_breaks_no_connection() {
    let authority = Authority::new();
    let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
    let server = Server::start_with([], Reply::ok(), Some(tls)).await;
    let layer = TransportLayer::new(layer_fn(Startling));
    let config = RestClientConfig { transport_layer: Some(layer), ..trusting(&server, &authority).into() };
    let client = RestClient::new(config).unwrap();
    for path in ["/a", "/b"] {
        soon(client.post().abs_path([path]).send()).await.unwrap();
    }
    let seen: Vec<_> = server.seen().into_iter().map(|seen| (seen.body, seen.connection)).collect();
    assert_eq!(seen, [("/a".into(), 0), ("/b".into(), 0)]);
}

#[derive(Clone)]
struct Deaf(Option<StatusCode>);

impl Service<Request<TransportBody>> for Deaf {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<TransportBody>) -> Self::Future {
        ready(match self.0 {
            Some(status) => Ok(Response::builder().status(status).body(Full::from("{}")).unwrap()),
            None => Err("no one hears".into()),
        })
    }
}

#[tokio::test]
async fn response_made_by_a_layer_is_returned() {
    for status in [Some(StatusCode::OK), Some(StatusCode::FORBIDDEN), None] {
        let layer = TransportLayer::new(layer_fn(move |_: TransportService| Deaf(status)));
        let config = pintle_meta::ClientConfig::new(format!("http://{}", closed_port().await));
        let client = RestClient::new(RestClientConfig { transport_layer: Some(layer), ..config.into() }).unwrap();
        let outcome = match soon(client.post().send()).await {
            Ok(answer) => format!("{} {}", answer.status(), answer.body().len()),
            Err(ApiError { kind: ErrorKind::Status(status), .. }) => status.code.to_string(),
            Err(ApiError { kind: ErrorKind::Transport(cause), .. }) => cause.to_string(),
            Err(other) => panic!("{other}"),
        };
        let expected = match status {
            Some(StatusCode::OK) => "200 OK 2",
            Some(_) => "403",
            None => "no one hears",
        };
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn client_is_a_tower_service() {
    let server = Server::start([Reply::json(201, "made"), Reply::json(409, "{}")]).await;
    let mut client = server.client();
    let request = || Request::post("https://elsewhere/api/v1?dryRun=All").header("x-a", "b").body(Bytes::from("body"));
    let answer = soon(client.call(request().unwrap())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), "made");
    let error = soon(client.call(request().unwrap())).await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 409, "{error}");
    let seen = &server.seen()[0];
    assert_eq!((&*seen.uri, seen.header("x-a"), &seen.body[..]), ("/api/v1?dryRun=All", Some("b"), &b"body"[..]));
    let stream = soon(client.call(Request::new(Bytes::new()))).await.unwrap().into_body();
    assert_eq!(soon(stream.try_collect::<Vec<_>>()).await.unwrap(), ["{}"], "a layer's body is a stream");
}

#[tokio::test(start_paused = true)]
async fn timeout_applies_to_short_tower_requests_only() {
    let _clock = steady_clock();
    let server = Server::always(Reply::Silence).await;
    let mut config = server.config();
    config.timeout = Some(Duration::from_secs(30));
    let mut client = RestClient::new(config).unwrap();
    for (target, is_short) in [
        ("/api/v1/pods", true),
        ("/api/v1/pods?watch=false&limit=1", true),
        ("/api/v1/namespaces/a/pods/b", true),
        ("/api/v1/pods?limit=1&watch=true", false),
        ("/api/v1/pods?watch", false),
        ("/api/v1/watch/pods", false),
        ("/api/v1/namespaces/a/pods/b/log?follow=true", false),
    ] {
        let request = Request::get(target).body(Bytes::new()).unwrap();
        let outcome = tokio::time::timeout(Duration::from_secs(60), client.call(request)).await;
        let is_late = |error: ApiError| matches!(error.kind, ErrorKind::Timeout(_));
        assert_eq!(outcome.is_ok_and(|outcome| outcome.is_err_and(is_late)), is_short, "{target}");
    }
}

#[tokio::test]
async fn tower_request_with_a_dot_segment_is_not_sent() {
    let server = Server::start([]).await;
    let mut client = server.client();
    for path in ["/api/v1/namespaces/a/../b/secrets/x", "/api/./v1", "/api/v1/namespaces/a/%2e%2e/b"] {
        let error = soon(client.call(Request::get(path).body(Bytes::new()).unwrap())).await.unwrap_err();
        assert!(matches!(error.cause(), Some(InvalidRequest::Uri { .. })), "{path}: {error}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn secret_headers_of_a_tower_request_are_sensitive() {
    let server = Server::start([]).await;
    let layer = TransportLayer::new(layer_fn(|inner: TransportService| Signing { inner, seen: Arc::default() }));
    let mut client =
        RestClient::new(RestClientConfig { transport_layer: Some(layer), ..server.config().into() }).unwrap();
    let headers = [
        ("authorization", "Bearer t"),
        ("proxy-authorization", "Basic eA=="),
        ("cookie", "a=b"),
        ("cookie", "c=d"),
        ("set-cookie", "e=f"),
    ];
    let request = headers.into_iter().fold(Request::get("/x"), |request, (name, value)| request.header(name, value));
    soon(client.call(request.body(Bytes::new()).unwrap())).await.unwrap();
    let seen = &server.seen()[0].headers;
    for (name, value) in headers {
        assert!(seen.get_all(name).iter().any(|sent| sent == value), "{name}: {value}");
    }
}

/// A service without network connections, which responds after it has received the whole body.
#[derive(Clone)]
struct Local;

impl Service<Request<TransportBody>> for Local {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<TransportBody>) -> Self::Future {
        Box::pin(async move {
            request.into_body().collect().await?;
            Ok(Response::new(Full::default()))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn header_timeout_of_layer_runs_from_last_sent_chunk() {
    let _clock = steady_clock();
    let server = Server::always(Reply::ok()).await;
    let layer = TransportLayer::new(layer_fn(|transport: TransportService| transport));
    // A service that replaces the transport may have to connect first, so its limit includes the connect timeout.
    for (layer, limit) in [(layer, 7), (TransportLayer::in_place(Local), 37)] {
        let config = RestClientConfig { transport_layer: Some(layer), ..server.config().into() };
        check_header_timeout_of_uploads(config, Duration::from_secs(limit)).await;
    }
}
