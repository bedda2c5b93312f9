//! Tests of WebSocket handshakes: rejections, retries, TLS, credentials, proxies and layers.

use std::time::Duration;

use pintle_meta::{ApiError, ApiResource, ClientConfig, DynamicObject, ErrorKind, PemSource, Scope, Secret};
use pintle_restreq::{Api, ExecOptions, RestClient, RestClientConfig, Timeouts};

use crate::proxy::tunnel;
use crate::support::{Reply, Server, soon, steady_clock};
use crate::tls::{Authority, settings};
use crate::websocket_server::{Peer, SUCCESS, V5, pods, pods_of, serve};

async fn refused(answer: &'static str) -> ApiError {
    let (pods, server) = pods(async move |mut peer: Peer| peer.say(answer).await).await;
    let error = soon(pods.exec("web-1", ["x"], &ExecOptions::default())).await.unwrap_err();
    server.await.unwrap();
    error
}

#[tokio::test]
async fn refused_upgrade_is_the_server_error() {
    let missing = refused(
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 95\r\n\r\n\
         {\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"NotFound\",\"message\":\"pods \\\"web-1\\\" not found\"}    ",
    )
    .await;
    assert!(missing.is_not_found() && missing.to_string().contains("pods \"web-1\" not found"), "{missing}");
    let text = refused("HTTP/1.1 403 Forbidden\r\n\r\nrequested protocol(s) are not supported").await;
    assert!(text.is_forbidden() && text.to_string().contains("protocol(s) are not supported"), "{text}");
    let plain = refused("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert!(plain.to_string().contains("200 OK instead of changing the protocol"), "{plain}");
}

#[tokio::test]
async fn wrong_acceptance_is_an_error() {
    let wrong = refused("HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n").await;
    assert!(wrong.to_string().contains("Sec-WebSocket-Accept does not belong"), "{wrong}");
    let (pods, server) = pods(async |peer: Peer| drop(peer.accept("v1").await)).await;
    let error = soon(pods.exec("web-1", ["x"], &ExecOptions::default())).await.unwrap_err();
    assert!(error.to_string().contains("chose the subprotocol \"v1\""), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn lost_request_is_not_sent_again() {
    let server = Server::always(Reply::Hang).await;
    let error = soon(pods_of(server.config()).exec("web-1", ["x"], &ExecOptions::default())).await.unwrap_err();
    assert!(error.may_have_acted(), "{error}");
    assert_eq!(server.seen().len(), 1, "the command may have run");
}

#[tokio::test]
async fn overloaded_server_is_asked_again() {
    let server = Server::start([Reply::later(429, 0), Reply::later(500, 0)]).await;
    let error = soon(pods_of(server.config()).exec("web-1", ["x"], &ExecOptions::default())).await.unwrap_err();
    assert!(error.is_internal_error(), "{error}");
    assert_eq!(server.seen().len(), 2, "a 500 can come after the command ran");
}

#[tokio::test(start_paused = true)]
async fn silent_server_times_out() {
    let server = Server::always(Reply::Silence).await;
    let timeouts = Timeouts { headers: Some(Duration::from_secs(5)), ..Timeouts::default() };
    let client = RestClient::new(RestClientConfig { timeouts, ..server.config().into() }).unwrap();
    let pods: Api<DynamicObject> =
        Api::dynamic(client, ApiResource::new("v1", "Pod", "pods", Scope::Namespaced), Some("a")).unwrap();
    let _clock = steady_clock();
    let error = pods.exec("web-1", ["x"], &ExecOptions::default()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Timeout(_)), "{error}");
}

#[tokio::test]
async fn exec_uses_tls_and_credentials() {
    let authority = Authority::new();
    let tls = settings(&authority.issue("127.0.0.1"), &["h2", "http/1.1"], None);
    let (addr, server) = serve(Some(tls), async |peer: Peer| {
        let token = peer.header("authorization").map(str::to_owned);
        peer.accept(V5).await.end(SUCCESS).await;
        token
    })
    .await;
    let mut config = ClientConfig::new(format!("https://{addr}"));
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    config.token = Some(Secret::new("token"));
    let mut process = soon(pods_of(config).exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
    soon(process.status()).await.unwrap();
    assert_eq!(server.await.unwrap().as_deref(), Some("Bearer token"));
}

#[tokio::test]
async fn rejected_token_is_renewed_for_exec() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "old").unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut config = ClientConfig::new(format!("https://{}", listener.local_addr().unwrap()));
    let authority = Authority::new();
    let tls = settings(&authority.issue("127.0.0.1"), &["http/1.1"], None);
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    config.token_file = Some(path.clone());
    let server = tokio::spawn(async move {
        let mut tokens = Vec::new();
        for is_last in [false, true] {
            let tcp = listener.accept().await.unwrap().0;
            let stream = tokio_rustls::TlsAcceptor::from(tls.clone()).accept(tcp).await.unwrap();
            let mut peer = Peer::new(Box::new(stream)).await;
            tokens.push(peer.header("authorization").unwrap().to_owned());
            if is_last {
                peer.accept(V5).await.end(SUCCESS).await;
            } else {
                std::fs::write(&path, "new").unwrap();
                peer.say("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
        tokens
    });
    let mut process = soon(pods_of(config).exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
    soon(process.status()).await.unwrap();
    assert_eq!(server.await.unwrap(), ["Bearer old", "Bearer new"]);
}

#[tokio::test]
async fn exec_passes_a_proxy() {
    let authority = Authority::new();
    let tls = settings(&authority.issue("127.0.0.1"), &["http/1.1"], None);
    let (addr, server) = serve(Some(tls), async |peer: Peer| peer.accept(V5).await.end(SUCCESS).await).await;
    let (proxy, asked) = tunnel().await;
    let mut config = ClientConfig::new(format!("https://{addr}"));
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    config.proxy_url = Some(format!("http://{proxy}"));
    let mut process = soon(pods_of(config).exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
    soon(process.status()).await.unwrap();
    drop(process);
    assert!(soon(asked).await.unwrap().starts_with(&format!("CONNECT {addr} HTTP/1.1\r\n")));
    server.await.unwrap();
}

#[tokio::test]
async fn exec_passes_a_forwarding_proxy() {
    let (proxy, server) = serve(None, async |peer: Peer| {
        let (target, auth) = (peer.target().to_owned(), peer.header("proxy-authorization").map(str::to_owned));
        peer.accept(V5).await.end(SUCCESS).await;
        (target, auth)
    })
    .await;
    let mut config = ClientConfig::new("http://server.invalid");
    config.proxy_url = Some(format!("http://me:pw@{proxy}"));
    let mut process = soon(pods_of(config).exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
    soon(process.status()).await.unwrap();
    let (target, auth) = server.await.unwrap();
    assert!(target.starts_with("http://server.invalid/api/v1/namespaces/team-a/pods/web-1/exec?"), "{target}");
    assert_eq!(auth.as_deref(), Some("Basic bWU6cHc="));
}

/// The layer receives the upgrade request, and its response must contain the upgraded connection.
#[cfg(feature = "tower")]
#[tokio::test]
async fn exec_passes_a_layer() {
    let (addr, server) = serve(None, async |peer: Peer| {
        let extra = peer.header("x-layer").map(str::to_owned);
        peer.accept(V5).await.end(SUCCESS).await;
        extra
    })
    .await;
    let layer = pintle_restreq::TransportLayer::new(tower_layer::layer_fn(Marking));
    let config =
        RestClientConfig { transport_layer: Some(layer), ..ClientConfig::new(format!("http://{addr}")).into() };
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let pods: Api<DynamicObject> = Api::dynamic(RestClient::new(config).unwrap(), pods, Some("a")).unwrap();
    soon(async { pods.exec("web-1", ["x"], &ExecOptions::default()).await.unwrap().status().await }).await.unwrap();
    assert_eq!(server.await.unwrap().as_deref(), Some("seen"));
}

#[cfg(feature = "tower")]
#[derive(Clone)]
struct Marking(pintle_restreq::TransportService);

#[cfg(feature = "tower")]
impl tower_service::Service<http::Request<pintle_restreq::TransportBody>> for Marking {
    type Response = http::Response<pintle_restreq::TransportBody>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<pintle_restreq::TransportBody>) -> Self::Future {
        request.headers_mut().insert("x-layer", http::HeaderValue::from_static("seen"));
        self.0.call(request)
    }
}

#[tokio::test]
async fn wrong_use_is_rejected_without_a_request() {
    let config = ClientConfig::new("http://127.0.0.1:1");
    let pods = pods_of(config.clone());
    let maps = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
    let maps: Api<DynamicObject> = Api::dynamic(RestClient::new(config).unwrap(), maps, Some("a")).unwrap();
    let none = ExecOptions { stdout: false, stderr: false, ..ExecOptions::default() };
    for (result, expected) in [
        (maps.exec("x", ["y"], &ExecOptions::default()).await, "only pods support this"),
        (pods.exec("x", [""; 0], &ExecOptions::default()).await, "the command is empty"),
        (pods.attach("x", &none).await, "request no stream"),
        (pods.attach("", &ExecOptions::default()).await, "\"\" is not an object key"),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::InvalidRequest(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
