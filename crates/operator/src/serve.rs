//! The HTTP server for probes, metrics and the debug page.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pintle_controller::{Health, HealthCheck, ManagerStatus};
use pintle_meta::__private::Mutex;
use pintle_metrics::InMemoryProvider;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::debug::Debug;
use crate::error::OperatorError;

/// The timeout for receiving the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// The maximum duration of a connection, which serves one request.
const CONNECTION: Duration = Duration::from_secs(30);
/// The maximum number of open connections. When this number is reached, accepting a connection closes an older
/// connection.
const CONNECTIONS: usize = 64;
/// The delay after `accept` has failed, for example because no file descriptors are available.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

pub(crate) type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) status: ManagerStatus,
    pub(crate) metrics: InMemoryProvider,
    /// The reason why the controllers are not running yet, or `None` when they run.
    pub(crate) waits: Arc<Mutex<Option<String>>>,
    pub(crate) live_checks: Vec<(String, Check)>,
    pub(crate) ready_checks: Vec<(String, Check)>,
    pub(crate) debug: Option<Arc<Debug>>,
}

/// The address or the listener on which the server accepts connections.
#[derive(Debug)]
pub(crate) enum Listen {
    Address(SocketAddr),
    Listener(TcpListener),
}

impl Listen {
    pub(crate) async fn bind(self) -> Result<TcpListener, OperatorError> {
        match self {
            Self::Address(address) => {
                TcpListener::bind(address).await.map_err(|cause| OperatorError::Listen { address, cause })
            }
            Self::Listener(listener) => Ok(listener),
        }
    }
}

struct Connection {
    task: AbortHandle,
    has_request: Arc<AtomicBool>,
}

pub(crate) async fn serve(listener: TcpListener, page: Page) -> Infallible {
    let (mut tasks, mut open) = (JoinSet::new(), VecDeque::new());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for probes and metrics");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        make_room(&mut open);
        let has_request = Arc::<AtomicBool>::default();
        let task = tasks.spawn(page.clone().serve(stream, has_request.clone()));
        open.push_back(Connection { task, has_request });
    }
}

/// Closes a connection if the connection limit is reached. Prefers the oldest connection that has not sent a request,
/// or else closes the oldest connection. Therefore, a client that opens connections without sending requests cannot
/// delay probes.
fn make_room(open: &mut VecDeque<Connection>) {
    open.retain(|connection| !connection.task.is_finished());
    if open.len() >= CONNECTIONS {
        let waiting = open.iter().position(|connection| !connection.has_request.load(Ordering::Relaxed));
        if let Some(connection) = open.remove(waiting.unwrap_or(0)) {
            connection.task.abort();
        }
    }
}

impl Page {
    async fn serve(self, stream: TcpStream, has_request: Arc<AtomicBool>) {
        let service = service_fn(|request| {
            has_request.store(true, Ordering::Relaxed);
            let response = self.response(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
        match timeout(CONNECTION, http.serve_connection(TokioIo::new(stream), service)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection for probes and metrics failed"),
            Err(_) => tracing::debug!("a connection for probes and metrics timed out"),
        }
    }

    fn response(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n".into());
        }
        let is_verbose = request.uri().query().is_some_and(|query| query.split('&').any(|name| name == "verbose"));
        match (request.uri().path(), &self.debug) {
            ("/healthz" | "/livez", _) => health(&self.live(), is_verbose),
            ("/readyz", _) => health(&self.ready(), is_verbose),
            ("/metrics", _) => self.metrics(),
            ("/debug", Some(debug)) => debug.page(),
            ("/debug.json", Some(debug)) => {
                debug.json(request.uri().query(), &self.live(), &self.ready(), self.waits_for())
            }
            (path, debug) => {
                let paths = if debug.is_some() { PATHS } else { PATHS_WITHOUT_DEBUG };
                text(StatusCode::NOT_FOUND, format!("{path} is not one of {}\n", paths.join(", ")))
            }
        }
    }

    pub(crate) fn live(&self) -> Health {
        with_checks(self.status.health(), &self.live_checks)
    }

    pub(crate) fn ready(&self) -> Health {
        let mut health = with_checks(self.status.ready(), &self.ready_checks);
        let waits = self.waits_for();
        if waits.is_some() {
            health.checks.push(HealthCheck { name: "start".into(), problem: waits });
        }
        health
    }

    fn waits_for(&self) -> Option<String> {
        self.waits.lock().clone()
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.metrics.clone()));
        let mut body = String::new();
        match encode(&mut body, &registry) {
            Ok(()) => response(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", body),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the metrics: {error}\n")),
        }
    }
}

const PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/metrics", "/debug", "/debug.json"];
const PATHS_WITHOUT_DEBUG: &[&str] = &["/healthz", "/livez", "/readyz", "/metrics"];

fn with_checks(mut health: Health, checks: &[(String, Check)]) -> Health {
    health
        .checks
        .extend(checks.iter().map(|(name, check)| HealthCheck { name: name.clone(), problem: run_check(check).err() }));
    health
}

/// Runs a health check that the program has added. A check that panics counts as failed, so that the client receives a
/// response.
fn run_check(check: &Check) -> Result<(), String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check()))
        .unwrap_or_else(|_| Err("the check panicked".into()))
}

fn health(health: &Health, is_verbose: bool) -> Response<Full<Bytes>> {
    let body = if health.is_ok() && !is_verbose { "ok".to_owned() } else { health.to_string() };
    let status = if health.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    text(status, body)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", body)
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn full_server_closes_the_longest_waiting_connection() {
        let mut tasks = JoinSet::new();
        let mut open: VecDeque<_> = (0..CONNECTIONS)
            .map(|index| Connection {
                task: tasks.spawn(async move {
                    std::future::pending::<()>().await;
                }),
                has_request: Arc::new(AtomicBool::new(index < 2 || index == CONNECTIONS - 1)),
            })
            .collect();
        let ids: Vec<_> = open.iter().map(|connection| connection.task.id()).collect();
        let mut closed = async |open: &mut VecDeque<Connection>| {
            make_room(open);
            let ended = tasks.join_next().await.unwrap().unwrap_err();
            ids.iter().position(|id| *id == ended.id())
        };
        for expected in [2, 3, 4] {
            assert_eq!(closed(&mut open).await, Some(expected));
            let again = Connection { task: open[0].task.clone(), has_request: open[0].has_request.clone() };
            open.push_back(again);
        }
        open.iter().for_each(|connection| connection.has_request.store(true, Ordering::Relaxed));
        assert_eq!(closed(&mut open).await, Some(0), "all connections have a request");
        assert!(open.len() < CONNECTIONS, "the ended task has left");
        make_room(&mut open);
        assert!(open.iter().all(|connection| !connection.task.is_finished()));
    }
}
