//! Serves webhooks over TLS.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_LENGTH;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::certificate::{CertificateError, CertificateFiles, Current, provider};
use crate::connections::{Connection, Connections, ReportedBody, in_transit};
use crate::webhooks::Webhooks;

/// The maximum number of open connections. At this limit, the server accepts a connection only after closing the
/// connection that has been idle longest, or else the longest-lived one. A connection counts as idle while all its
/// requests have incomplete bodies.
const CONNECTIONS: usize = 256;
/// The maximum number of requests in flight on an HTTP/2 connection. kube-apiserver uses a single connection for all its
/// calls.
const STREAMS: u32 = 250;
/// The maximum size of received data that waits for memory, for a request and for an HTTP/2 connection. A connection has
/// room for many waiting bodies, so that they do not block its other requests.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 8 << 20;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The maximum time that a connection may stay open without a request. The limit is longer than the 90 s after which
/// Go's HTTP clients close idle connections.
const IDLE: Duration = Duration::from_secs(120);
/// The maximum time for closing a connection without a request in flight.
const CLOSE: Duration = Duration::from_secs(1);
/// The interval between HTTP/2 pings. `PONG` is the timeout for the response to a ping.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);
/// The delay after `accept` has failed, for example because no file descriptor is available.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The timeout for sending a response. A client that does not receive a response in time loses its connection.
const SENDING: Duration = Duration::from_secs(10);
/// The time for which requests in flight may continue after the server was stopped.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves [`Webhooks`] over TLS with HTTP/1.1 and HTTP/2.
///
/// The server reads the certificate files again after each [period](CertificateFiles::period), and uses the new
/// certificate for new connections. If the files are invalid, the server logs one warning and keeps the old certificate.
///
/// # Examples
///
/// ```no_run
/// use pintle_webhook::{WebhookServer, Webhooks};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn serve(webhooks: Webhooks) -> Result<(), Box<dyn std::error::Error>> {
/// let server = WebhookServer::bind(([0, 0, 0, 0], 9443), "/etc/webhook-certificate", webhooks).await?;
/// server.run(&CancellationToken::new()).await;
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing until it runs"]
pub struct WebhookServer {
    listener: TcpListener,
    certificate: Arc<Current>,
    acceptor: TlsAcceptor,
    webhooks: Webhooks,
}

/// The reason why [`WebhookServer::bind`] failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WebhookServerError {
    /// The certificate cannot be used.
    #[error("cannot use the certificate for webhooks: {0}")]
    Certificate(#[from] CertificateError),
    /// The address cannot be used.
    #[error("cannot listen on {address} for webhooks: {cause}")]
    Listen {
        /// The address on which the server could not listen.
        address: SocketAddr,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The crypto provider that the program has installed does not support any version of TLS that rustls allows.
    #[error("cannot use the installed crypto provider for webhooks: {0}")]
    Tls(#[source] rustls::Error),
}

impl WebhookServer {
    /// Reads the certificate and listens on `address`. Clients can connect immediately, but the server handles no
    /// requests before the call to [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate or the crypto provider cannot be used, or the address is in use.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket if it is open.
    pub async fn bind(
        address: impl Into<SocketAddr>,
        files: impl Into<CertificateFiles>,
        webhooks: Webhooks,
    ) -> Result<Self, WebhookServerError> {
        let certificate = Arc::new(Current::load(files.into())?);
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(WebhookServerError::Tls)?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let address = address.into();
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|cause| WebhookServerError::Listen { address, cause })?;
        Ok(Self { listener, certificate, acceptor: TlsAcceptor::from(Arc::new(config)), webhooks })
    }

    /// Returns the address on which the server is listening. If the server was configured with port 0, the returned
    /// address contains the port that the operating system assigned.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot return the address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves webhooks until the `stop` token is cancelled. After the cancellation, requests in flight have up to 5 s to
    /// finish.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the listener and all open connections.
    pub async fn run(self, stop: &CancellationToken) {
        let Self { listener, certificate, acceptor, webhooks } = self;
        // If this future is dropped, the guard cancels all connections.
        let connections = stop.child_token();
        let _guard = connections.clone().drop_guard();
        let aborted = CancellationToken::new();
        let _abort = aborted.clone().drop_guard();
        let tasks = TaskTracker::new();
        let accept = accept(&listener, &acceptor, &webhooks, &connections, &aborted, &tasks);
        tokio::select! {
            () = stop.cancelled() => (),
            () = accept => (),
            () = reload(certificate) => (),
        }
        drop(listener);
        tasks.close();
        if timeout(DRAIN, tasks.wait()).await.is_err() {
            tracing::warn!("webhooks were still in flight {DRAIN:?} after the stop; their connections are closed");
        }
    }
}

async fn reload(certificate: Arc<Current>) {
    let mut ticks = interval(certificate.period().max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let certificate = certificate.clone();
        // Use a blocking task, because accessing files can block. `spawn_blocking` returns an error only if `reload` has
        // panicked.
        if tokio::task::spawn_blocking(move || certificate.reload()).await.is_err() {
            tracing::error!("the reload of the certificate for webhooks panicked");
        }
    }
}

async fn accept(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    webhooks: &Webhooks,
    stop: &CancellationToken,
    aborted: &CancellationToken,
    tasks: &TaskTracker,
) {
    let connections = Connections::new(CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(opened) = connections.open().await else { return };
                let connection = connection(stream, acceptor.clone(), webhooks.clone(), stop.clone(), opened);
                let aborted = aborted.clone();
                tasks.spawn(async move {
                    aborted.run_until_cancelled(connection).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for webhooks");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    acceptor: TlsAcceptor,
    webhooks: Webhooks,
    stop: CancellationToken,
    opened: Arc<Connection>,
) {
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream) => accepted,
        () = opened.is_useless(HANDSHAKE) => return tracing::debug!("the TLS handshake of a connection for webhooks timed out"),
        () = stop.cancelled() => return tracing::debug!("the server for webhooks stopped during a TLS handshake"),
    };
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "the TLS handshake of a connection for webhooks failed"),
    };
    tokio::select! {
        () = serve(stream, webhooks, stop, opened.clone()) => {}
        () = opened.is_stuck() => tracing::debug!("a client of webhooks did not receive a response within {SENDING:?}"),
    }
}

async fn serve(
    stream: TlsStream<impl AsyncRead + AsyncWrite + Unpin + Send + 'static>,
    webhooks: Webhooks,
    stop: CancellationToken,
    opened: Arc<Connection>,
) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let requests = opened.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let in_flight = Arc::new(requests.request());
        let request = request.map(|body| ReportedBody { body, request: in_flight.clone() });
        let answer = webhooks.clone().call(request);
        async move {
            let mut response = answer.await?;
            // The body below does not announce its length.
            let length = response.body().size_hint().exact().unwrap_or_default();
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
            Ok::<_, Infallible>(response.map(|body| in_transit(body, in_flight, SENDING)))
        }
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    // Without this timer, a client could keep the connection open by sending nothing after the handshake.
    http = if is_http2 { http.http2_only() } else { http.http1_only() };
    http.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ends = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = opened.is_useless(IDLE) => {}
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ends => {
            connection.as_mut().graceful_shutdown();
            loop {
                match timeout(CLOSE, connection.as_mut()).await {
                    Ok(ended) => break ended,
                    // A request is in flight, so keep the connection open.
                    Err(_) if opened.is_busy() => {}
                    Err(_) => return tracing::debug!("closed an idle connection for webhooks"),
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "a connection for webhooks ended early");
    }
}

pintle_meta::debug_struct!(WebhookServer |self| { address = self.local_address(), certificate, webhooks, .. });

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http::Response;
    use http_body::{Body, Frame};
    use http_body_util::{BodyExt, Full};
    use hyper::client::conn::http2;
    use pintle_meta::ObjectMeta;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use serde::{Deserialize, Serialize};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::admission::Admission;
    use crate::answer::Denial;
    use crate::hub::Hub;
    use crate::webhook::Webhook;

    #[derive(Deserialize, Serialize)]
    struct Website {
        metadata: ObjectMeta,
    }
    pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);

    fn tls(protocol: &str) -> (TlsAcceptor, TlsConnector) {
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["a.svc".into()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let provider = provider();
        let server =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let mut server = server.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut client = client.with_root_certificates(roots).with_no_client_auth();
        server.alpn_protocols = vec![protocol.into()];
        client.alpn_protocols = vec![protocol.into()];
        (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)))
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_sends_no_request_is_disconnected() {
        for protocol in ["h2", "http/1.1"] {
            let (acceptor, connector) = tls(protocol);
            let (client, server) = duplex(1 << 16);
            let opened = Connections::new(1).open().await.unwrap();
            let serve = connection(server, acceptor, Webhooks::new(), CancellationToken::new(), opened);
            let start = Instant::now();
            let silent = async {
                let name = ServerName::try_from("a.svc").unwrap();
                let mut stream = connector.connect(name, client).await.unwrap();
                // The server may already have sent its HTTP/2 settings. Ignore read errors, because the server closes
                // the connection without a TLS alert.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            };
            tokio::join!(serve, silent);
            assert!((IDLE..IDLE + 2 * CLOSE).contains(&start.elapsed()), "{protocol}: {:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stop_does_not_wait_for_a_half_open_connection() {
        for sent in [None, Some("POST / HTTP/1.1\r\nhost:")] {
            let (acceptor, connector) = tls("http/1.1");
            let (client, server) = duplex(1 << 16);
            let (opened, stop) = (Connections::new(1).open().await.unwrap(), CancellationToken::new());
            let serve = connection(server, acceptor, Webhooks::new(), stop.clone(), opened);
            let start = Instant::now();
            let half_open = async {
                // Without `sent`, the client does not start the handshake.
                let Some(sent) = sent else {
                    stop.cancel();
                    return std::future::pending().await;
                };
                let mut stream = connector.connect(ServerName::try_from("a.svc").unwrap(), client).await.unwrap();
                stream.write_all(sent.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                stop.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = serve => {}
                () = half_open => {}
            }
            assert!(start.elapsed() <= 2 * CLOSE, "{sent:?}: {:?}", start.elapsed());
        }
    }

    /// A request body that is either empty or never arrives.
    struct EmptyOrNever(bool);

    impl Body for EmptyOrNever {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.0 { Poll::Ready(None) } else { Poll::Pending }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_an_incomplete_body_gives_way() {
        let (acceptor, connector) = tls("h2");
        let (client, server) = duplex(1 << 16);
        let connections = Connections::new(1);
        let opened = connections.open().await.unwrap();
        let webhooks = Webhooks::new().add(Webhook::validate(async |_: Admission<Website>| Ok::<_, Denial>(())));
        let path = webhooks.paths().next().unwrap().to_owned();
        let request = |method: &str, is_empty| {
            let request = Request::builder().method(method).uri(format!("https://a.svc{path}"));
            request.body(EmptyOrNever(is_empty)).unwrap()
        };
        let start = Instant::now();
        let slow = async {
            let stream = connector.connect(ServerName::try_from("a.svc").unwrap(), client).await.unwrap();
            let (mut client, open) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(open);
            let incomplete = tokio::spawn(client.send_request(request("POST", false)));
            // The response shows that the server has also received the request before.
            assert_eq!(client.send_request(request("GET", true)).await.unwrap().status(), 405);
            assert!(connections.open().await.is_some() && start.elapsed() <= 2 * CLOSE, "{:?}", start.elapsed());
            assert!(incomplete.await.unwrap().is_err());
        };
        tokio::join!(connection(server, acceptor, webhooks, CancellationToken::new(), opened), slow);
    }

    const OBJECT: usize = 1 << 20;

    /// Returns a review with an object whose conversion returns the same object.
    fn conversion() -> Request<Full<Bytes>> {
        let padding = "x".repeat(OBJECT);
        let object = json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {}, "padding": padding});
        let request = json!({"uid": "1", "desiredAPIVersion": "example.com/v1", "objects": [object]});
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
        let request = Request::post("https://a.svc/convert/example.com/websites");
        request.body(Full::from(review.to_string())).unwrap()
    }

    /// Serves a connection, and calls `client` with the response to a conversion, of which the client has received only
    /// the first 16 KiB.
    async fn with_response_in_transit<F: Future<Output = ()>>(
        client: impl FnOnce(Response<Incoming>, Webhooks, CancellationToken) -> F,
    ) {
        let (acceptor, connector) = tls("h2");
        let (stream, server) = duplex(1 << 16);
        let opened = Connections::new(1).open().await.unwrap();
        let (webhooks, stop) = (Webhooks::new().convert(Hub::<Website>::new()), CancellationToken::new());
        let serve =
            timeout(Duration::from_secs(600), connection(server, acceptor, webhooks.clone(), stop.clone(), opened));
        let client = async {
            let stream = connector.connect(ServerName::try_from("a.svc").unwrap(), stream).await.unwrap();
            let mut http = http2::Builder::new(TokioExecutor::new());
            http.initial_stream_window_size(1 << 14);
            let (mut sender, open) = http.handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(open);
            let response = sender.send_request(conversion()).await.unwrap();
            client(response, webhooks, stop).await;
        };
        let (served, ()) = tokio::join!(serve, client);
        served.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn response_in_transit_uses_the_memory_budget() {
        with_response_in_transit(async |response, webhooks, _| {
            assert!(webhooks.budget.used() >= OBJECT as isize, "{} bytes", webhooks.budget.used());
            let length = response.headers()["content-length"].to_str().unwrap().parse::<usize>().unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), length);
            assert!(length >= OBJECT);
            assert_eq!(webhooks.budget.used(), 0);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_a_response_in_transit() {
        with_response_in_transit(async |response, _, stop| {
            stop.cancel();
            sleep(3 * CLOSE).await;
            assert!(response.into_body().collect().await.unwrap().to_bytes().len() >= OBJECT);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn response_that_is_not_received_closes_the_connection() {
        with_response_in_transit(async |response, webhooks, _| {
            assert!(webhooks.budget.used() > 0);
            sleep(SENDING + CLOSE).await;
            assert_eq!(webhooks.budget.used(), 0);
            assert!(response.into_body().collect().await.is_err());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_bodies_do_not_block_their_connection() {
        let (acceptor, connector) = tls("h2");
        let (stream, server) = duplex(1 << 16);
        let opened = Connections::new(1).open().await.unwrap();
        let webhooks = Webhooks::new().convert(Hub::<Website>::new());
        let responses = webhooks.budget.charge(vec![0; 256 << 20]);
        let client = async {
            let stream = connector.connect(ServerName::try_from("a.svc").unwrap(), stream).await.unwrap();
            let (mut sender, open) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            let open = tokio::spawn(open);
            let waiting: Vec<_> = (0..20).map(|_| tokio::spawn(sender.send_request(conversion()))).collect();
            sleep(CLOSE).await;
            let small = Request::post("https://a.svc/convert/example.com/websites").body(Full::from("no review"));
            let start = Instant::now();
            assert_eq!(sender.send_request(small.unwrap()).await.unwrap().status(), 400);
            assert_eq!(start.elapsed(), Duration::ZERO);
            drop(responses);
            for response in waiting {
                assert_eq!(response.await.unwrap().unwrap().status(), 200);
            }
            open.abort();
        };
        tokio::join!(connection(server, acceptor, webhooks, CancellationToken::new(), opened), client);
    }
}
