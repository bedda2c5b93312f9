//! A small HTTP/1.1 client, which opens a connection for each request and limits each wait with a timeout.
//!
//! The client shares no code with the crate `restreq`, so a bug in `restreq` cannot hide a bug in the server.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// The trusted certificate authorities for `https:` URLs.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Trusts certificates signed by these certificate authorities (in PEM).
    Authorities(Vec<u8>),
    /// Trusts any certificate. Use this option only for loopback servers with a self-signed certificate.
    Anyone,
}

pub(crate) struct Client {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The timeout for the head of a response, and for the body of a response that is not a stream.
    timeout: Duration,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A response with a partly read body. Dropping the response closes the connection.
pub(crate) struct Streaming {
    pub(crate) response: Response<Incoming>,
    timeout: Duration,
    _connection: AbortOnDropHandle<()>,
}

impl Client {
    pub(crate) fn new(url: &str, trust: &Trust, timeout: Duration) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("invalid URL {url:?}"))?;
        let host = uri.host().with_context(|| format!("the URL {url:?} has no host"))?.to_owned();
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => {
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                (Some((tls::connector(trust)?, name.with_context(|| format!("invalid host {host:?}"))?)), 443)
            }
            _ => bail!("the scheme of {url:?} is not http or https"),
        };
        Ok(Self { host, port: uri.port_u16().unwrap_or(port), tls, timeout })
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        self.open(request).await?.read_body().await
    }

    pub(crate) async fn open(&self, mut request: Request<Full<Bytes>>) -> anyhow::Result<Streaming> {
        let host = format!("{}:{}", self.host, self.port);
        request.headers_mut().insert(http::header::HOST, host.parse()?);
        let exchange = async {
            let stream = TcpStream::connect((self.host.trim_matches(['[', ']']), self.port)).await;
            let stream = stream.with_context(|| format!("connecting to {host}"))?;
            stream.set_nodelay(true)?;
            match &self.tls {
                Some((tls, name)) => send_on(tls.connect(name.clone(), stream).await.context("TLS")?, request).await,
                None => send_on(stream, request).await,
            }
        };
        let response =
            timeout(self.timeout, exchange).await.with_context(|| format!("no response within {:?}", self.timeout))?;
        let (response, connection) = response?;
        Ok(Streaming { response, timeout: self.timeout, _connection: connection })
    }
}

impl Streaming {
    pub(crate) async fn read_body(self) -> anyhow::Result<Answer> {
        let (head, body) = self.response.into_parts();
        let body = timeout(self.timeout, body.collect()).await;
        let body = body.with_context(|| format!("the response did not end within {:?}", self.timeout))??;
        let mut body = body.to_bytes();
        if head.headers.get(http::header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip") && !body.is_empty() {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&body[..]).read_to_end(&mut plain).context("gzip")?;
            body = plain.into();
        }
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// Waits for the next complete lines of the body. Returns the lines without line endings. Returns `None` at the end
    /// of the response body.
    pub(crate) async fn lines(&mut self, rest: &mut BytesMut) -> anyhow::Result<Option<Vec<Bytes>>> {
        loop {
            let mut lines = Vec::new();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1).freeze();
                lines.push(line.slice(..end));
            }
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
            let Some(frame) = self.response.body_mut().frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                rest.extend_from_slice(&data);
            }
        }
    }
}

/// Sends a request and returns the response and the task that drives the connection.
async fn send_on<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(Response<Incoming>, AbortOnDropHandle<()>)>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ignore the result, because the request and the body also return connection errors.
    let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let response = sender.send_request(request).await?;
    Ok((response, connection))
}

mod tls {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

    use super::{Arc, ServerName, TlsConnector, Trust};

    pub(super) fn connector(trust: &Trust) -> anyhow::Result<TlsConnector> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = match trust {
            Trust::Authorities(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    roots.add(certificate?)?;
                }
                config.with_root_certificates(roots)
            }
            Trust::Anyone => {
                config.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            }
        };
        Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
    }

    /// Accepts any certificate, but verifies that the server has its private key.
    #[derive(Debug)]
    struct AcceptAnyCertificate(Arc<CryptoProvider>);

    impl ServerCertVerifier for AcceptAnyCertificate {
        fn verify_server_cert(
            &self,
            _end_entity: &CertificateDer<'_>,
            _intermediates: &[CertificateDer<'_>],
            _server_name: &ServerName<'_>,
            _ocsp_response: &[u8],
            _now: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
