//! Sends reviews to webhooks over HTTPS, with the error messages of kube-apiserver.

mod http_status;
mod local;
mod redirect;
mod tls;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

pub use self::local::{LocalAnswer, LocalHandler, LocalWebhooks};
use crate::offload;

/// The maximum size of a response body from a webhook, in bytes.
const LONGEST_RESPONSE: usize = 64 << 20;

/// The maximum number of redirects to follow, as in Go.
const MAX_REDIRECTS: usize = 10;

/// The URL of a webhook, and the certificate authorities that the client trusts for it.
#[derive(Clone, Debug)]
pub struct WebhookTarget {
    /// The URL without a query.
    pub url: String,
    /// The trusted certificate authorities as PEM. If `ca_bundle` is empty, the client trusts the authorities of the
    /// operating system.
    pub ca_bundle: Vec<u8>,
}

/// Sends a review to a webhook, and returns the response body. If `address` is set, the client connects to `address`
/// instead of the address in the URL. The whole call takes at most `timeout`.
///
/// # Errors
///
/// Returns an error message if the call fails.
///
/// # Cancel safety
///
/// Dropping the future cancels the call.
pub async fn send(
    target: WebhookTarget,
    review: String,
    address: Option<SocketAddr>,
    timeout: Duration,
) -> Result<Arc<str>, String> {
    let bundle_bytes = target.ca_bundle.len();
    // Send the review on another thread if the operating system's verifier or a long bundle could block this thread.
    if bundle_bytes == 0 || offload::is_long(bundle_bytes) || is_clock_paused() {
        send_on_other_thread(target, review, address, timeout).await
    } else {
        exchange(&target, review, address, timeout).await
    }
}

/// Returns `true` if a test has paused the clock of the current runtime.
fn is_clock_paused() -> bool {
    let (before, real) = (Instant::now(), std::time::Instant::now());
    while real == std::time::Instant::now() {
        std::hint::spin_loop();
    }
    before == Instant::now()
}

/// Sends a review on a blocking thread with a separate tokio runtime and clock. While this thread waits for the
/// response, a test's paused clock does not advance.
async fn send_on_other_thread(
    target: WebhookTarget,
    review: String,
    address: Option<SocketAddr>,
    timeout: Duration,
) -> Result<Arc<str>, String> {
    let (mut sender, receiver) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let answer = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
            let answer = runtime.block_on(async {
                tokio::select! {
                    answer = exchange(&target, review, address, timeout) => answer,
                    () = sender.closed() => Err("the request was cancelled".into()),
                }
            });
            // Shut down in the background, because a name lookup may block a thread of this runtime.
            runtime.shutdown_background();
            answer
        });
        // Ignore the error, which means that the caller has cancelled the call.
        drop(sender.send(answer));
    });
    receiver.await.unwrap_or_else(|_| Err("the runtime of the server has stopped".into()))
}

async fn exchange(
    target: &WebhookTarget,
    review: String,
    address: Option<SocketAddr>,
    timeout: Duration,
) -> Result<Arc<str>, String> {
    received(&target.url, timeout, async |url| follow(target, url, review.into(), address).await).await
}

/// Sends a review with `exchange`, which receives the URL with its query, and returns the response body.
async fn received(
    url: &str,
    timeout: Duration,
    exchange: impl AsyncFnOnce(&str) -> Result<Exchanged, String>,
) -> Result<Arc<str>, String> {
    let url = format!("{url}?timeout={}s", timeout.as_secs());
    let failed = |why: &str| format!("Post {url:?}: {why}");
    let (status, content_type, body) = match tokio::time::timeout(timeout, exchange(&url)).await {
        Ok(answer) => answer.map_err(|why| failed(&why))?,
        Err(_) => return Err(failed("context deadline exceeded")),
    };
    let text = String::from_utf8_lossy(&body);
    match http_status::error(status, &content_type, &text) {
        Some(why) => Err(why),
        None => Ok(text.into()),
    }
}

/// The status, the content type and the body of a response.
type Exchanged = (StatusCode, String, Bytes);

/// Sends a POST request and follows redirects, like Go.
async fn follow(
    target: &WebhookTarget,
    url: &str,
    body: Bytes,
    address: Option<SocketAddr>,
) -> Result<Exchanged, String> {
    let (mut uri, mut method, mut address) = (parse(url)?, Method::POST, address);
    for _ in 0..=MAX_REDIRECTS {
        let sent = if method == Method::POST { body.clone() } else { Bytes::new() };
        let (connection, response) = request(target, &uri, method.clone(), sent, address).await?;
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let location = location.filter(|location| !location.is_empty());
        if let (301 | 302 | 303 | 307 | 308, Some(location)) = (status.as_u16(), location) {
            let to = redirect::resolve(&uri, &location)?;
            let from = std::mem::replace(&mut uri, to);
            address = address.filter(|_| uri.authority() == from.authority());
            if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
                method = Method::GET;
            }
            continue;
        }
        let content_type = content_type(&response);
        let body = Limited::new(response.into_body(), LONGEST_RESPONSE).collect().await;
        drop(connection);
        return Ok((status, content_type, body.map_err(|error| words(&*error))?.to_bytes()));
    }
    Err(format!("stopped after {MAX_REDIRECTS} redirects"))
}

fn content_type<B>(response: &Response<B>) -> String {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.unwrap_or_default().to_owned()
}

fn parse(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => Ok(uri),
        (Some("https"), None) => Err("http: no Host in request URL".into()),
        (scheme, _) => Err(format!("unsupported protocol scheme {:?}", scheme.unwrap_or_default())),
    }
}

/// Sends a request on a new connection. Dropping the returned handle closes the connection.
async fn request(
    target: &WebhookTarget,
    uri: &Uri,
    method: Method,
    body: Bytes,
    address: Option<SocketAddr>,
) -> Result<(AbortOnDropHandle<hyper::Result<()>>, Response<Incoming>), String> {
    let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream = match address {
        Some(address) => TcpStream::connect(address).await,
        None => TcpStream::connect((name.as_str(), port)).await,
    };
    let stream = stream.map_err(|error| dial_error(&error, host, port, address))?;
    let server_name = name.clone().try_into().map_err(|_| format!("invalid host name {name:?}"))?;
    let config = tls::config(&target.ca_bundle)?;
    let stream = TlsConnector::from(config).connect(server_name, stream).await;
    let stream = stream.map_err(|error| tls::words(&error, &name))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| words(&error))?;
    let connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = unsent(uri, method, body)?;
    let response = sender.send_request(request).await.map_err(|error| words(&error))?;
    Ok((connection, response))
}

/// Returns a request with the headers of kube-apiserver.
fn unsent(uri: &Uri, method: Method, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body));
    request.map_err(|error| error.to_string())
}

/// Returns Go's message for a failed connection attempt.
fn dial_error(error: &io::Error, host: &str, port: u16, address: Option<SocketAddr>) -> String {
    let to = address.map_or_else(|| format!("{host}:{port}"), |address| address.to_string());
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("dial tcp {to}: connect: connection refused"),
        io::ErrorKind::NetworkUnreachable => format!("dial tcp {to}: connect: network is unreachable"),
        io::ErrorKind::HostUnreachable => format!("dial tcp {to}: connect: no route to host"),
        _ if error.raw_os_error().is_none() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {to}: {error}"),
    }
}

/// Returns the message of the innermost cause, or Go's message for a connection that has ended too early.
fn words(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    loop {
        if let Some(error) = cause.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed())
        {
            return "EOF".into();
        }
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::UnexpectedEof
        {
            return "EOF".into();
        }
        match cause.source() {
            Some(source) => cause = source,
            None => return cause.to_string(),
        }
    }
}
