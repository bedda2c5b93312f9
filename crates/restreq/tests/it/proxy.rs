//! Tests requests through a proxy. The proxy opens a tunnel to HTTPS servers, and forwards requests to plain HTTP
//! servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ClientConfig, PemSource};
use pintle_restreq::RestClient;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::support::{Reply, Server, soon, steady_clock};
use crate::tls::{Authority, settings, trusting};

/// Starts a proxy that opens one tunnel. Returns the address of the proxy, and a task that returns the request that it
/// received.
pub(crate) async fn tunnel() -> (SocketAddr, JoinHandle<String>) {
    tunnel_over(None).await
}

async fn tunnel_over(tls: Option<Arc<rustls::ServerConfig>>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        match tls {
            None => through(client).await,
            Some(tls) => through(tokio_rustls::TlsAcceptor::from(tls).accept(client).await.unwrap()).await,
        }
    });
    (addr, asked)
}

async fn through(mut client: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    client.flush().await.unwrap();
    let mut server = TcpStream::connect(target).await.unwrap();
    // The tunnel ends when the client or the server closes its connection.
    drop(copy_bidirectional(&mut client, &mut server).await);
    head
}

#[tokio::test]
async fn http_request_through_proxy_has_absolute_url() {
    let proxy = Server::start([]).await;
    let mut config = ClientConfig::new("http://server.invalid:8080/prefix");
    config.proxy_url = Some(format!("http://me:pw@{}", proxy.addr));
    soon(RestClient::new(config).unwrap().get().resource("pods").send()).await.unwrap();
    let seen = &proxy.seen()[0];
    assert_eq!(seen.header("host"), Some("server.invalid:8080"));
    assert_eq!(seen.header("proxy-authorization"), Some("Basic bWU6cHc="));
    assert!(seen.uri.ends_with("/prefix/pods"), "{}", seen.uri);
}

#[tokio::test]
async fn tls_connection_uses_a_tunnel() {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let server = Server::start_with([], crate::support::Reply::ok(), Some(tls.into())).await;
    let (proxy, asked) = tunnel().await;
    let mut config = server.config();
    config.tls.insecure_skip_verify = true;
    config.proxy_url = Some(format!("http://me:pw@{proxy}"));
    soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
    assert_eq!(server.seen().len(), 1);
    assert_eq!(server.seen()[0].header("proxy-authorization"), None, "the password is sent only to the proxy");
    drop(server);
    let asked = soon(asked).await.unwrap();
    assert!(asked.starts_with("CONNECT 127.0.0.1:") && asked.to_lowercase().contains("proxy-authorization"), "{asked}");
}

/// The TLS connection to the server is inside the TLS connection to the proxy. The certificates of the proxy and of
/// the server have the same CA.
#[tokio::test]
async fn proxy_may_use_tls() {
    let (authority, other) = (Authority::new(), Authority::new());
    let tls = |authority: &Authority, alpn: &[&str]| settings(&authority.issue("127.0.0.1"), alpn, None);
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let server = Server::start_with([], Reply::ok(), Some(tls(&authority, alpn))).await;
        let (proxy, asked) = tunnel_over(Some(tls(&authority, &["h2", "http/1.1"]))).await;
        let mut config = trusting(&server, &authority);
        config.proxy_url = Some(format!("https://me:pw@{proxy}"));
        soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
        assert_eq!(server.seen().len(), 1);
        drop(server);
        let asked = soon(asked).await.unwrap().to_lowercase();
        assert!(asked.starts_with("connect 127.0.0.1:") && asked.contains("proxy-authorization: basic"), "{asked}");
    }
    // The request to a plain HTTP server is also sent to the proxy over TLS.
    let proxy = Server::start_with([], Reply::ok(), Some(tls(&authority, &[]))).await;
    let mut config = ClientConfig::new("http://server.invalid/prefix");
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    config.proxy_url = Some(format!("https://{}", proxy.addr));
    soon(RestClient::new(config.clone()).unwrap().get().send()).await.unwrap();
    assert_eq!(proxy.seen()[0].header("host"), Some("server.invalid"));

    config.tls.ca = Some(PemSource::Inline(other.pem().into()));
    let error = soon(RestClient::new(config).unwrap().get().max_retries(0).send()).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(proxy.seen().len(), 1, "nothing is sent to an untrusted proxy");
}

#[tokio::test(start_paused = true)]
async fn changed_proxy_ca_is_used() {
    let _clock = steady_clock();
    let (old, new) = (Authority::new(), Authority::new());
    let tls = || Some(settings(&new.issue("127.0.0.1"), &[], None));
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), old.pem()).unwrap();
    let proxy = Server::start_with([], Reply::ok(), tls()).await;
    let mut config = ClientConfig::new("http://server.invalid");
    config.tls.ca = Some(PemSource::File(ca.path().into()));
    config.proxy_url = Some(format!("https://{}", proxy.addr));
    let plain = RestClient::new(config.clone()).unwrap();
    // From now on, the proxy and the server use new certificates.
    let server = Server::start_with([], Reply::ok(), tls()).await;
    let (tunnel, _asked) = tunnel_over(tls()).await;
    config.server = server.url();
    config.proxy_url = Some(format!("https://{tunnel}"));
    let tunnelled = RestClient::new(config).unwrap();

    plain.get().max_retries(0).send().await.unwrap_err();
    std::fs::write(ca.path(), new.pem()).unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    plain.get().max_retries(0).send().await.unwrap();
    tunnelled.get().max_retries(0).send().await.unwrap();
    assert_eq!((proxy.seen().len(), server.seen().len()), (1, 1));
}
