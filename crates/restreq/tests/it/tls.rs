//! Tests of TLS: server verification, client certificates, protocol negotiation and certificate rotation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ApiError, ClientConfig, ErrorKind, PemSource};
use pintle_metrics::InMemoryProvider;
use pintle_restreq::{Http2Config, RestClient, RestClientConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::support::{Reply, Server, soon, steady_clock};

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Starts a server with the certificate `pair` and the protocols `alpn`. If `clients` is set, the server requests
/// client certificates from this CA.
async fn server(pair: &Pair, alpn: &[&str], clients: Option<&Authority>) -> Server {
    scripted([], pair, alpn, clients).await
}

async fn scripted(
    script: impl IntoIterator<Item = Reply>,
    pair: &Pair,
    alpn: &[&str],
    clients: Option<&Authority>,
) -> Server {
    Server::start_with(script, Reply::ok(), Some(settings(pair, alpn, clients))).await
}

/// Returns server settings with the certificate `pair` and the protocols `alpn`. If `clients` is set, the server
/// requests client certificates from this CA.
pub(crate) fn settings(pair: &Pair, alpn: &[&str], clients: Option<&Authority>) -> Arc<rustls::ServerConfig> {
    versioned(rustls::DEFAULT_VERSIONS, pair, alpn, clients)
}

fn versioned(
    versions: &[&'static SupportedProtocolVersion],
    pair: &Pair,
    alpn: &[&str],
    clients: Option<&Authority>,
) -> Arc<rustls::ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Arc::new(config)
}

pub(crate) fn trusting(server: &Server, authority: &Authority) -> ClientConfig {
    let mut config = server.config();
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    config
}

async fn get(config: ClientConfig) -> Result<(), ApiError> {
    soon(RestClient::new(config).unwrap().get().max_retries(0).send()).await.map(drop)
}

#[tokio::test]
async fn server_is_trusted_only_by_its_ca() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = server(&authority.issue("127.0.0.1"), &[], None).await;
    get(trusting(&server, &authority)).await.unwrap();

    for config in [trusting(&server, &other), server.config()] {
        let error = get(config).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Connect { refused: false, .. }), "{error:?}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    let mut anyone = server.config();
    anyone.tls.insecure_skip_verify = true;
    get(anyone).await.unwrap();
    assert_eq!(server.seen().len(), 2, "nothing is sent to an untrusted server");
}

/// As in Go, a server certificate does not need a CA if the bundle contains the server certificate. The client still
/// checks the name and the validity period of the certificate.
#[tokio::test]
async fn listed_server_certificate_needs_no_ca() {
    let authority = Authority::new();
    let alone = |name: &str, may_sign: bool, until: i32| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = if may_sign { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::ExplicitNoCa };
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2019, 1, 1), rcgen::date_time_ymd(until, 1, 1));
        let key = KeyPair::generate().unwrap();
        Pair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    };
    for (shown, is_trusted) in [
        (authority.issue("127.0.0.1"), true),
        (authority.issue("10.0.0.1"), false),
        (alone("127.0.0.1", false, 2999), true),
        (alone("127.0.0.1", true, 2999), true),
        (alone("10.0.0.1", true, 2999), false),
        (alone("127.0.0.1", false, 2020), false),
        (alone("127.0.0.1", true, 2020), false),
    ] {
        let server = server(&shown, &[], None).await;
        let mut config = server.config();
        config.tls.ca = Some(PemSource::Inline(shown.certificate.clone().into()));
        let outcome = get(config.clone()).await;
        assert_eq!(outcome.is_ok(), is_trusted, "{outcome:?} {}", shown.certificate);
        // The bundle now contains a different certificate with the same name, so the certificate of the server must be
        // rejected.
        config.tls.ca = Some(PemSource::Inline(authority.issue("127.0.0.1").certificate.into()));
        get(config).await.unwrap_err();
    }
}

/// As in Go, a bundle is usable if at least one of its certificates is valid.
#[tokio::test]
async fn invalid_certificate_in_bundle_is_skipped() {
    let authority = Authority::new();
    let server = server(&authority.issue("127.0.0.1"), &[], None).await;
    let block = |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let (broken, no_certificate) = (block("!!!!"), block("AAAA"));
    for bundle in [[&broken, &no_certificate, &authority.pem()], [&authority.pem(), &no_certificate, &broken]] {
        let mut config = server.config();
        config.tls.ca = Some(PemSource::Inline(bundle.map(String::as_str).concat().into()));
        get(config).await.unwrap();
    }
    for bundle in ["", "text", &broken, &no_certificate] {
        let mut config = server.config();
        config.tls.ca = Some(PemSource::Inline(bundle.into()));
        let error = RestClient::new(config).unwrap_err().to_string();
        assert!(error.contains("tls.ca"), "{bundle:?}: {error}");
    }
}

/// Any failure after a request was sent, including a TLS failure, can mean that the server has processed the request.
#[tokio::test]
async fn write_with_garbled_response_may_have_been_executed() {
    let authority = Authority::new();
    for answered in [0, 1] {
        let acceptor = tokio_rustls::TlsAcceptor::from(settings(&authority.issue("127.0.0.1"), &["http/1.1"], None));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut config = ClientConfig::new(format!("https://{}", listener.local_addr().unwrap()));
        config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
        let serve = async move {
            let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            for _ in 0..answered {
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                stream.flush().await.unwrap();
            }
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            // The server sends an unencrypted record, so the client must report a TLS error.
            let tcp = stream.get_mut().0;
            tcp.write_all(&[&[23, 3, 3, 0, 32][..], &[0; 32]].concat()).await.unwrap();
            stream
        };
        let server = tokio::spawn(serve);
        let client = RestClient::new(config).unwrap();
        for _ in 0..answered {
            soon(client.get().send()).await.unwrap();
        }
        let error = soon(client.post().body("x").send()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Transport(_)), "after {answered}: {error:?}");
        assert!(error.may_have_acted());
        drop(server.await.unwrap());
    }
}

#[tokio::test]
async fn certificate_name_is_url_host_or_configured_name() {
    let authority = Authority::new();
    let server = server(&authority.issue("inner.example.com"), &[], None).await;
    let mut config = trusting(&server, &authority);
    let error = get(config.clone()).await.unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
    config.tls.server_name = Some("inner.example.com".into());
    get(config.clone()).await.unwrap();
    config.tls.server_name = Some("not a name".into());
    get(config).await.unwrap_err();
}

#[tokio::test]
async fn http2_is_used_if_the_server_supports_it() {
    let authority = Authority::new();
    for (alpn, version) in [
        (&["h2", "http/1.1"][..], http::Version::HTTP_2),
        (&["http/1.1"], http::Version::HTTP_11),
        (&[], http::Version::HTTP_11),
    ] {
        let server = server(&authority.issue("127.0.0.1"), alpn, None).await;
        get(trusting(&server, &authority)).await.unwrap();
        assert_eq!(server.seen()[0].version, version, "{alpn:?}");
    }
    // If HTTP/2 is disabled, the client must not offer it.
    let server = server(&authority.issue("127.0.0.1"), &["h2", "http/1.1"], None).await;
    let http2 = Http2Config { enabled: false, ..Http2Config::default() };
    let client = RestClient::new(RestClientConfig { http2, ..trusting(&server, &authority).into() }).unwrap();
    soon(client.get().send()).await.unwrap();
    assert_eq!(server.seen()[0].version, http::Version::HTTP_11);
}

/// Starts a server that negotiates HTTP/2 and reads all data, but never responds.
async fn silent(pair: &Pair) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(settings(pair, &["h2"], None));
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            stream.write_all(&SETTINGS).await.unwrap();
            while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
        }
    });
    (addr, task)
}

#[tokio::test(start_paused = true)]
async fn unanswered_ping_closes_connection_after_configured_time() {
    let _clock = steady_clock();
    let authority = Authority::new();
    for ping_after in [Some(Duration::from_secs(5)), None] {
        let (addr, _peer) = silent(&authority.issue("127.0.0.1")).await;
        let http2 = Http2Config { ping_after, ping_timeout: Duration::from_secs(3), ..Http2Config::default() };
        let mut config = ClientConfig::new(format!("https://{addr}"));
        config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
        let client = RestClient::new(RestClientConfig { http2, ..config.into() }).unwrap();
        let started = Instant::now();
        let request = client.post();
        let ended = tokio::time::timeout(Duration::from_secs(60), request.stream()).await;
        match ping_after {
            Some(_) => {
                assert!(matches!(ended, Ok(Err(ApiError { kind: ErrorKind::Transport(_), .. }))), "{ended:?}");
                assert!(started.elapsed() >= Duration::from_secs(8), "{:?}", started.elapsed());
            }
            None => assert!(ended.is_err(), "nobody asked: {ended:?}"),
        }
    }
}

#[tokio::test]
async fn concurrent_requests_share_one_http2_connection() {
    let authority = Authority::new();
    let echo = Reply::By(|seen, _| Reply::json(200, seen.uri.clone()));
    let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
    let server = Server::start_with([], echo, Some(tls)).await;
    let client = RestClient::new(trusting(&server, &authority)).unwrap();
    soon(client.get().send()).await.unwrap();
    let answers = futures_util::future::join_all((0..30).map(|n| {
        let (request, path) = (client.get(), format!("/{n}"));
        async move { (request.abs_path([&path]).raw().await.unwrap(), path) }
    }));
    for (answer, path) in soon(answers).await {
        assert_eq!(answer, path);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelled_http2_request_keeps_its_connection() {
    let _clock = steady_clock();
    let authority = Authority::new();
    let script = [Reply::ok(), Reply::Silence];
    let server = scripted(script, &authority.issue("127.0.0.1"), &["h2"], None).await;
    let client = RestClient::new(trusting(&server, &authority)).unwrap();
    client.get().send().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(10), client.get().send()).await.is_err());
    client.get().send().await.unwrap();
    assert_eq!((server.seen().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn client_certificate_authenticates_requests() {
    let (authority, other) = (Authority::new(), Authority::new());
    for version in [&TLS12, &TLS13] {
        let tls = versioned(&[version], &authority.issue("127.0.0.1"), &["h2"], Some(&authority));
        let server = Server::start_with([], Reply::ok(), Some(tls)).await;
        let refused = |outcome: Result<(), ApiError>| match outcome.unwrap_err().kind {
            ErrorKind::Connect { refused: false, .. } => {}
            // With TLS 1.3, the client learns only after the handshake that its certificate was rejected. The test may
            // also get a transport error, if the connection is lost before the rejection arrives.
            ErrorKind::Transport(_) if version == &TLS13 => {}
            error => panic!("{version:?}: {error:?}"),
        };
        let mut config = trusting(&server, &authority);
        refused(get(config.clone()).await);
        let mut shown = Vec::new();
        for issuer in [&authority, &other, &authority] {
            let Pair { certificate, key } = issuer.issue("me");
            shown.push(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap().to_vec());
            config.tls.certificate = Some(PemSource::Inline(certificate.into()));
            config.tls.key = Some(PemSource::Inline(key.into()));
            let outcome = get(config.clone()).await;
            if std::ptr::eq(issuer, &other) { refused(outcome) } else { outcome.unwrap() }
        }
        shown.remove(1);
        let seen: Vec<_> = server.seen().iter().map(|seen| seen.certificate.as_ref().unwrap().to_vec()).collect();
        assert_eq!(seen, shown, "{version:?}");
    }
}

#[test]
fn mismatched_certificate_and_key_are_rejected_at_once() {
    let authority = Authority::new();
    let (one, two) = (authority.issue("one"), authority.issue("two"));
    let mut config = ClientConfig::new("https://host");
    config.tls.certificate = Some(PemSource::Inline(one.certificate.into()));
    config.tls.key = Some(PemSource::Inline(two.key.into()));
    let error = RestClient::new(config).unwrap_err().to_string();
    assert!(error.contains("tls.certificate"), "{error}");
}

fn write(path: &Path, pair: &Pair) {
    std::fs::write(path.join("cert"), &pair.certificate).unwrap();
    std::fs::write(path.join("key"), &pair.key).unwrap();
}

#[tokio::test(start_paused = true)]
async fn changed_client_certificate_applies_to_new_connections() {
    let _clock = steady_clock();
    let (authority, old) = (Authority::new(), Authority::new());
    let server = server(&authority.issue("127.0.0.1"), &["h2"], Some(&authority)).await;
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &old.issue("me"));
    let mut config = trusting(&server, &authority);
    config.tls.certificate = Some(PemSource::File(dir.path().join("cert")));
    config.tls.key = Some(PemSource::File(dir.path().join("key")));
    let client = RestClient::new(config).unwrap();
    client.get().max_retries(0).send().await.unwrap_err();

    // While only one of the two files is replaced, the client uses the old contents of both files.
    let fresh = authority.issue("me");
    std::fs::write(dir.path().join("cert"), &fresh.certificate).unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    client.get().max_retries(0).send().await.unwrap_err();

    write(dir.path(), &fresh);
    tokio::time::sleep(Duration::from_secs(11)).await;
    client.get().send().await.unwrap();
    std::fs::write(dir.path().join("cert"), authority.issue("me").certificate).unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    client.get().max_retries(0).send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changed_ca_is_trusted_without_restart() {
    let _clock = steady_clock();
    let (old, new) = (Authority::new(), Authority::new());
    let server = server(&new.issue("127.0.0.1"), &[], None).await;
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca");
    std::fs::write(&ca, old.pem()).unwrap();
    let mut config = server.config();
    config.tls.ca = Some(PemSource::File(ca.clone()));
    let client = RestClient::new(config).unwrap();
    client.get().send().await.unwrap_err();

    for content in [String::new(), "garbage".into()] {
        std::fs::write(&ca, content).unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        client.get().send().await.unwrap_err();
    }
    std::fs::write(&ca, new.pem()).unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    client.get().send().await.unwrap();
    // If a file becomes invalid or endless, the client continues to use the last valid certificates.
    std::fs::write(&ca, "garbage").unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    client.get().send().await.unwrap();
    #[cfg(unix)]
    {
        std::fs::remove_file(&ca).unwrap();
        std::os::unix::fs::symlink(crate::support::pipe(dir.path()), &ca).unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        client.get().send().await.unwrap();
    }
}

#[cfg(unix)]
#[test]
fn endless_certificate_file_is_rejected_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for path in [crate::support::pipe(dir.path()), "/dev/zero".into(), dir.path().into()] {
        let mut config = ClientConfig::new("https://host");
        config.tls.ca = Some(PemSource::File(path));
        let error = RestClient::new(config).unwrap_err().to_string();
        assert!(error.contains("tls.ca") && error.contains("not a regular file"), "{error}");
    }
}

#[cfg(unix)]
mod program {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};

    use super::*;

    /// Creates a credential plugin in the directory `dir`. On its nth run, the plugin returns the nth status.
    fn giving(dir: &Path, statuses: impl IntoIterator<Item = Value>) -> pintle_meta::ExecConfig {
        const VERSION: &str = "client.authentication.k8s.io/v1";
        for (at, status) in statuses.into_iter().enumerate() {
            let text = json!({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}).to_string();
            std::fs::write(dir.join(format!("credential-{}", at + 1)), text).unwrap();
        }
        let script = "cd \"$(dirname \"$0\")\"; echo x >> runs; cat credential-$(($(wc -l < runs)))";
        let program = dir.join("login");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        pintle_meta::ExecConfig {
            api_version: VERSION.into(),
            command: program.to_str().unwrap().into(),
            args: Vec::new(),
            env: Default::default(),
            install_hint: None,
            provide_cluster_info: false,
            cluster_extension: None,
            interactive_mode: pintle_meta::InteractiveMode::Never,
        }
    }

    fn shown(pair: Pair) -> Value {
        json!({"clientCertificateData": pair.certificate, "clientKeyData": pair.key})
    }

    #[tokio::test]
    async fn plugin_may_return_and_change_a_certificate() {
        let (authority, old) = (Authority::new(), Authority::new());
        let server = scripted([Reply::json(401, "")], &authority.issue("127.0.0.1"), &["h2"], Some(&authority)).await;
        let dir = tempfile::tempdir().unwrap();
        let mut config = trusting(&server, &authority);
        let pairs = [old.issue("me"), authority.issue("me"), authority.issue("me")];
        config.exec = Some(giving(dir.path(), pairs.map(shown)));
        let client = RestClient::new(config.clone()).unwrap();
        let error = soon(client.get().max_retries(0).send()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Connect { .. } | ErrorKind::Transport(_)), "{error:?}");

        // The second client also runs the plugin. The server rejects the client's first request with status 401, so the
        // client runs the plugin again and uses the new certificate.
        let memory = InMemoryProvider::new();
        let metrics = Some(Arc::new(memory.clone()) as _);
        let client = RestClient::new(RestClientConfig { metrics, ..config.into() }).unwrap();
        soon(client.get().send()).await.unwrap();
        assert_eq!(server.seen().len(), 2);
        let ages = memory.distribution("rest_client_exec_plugin_certificate_rotation_age", &[]).unwrap();
        assert_eq!(ages.count(), 1, "a certificate was replaced");
        assert_ne!(server.seen()[0].connection, server.seen()[1].connection);
        soon(client.get().send()).await.unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap().lines().count(), 3);
    }

    #[tokio::test]
    async fn plugin_token_replaces_its_certificate() {
        let authority = Authority::new();
        let server = scripted([Reply::json(401, "")], &authority.issue("127.0.0.1"), &["h2"], Some(&authority)).await;
        let dir = tempfile::tempdir().unwrap();
        let mut config = trusting(&server, &authority);
        config.exec = Some(giving(dir.path(), [shown(authority.issue("me")), json!({"token": "t"})]));
        // The second run of the plugin returns no certificate, and the server rejects clients without a certificate.
        let error = get(config).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Connect { .. } | ErrorKind::Transport(_)), "{error:?}");
        assert_eq!((server.seen().len(), server.connections()), (1, 2));
    }
}
