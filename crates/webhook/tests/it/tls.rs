//! Tests of HTTP over TLS, and of certificates that change.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_webhook::{
    Admission, CertificateError, CertificateFiles, Denial, Webhook, WebhookServer, WebhookServerError, Webhooks,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::support::{Website, review, site};

const PATH: &str = "/validate/example.com/v1/websites";

fn write_pair(directory: &Path) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["websites.website-system.svc".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    fs::write(directory.join("ca.crt"), authority.pem()).unwrap();
    fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
}

struct Running {
    directory: TempDir,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(webhooks: Webhooks) -> Self {
        let directory = TempDir::new().unwrap();
        write_pair(directory.path());
        let mut files = CertificateFiles::in_directory(directory.path());
        files.period = Duration::from_millis(5);
        let server = WebhookServer::bind(([127, 0, 0, 1], 0), files, webhooks).await.unwrap();
        let (address, stop) = (server.local_address().unwrap(), CancellationToken::new());
        let token = stop.clone();
        Self { directory, address, stop, task: tokio::spawn(async move { server.run(&token).await }) }
    }

    fn authority(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("ca.crt")).unwrap()
    }

    async fn connect(&self, authority: &[u8], protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authority).map(Result::unwrap));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("websites.website-system.svc").unwrap();
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn ended(self) {
        self.stop.cancel();
        soon(self.task).await.unwrap();
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(45), future).await.expect("within 45 s")
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !check().await {
        assert!(started.elapsed() < Duration::from_secs(45), "{what} did not happen within 45 s");
        sleep(Duration::from_millis(5)).await;
    }
}

fn webhooks() -> Webhooks {
    let check = async |request: Admission<Website>| match request.object.spec.domain.as_str() {
        "bad" => Err(Denial::new("bad")),
        _ => Ok(()),
    };
    Webhooks::new().add(Webhook::validate(check))
}

fn post(domain: &str) -> Request<Full<Bytes>> {
    let review = review("CREATE", site(domain), Value::Null).to_string();
    let uri = format!("https://websites.website-system.svc{PATH}?timeout=10s");
    Request::post(uri).header("host", "websites.website-system.svc").body(Full::from(review)).unwrap()
}

#[tokio::test]
async fn both_http_versions_are_served() {
    let server = Running::start(webhooks()).await;
    for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        let stream = TokioIo::new(server.connect(&server.authority(), protocol).await.unwrap());
        let response = if protocol == "h2" {
            let (mut client, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            soon(client.send_request(post("bad"))).await.unwrap()
        } else {
            let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            soon(client.send_request(post("bad"))).await.unwrap()
        };
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["response"]["status"]["message"], "bad");
    }
    server.ended().await;
}

#[tokio::test]
async fn changed_certificate_is_used_for_new_connections() {
    let server = Running::start(webhooks()).await;
    let old = server.authority();
    let open = TokioIo::new(server.connect(&old, "http/1.1").await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(open).await.unwrap();
    tokio::spawn(connection);

    write_pair(server.directory.path());
    let new = server.authority();
    eventually("the new certificate is used", async || server.connect(&new, "h2").await.is_ok()).await;
    assert!(server.connect(&old, "h2").await.is_err());
    assert_eq!(soon(client.send_request(post("a"))).await.unwrap().status(), 200, "the open connection goes on");
    server.ended().await;
}

#[tokio::test]
async fn server_without_certificate_does_not_start() {
    let directory = TempDir::new().unwrap();
    let bind = || WebhookServer::bind(([127, 0, 0, 1], 0), directory.path(), webhooks());
    let error = bind().await.unwrap_err();
    assert!(matches!(&error, WebhookServerError::Certificate(CertificateError::Read { .. })), "{error}");
    assert!(error.to_string().contains("tls.crt"), "{error}");
    write_pair(directory.path());
    fs::write(directory.path().join("tls.key"), "s3cret").unwrap();
    let error = bind().await.unwrap_err().to_string();
    assert!(error.contains("tls.key: it has no private key as PEM") && !error.contains("s3cret"), "{error}");
    fs::write(directory.path().join("tls.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let error = bind().await.unwrap_err().to_string();
    assert!(error.contains("cannot be used together"), "{error}");
}

#[tokio::test]
async fn stop_waits_for_requests_in_flight() {
    let (started, mut starts) = tokio::sync::mpsc::channel(1);
    let release = CancellationToken::new();
    let released = release.clone();
    let slow = move |_: Admission<Website>| {
        let (started, released) = (started.clone(), released.clone());
        async move {
            started.send(()).await.unwrap();
            released.cancelled().await;
            Ok::<_, Denial>(())
        }
    };
    let server = Running::start(Webhooks::new().add(Webhook::validate(slow))).await;
    let stream = TokioIo::new(server.connect(&server.authority(), "h2").await.unwrap());
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let call = tokio::spawn(client.send_request(post("a")));
    soon(starts.recv()).await.unwrap();
    server.stop.cancel();
    eventually("the listener is closed", async || TcpStream::connect(server.address).await.is_err()).await;
    assert!(!server.task.is_finished());
    release.cancel();
    assert_eq!(soon(call).await.unwrap().unwrap().status(), 200);
    server.ended().await;
}

#[tokio::test]
async fn client_without_tls_does_not_disturb_others() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let server = Running::start(webhooks()).await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The server may either send a TLS alert or reset the connection.
    let ended = soon(plain.read_to_end(&mut answer)).await;
    assert!(ended.is_err() || !answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(server.connect(&server.authority(), "h2").await.is_ok());
    server.ended().await;
}

#[tokio::test]
async fn idle_connections_do_not_lock_others_out() {
    let server = Running::start(webhooks()).await;
    let mut idle = Vec::new();
    for _ in 0..256 {
        idle.push(soon(server.connect(&server.authority(), "h2")).await.unwrap());
    }
    let stream = TokioIo::new(soon(server.connect(&server.authority(), "h2")).await.unwrap());
    let (mut client, connection) =
        soon(hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(soon(client.send_request(post("a"))).await.unwrap().status(), 200);
    drop(idle);
    server.ended().await;
}

#[test]
fn private_key_is_no_part_of_the_authority() {
    let directory = TempDir::new().unwrap();
    write_pair(directory.path());
    let file = directory.path().join("ca.crt");
    let (authority, key) = (fs::read(&file).unwrap(), fs::read(directory.path().join("tls.key")).unwrap());
    fs::write(&file, [key, b"a comment\n".to_vec(), authority.clone()].concat()).unwrap();
    assert_eq!(CertificateFiles::from(directory.path()).read_authority().unwrap(), authority);
}

#[test]
fn authority_is_read_and_checked() {
    let directory = TempDir::new().unwrap();
    write_pair(directory.path());
    let mut files = CertificateFiles::from(directory.path());
    assert_eq!(files.read_authority().unwrap(), fs::read(directory.path().join("ca.crt")).unwrap());
    fs::write(directory.path().join("ca.crt"), json!({}).to_string()).unwrap();
    assert!(files.read_authority().unwrap_err().to_string().contains("ca.crt: it has no certificate"));
    files.authority = None;
    assert_eq!(files.read_authority().unwrap(), b"");
}
