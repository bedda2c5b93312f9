//! Measures GET requests with hyper, without a client library. The connections are opened before the measurement,
//! and errors are ignored.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::client::conn::{http1, http2};
use hyper::header::{ACCEPT, HOST};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use pintle_meta::PemSource;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::get::{Getter, check, run};
use super::{Protocol, Setting};
use crate::meter::Sample;

/// Measures `at_once` concurrent clients. Over HTTP/1.1, each client has a separate connection. Over HTTP/2, all
/// clients share one connection.
pub(super) fn get(setting: &Setting, runtime: &Runtime, at_once: usize, protocol: Protocol) -> Sample {
    let server = Server::new(setting, protocol);
    let getters = runtime.block_on(async {
        let mut getters: Vec<Bare> = Vec::new();
        while getters.len() < at_once {
            let sender = match getters.last().map(|getter| &getter.sender) {
                Some(Sender::Http2(sender)) => Sender::Http2(sender.clone()),
                _ => server.connect(protocol).await,
            };
            getters.push(Bare { server: server.clone(), sender });
        }
        getters
    });
    run(setting, runtime, getters)
}

#[derive(Clone)]
struct Server {
    scheme: String,
    authority: String,
    tls: Option<TlsConnector>,
}

struct Bare {
    server: Server,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Server {
    fn new(setting: &Setting, protocol: Protocol) -> Self {
        let config = protocol.config(setting);
        let (scheme, authority) = config.server.split_once("://").expect("the server is a URL");
        let tls = config.tls.ca.map(|ca| {
            let pem = match &ca {
                PemSource::Inline(pem) => pem.clone(),
                PemSource::File(path) => std::fs::read(path).expect("cannot read the CA file"),
            };
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(&pem).expect("a valid certificate")).expect("a valid CA");
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
            let builder = builder.with_safe_default_protocol_versions().expect("the provider has TLS versions");
            let mut config = builder.with_root_certificates(roots).with_no_client_auth();
            let http2 = protocol == Protocol::Http2;
            config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
            TlsConnector::from(Arc::new(config))
        });
        Self { scheme: scheme.to_owned(), authority: authority.to_owned(), tls }
    }

    async fn connect(&self, protocol: Protocol) -> Sender {
        let tcp = TcpStream::connect(&self.authority).await.expect("the server listens");
        tcp.set_nodelay(true).expect("cannot configure the socket");
        match &self.tls {
            None => Sender::over(tcp, protocol).await,
            Some(tls) => {
                let name = ServerName::try_from("127.0.0.1").expect("a valid address");
                Sender::over(tls.connect(name, tcp).await.expect("the TLS handshake succeeds"), protocol).await
            }
        }
    }
}

impl Sender {
    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, protocol: Protocol) -> Self {
        let stream = TokioIo::new(stream);
        // Do not wait for the connection task, because the connection stays open until the program exits.
        if protocol == Protocol::Http2 {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), stream).await.expect("the HTTP/2 handshake succeeds");
            drop(tokio::spawn(connection));
            return Self::Http2(sender);
        }
        let (sender, connection) = http1::handshake(stream).await.expect("the HTTP/1.1 handshake succeeds");
        drop(tokio::spawn(connection));
        Self::Http1(sender)
    }
}

impl Getter for Bare {
    async fn get_once(&mut self) {
        const PATH: &str = "/api/v1/namespaces/default/configmaps/small";
        let Server { scheme, authority, .. } = &self.server;
        let request = Request::get(match &self.sender {
            Sender::Http1(_) => PATH.to_owned(),
            Sender::Http2(_) => format!("{scheme}://{authority}{PATH}"),
        });
        let request = request.header(ACCEPT, "application/json");
        let answer = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.expect("the server keeps the connection");
                let request = request.header(HOST, authority).body(Empty::new()).expect("a valid request");
                sender.send_request(request).await
            }
            Sender::Http2(sender) => sender.send_request(request.body(Empty::new()).expect("a valid request")).await,
        };
        let body = answer.expect("the server answers").into_body().collect().await.expect("a complete body");
        check(&serde_json::from_slice::<ConfigMap>(&body.to_bytes()).expect("a valid config map"));
    }
}
