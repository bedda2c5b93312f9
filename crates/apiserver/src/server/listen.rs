//! Accepting connections. Every connection is a task that the server owns: it ends when the server does, WebSocket or not.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::serve;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait where the system has no more sockets to give.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts until `stop`.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    api: Arc<Api>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                let (tls, api, stop) = (tls.clone(), api.clone(), stop.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => (),
                        () = connection(socket, tls, api) => (),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, tls: Option<TlsAcceptor>, api: Arc<Api>) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "nodelay was refused");
    }
    let Some(tls) = tls else { return serve_on(socket, api).await };
    match tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(socket)) => serve_on(socket, api).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve_on(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, api: Arc<Api>) {
    let upgraded = Arc::new(Mutex::new(None));
    let slot = upgraded.clone();
    let service = service_fn(move |request| {
        let (api, slot) = (api.clone(), slot.clone());
        async move {
            let (response, socket) = serve::respond(api, request).await;
            if socket.is_some() {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = socket;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(100).keep_alive_interval(None);
    if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await {
        tracing::debug!(error = &*error, "a connection ended early");
    }
    let socket = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(socket) = socket {
        socket.run().await;
    }
}
