//! Accepts connections. Each connection, including a WebSocket, has its own task. All connection tasks end when the
//! server stops.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use pintle_meta::__private::Mutex;
use pintle_serving::activity::{ANSWER_GRACE, Activity, ObservedSocket, TrackedBody};
use pintle_serving::framing;
use pintle_serving::heads::{HeadBudgetExceeded, Heads};
use pintle_serving::streams::{self, Streams};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::Front;

/// The maximum number of concurrent streams per HTTP/2 connection, as in kube-apiserver.
const MAX_STREAMS: u32 = 100;
/// The maximum total header size of an HTTP/2 request in bytes, as in kube-apiserver.
const MAX_HEAD_BYTES: u32 = 1 << 20;
/// The maximum number of headers in an HTTP/1 request. kube-apiserver limits the header size instead.
const MAX_HEADERS: usize = 1_000;
/// The interval between HTTP/2 pings, and the maximum time until the client responds to a ping.
const PING: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);
/// The settings of TCP keep-alive: the idle time before the first probe, the interval between probes, and the number of
/// failed probes that close the connection.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;
const GRACEFUL_SHUTDOWN: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The pause after a failed accept, for example because the process has no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Returns the maximum number of concurrent connections: the smaller of `wanted` and half of the process's open file
/// limit.
pub(super) fn connection_limit(wanted: usize) -> usize {
    wanted.min(max_open_files().unwrap_or(usize::MAX) / 2).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(unix)]
fn max_open_files() -> Option<usize> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok())
}

#[cfg(not(unix))]
fn max_open_files() -> Option<usize> {
    None
}

/// Accepts connections until the `stop` token is cancelled. When `limit` connections are
/// open, further clients wait in the listener's backlog.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    front: Front,
    limit: usize,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let (permits, heads) = (Arc::new(Semaphore::new(limit)), Heads::default());
    loop {
        let accept = async {
            // Acquiring a permit cannot fail, because the semaphore is never closed.
            let permit = permits.clone().acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accept => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                let (tls, front, heads, stop) = (tls.clone(), front.clone(), heads.clone(), stop.clone());
                tasks.spawn(async move {
                    let _permit = permit;
                    tokio::select! {
                        () = stop.cancelled() => (),
                        () = connection(socket, tls, front, heads) => (),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, tls: Option<TlsAcceptor>, front: Front, heads: Heads) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // Keep-alive probes detect clients that disappear during a watch without closing the connection.
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    if let Err(error) = SockRef::from(&socket).set_tcp_keepalive(&probes) {
        tracing::debug!(%error, "cannot set TCP keep-alive");
    }
    let Some(tls) = tls else { return serve_on(socket, front, heads).await };
    match tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(socket)) => serve_on(socket, front, heads).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

async fn serve_on(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, front: Front, heads: Heads) {
    let upgraded = Arc::new(Mutex::new(None));
    let activity = Activity::new(heads);
    let (slot, requests, streams) = (upgraded.clone(), activity.clone(), Streams::default());
    let incoming = streams.clone();
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        incoming.set_next(request.body().is_end_stream());
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let (front, slot, requests) = (front.clone(), slot.clone(), requests.clone());
        let (version, open) = (request.version(), requests.open(&request));
        let refusal = framing::refusal(&request).or_else(|| front.refusal(&request));
        async move {
            // Return an error if the budget for request heads is exhausted. The error closes an HTTP/1 connection, but
            // only resets a single stream of an HTTP/2 connection.
            let open = open?;
            if let Some(refusal) = refusal {
                return Ok(refusal.map(|body| TrackedBody::new(body, open, version)));
            }
            let (response, socket) = front
                .respond(request, |deadline| {
                    streams::answer_by(deadline.at());
                    requests.answer_by(deadline.at());
                })
                .await;
            if socket.is_some() {
                *slot.lock() = socket;
            }
            Ok::<_, HeadBudgetExceeded>(response.map(|body| TrackedBody::new(body, open, version)))
        }
    });
    let mut builder = auto::Builder::new(streams);
    // Do not set hyper's timeouts, because `Activity` closes slow connections.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_ANSWER);
    let socket = TokioIo::new(ObservedSocket::new(socket, activity.clone()));
    let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(socket, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = activity.overdue() => {
            // On an HTTP/2 connection, the shutdown sends GOAWAY. Without GOAWAY, the client would report a failed
            // connection.
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(GRACEFUL_SHUTDOWN, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "connection ended early");
    }
    let socket = upgraded.lock().take();
    if let Some(socket) = socket {
        let _open = activity.hold_open();
        let (ends, run) = (socket.ends(), socket.run());
        match ends {
            Some(ends) => {
                if tokio::time::timeout_at(ends + ANSWER_GRACE, run).await.is_err() {
                    tracing::debug!("closed a WebSocket that the client does not read");
                }
            }
            None => run.await,
        }
    }
}
