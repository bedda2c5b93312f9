//! Accepting connections. Every connection is a task that the server owns: it ends when the server does, WebSocket or not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::process::{Resource, getrlimit};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::activity::{ANSWER_GRACE, Activity, Answered, Heard};
use super::framing;
use super::front::Front;
use super::heads::{Heads, NoRoom};
use super::streams::{self, Streams};

/// How many requests are answered on a connection at once, where it is of HTTP/2: as on a real server.
const MOST_STREAMS: u32 = 100;
/// So many bytes of headers are taken over HTTP/2: as many as a real server takes.
const LONGEST_HEAD: u32 = 1 << 20;
/// So many headers are taken over HTTP/1, where a real server counts their bytes.
const MOST_HEADERS: usize = 1_000;
/// How often a connection of HTTP/2 is asked whether its client is there, and how long that may take to answer.
const PING: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);
/// After how long of silence, and then how often, the system asks the other side of any connection. Four times, then it ends.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;
/// How long a connection that is to end may take to.
const FAREWELL: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait where the system has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections there may be, where so many are wanted. A socket is a file, and the process has others to open.
pub(super) fn room(wanted: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    wanted.min(files.unwrap_or(usize::MAX) / 2).clamp(1, Semaphore::MAX_PERMITS)
}

/// Accepts until `stop`, so many connections at once. More wait for one of these to end.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    front: Front,
    most: usize,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let (room, heads) = (Arc::new(Semaphore::new(most)), Heads::new());
    loop {
        let accept = async {
            // It fails only where the semaphore is closed, which nobody does.
            let place = room.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accept => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                let (tls, front, heads, stop) = (tls.clone(), front.clone(), heads.clone(), stop.clone());
                tasks.spawn(async move {
                    let _place = place;
                    tokio::select! {
                        () = stop.cancelled() => (),
                        () = connection(socket, tls, front, heads) => (),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, tls: Option<TlsAcceptor>, front: Front, heads: Heads) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "nodelay was refused");
    }
    // A client that is gone without a word is told from one that only listens.
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    if let Err(error) = SockRef::from(&socket).set_tcp_keepalive(&probes) {
        tracing::debug!(%error, "keep-alive was refused");
    }
    let Some(tls) = tls else { return serve_on(socket, front, heads).await };
    match tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(socket)) => serve_on(socket, front, heads).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve_on(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, front: Front, heads: Heads) {
    let upgraded = Arc::new(Mutex::new(None));
    let activity = Activity::new(heads);
    let (slot, requests, streams) = (upgraded.clone(), activity.clone(), Streams::default());
    let come = streams.clone();
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        come.next(request.body().is_end_stream());
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let (front, slot, requests) = (front.clone(), slot.clone(), requests.clone());
        let (version, open) = (request.version(), requests.open(&request));
        let refusal = framing::refusal(&request);
        async move {
            // The connection ends; a stream of HTTP/2 is reset.
            let open = open?;
            if let Some(refusal) = refusal {
                return Ok(refusal.map(|body| Answered::new(body, open, version)));
            }
            let (response, socket) = front
                .respond(request, |deadline| {
                    streams::answer_by(deadline.at());
                    requests.answer_by(deadline.at());
                })
                .await;
            if socket.is_some() {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = socket;
            }
            Ok::<_, NoRoom>(response.map(|body| Answered::new(body, open, version)))
        }
    });
    let mut builder = auto::Builder::new(streams);
    // What of this is bounded in time is for the activity to say.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LONGEST_HEAD as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(LONGEST_HEAD)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_ANSWER);
    let socket = TokioIo::new(Heard::new(socket, activity.clone()));
    let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(socket, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = activity.overdue() => {
            // HTTP/2 tells its clients, so that none of them takes it for a failure.
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(FAREWELL, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "a connection ended early");
    }
    let socket = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(socket) = socket {
        let _open = activity.hold();
        let (ends, run) = (socket.ends(), socket.run());
        match ends {
            Some(ends) => {
                if tokio::time::timeout_at(ends + ANSWER_GRACE, run).await.is_err() {
                    tracing::debug!("a WebSocket was cut, since nobody reads it");
                }
            }
            None => run.await,
        }
    }
}
