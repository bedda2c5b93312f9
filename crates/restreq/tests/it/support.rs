//! A scripted server on loopback. The server records all requests and can simulate failures.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_meta::ClientConfig;
use pintle_restreq::RestClient;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Sleep;

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) connection: usize,
    pub(crate) version: http::Version,
    pub(crate) certificate: Option<Bytes>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends a response with this status, these headers and these chunks.
    Answer { status: u16, headers: Vec<(&'static str, String)>, chunks: Vec<Bytes>, end: End },
    /// Closes the connection without sending a response.
    Hang,
    /// Keeps the connection open, but never sends a response.
    Silence,
    /// Calls this function with the request and the number of previous requests to get the reply.
    By(fn(&Seen, usize) -> Reply),
}

/// How the server ends the body of a response after the last chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Proper,
    Cut,
    Stall,
    /// After a pause of two seconds, the server sends the last chunk and ends the body properly.
    Late,
}

impl Reply {
    pub(crate) fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type", "application/json".into())],
            chunks: vec![body.into()],
            end: End::Proper,
        }
    }

    pub(crate) fn ok() -> Self {
        Self::json(200, "{}")
    }

    pub(crate) fn later(status: u16, seconds: u32) -> Self {
        Self::json(status, "").header("retry-after", seconds.to_string())
    }

    /// Returns a watch response with one chunk per frame.
    pub(crate) fn watch(frames: &[&'static str], end: End) -> Self {
        let chunks = frames.iter().map(|frame| Bytes::from_static(frame.as_bytes())).collect();
        Self::Answer { status: 200, headers: vec![("content-type", "application/json".into())], chunks, end }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.retain(|(other, _)| *other != name || name == "warning");
            headers.push((name, value.into()));
        }
        self
    }

    pub(crate) fn end(mut self, how: End) -> Self {
        if let Self::Answer { end, .. } = &mut self {
            *end = how;
        }
        self
    }
}

/// A server that responds to requests according to a script. Dropping the `Server` stops it.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
    scheme: &'static str,
}

struct State {
    script: Mutex<VecDeque<Reply>>,
    /// The reply to each request after the end of the script.
    after: Reply,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    open: AtomicUsize,
}

impl Server {
    /// Starts a server that responds according to `script`. After the last reply, the server sends empty objects.
    pub(crate) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_with(script, Reply::ok(), None).await
    }

    pub(crate) async fn always(reply: Reply) -> Self {
        Self::start_with([], reply, None).await
    }

    pub(crate) async fn start_with(
        script: impl IntoIterator<Item = Reply>,
        after: Reply,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            script: Mutex::new(script.into_iter().collect()),
            after,
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let task = tokio::spawn(accept(listener, state.clone(), tls));
        Self { addr, state, task, scheme }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr)
    }

    /// The configuration does not limit the rate of requests.
    pub(crate) fn config(&self) -> ClientConfig {
        ClientConfig::new(self.url())
    }

    /// Returns a client that accepts objects of at most `max_object` bytes.
    pub(crate) fn narrow_client(&self, max_object: usize) -> RestClient {
        let mut config = self.config();
        config.max_object = Some(max_object);
        RestClient::new(config).unwrap()
    }

    pub(crate) fn client(&self) -> RestClient {
        RestClient::new(self.config()).unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub(crate) async fn is_left(&self) {
        soon(until(|| self.state.open.load(Ordering::SeqCst) == 0)).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, tls: Option<Arc<rustls::ServerConfig>>) {
    // Dropping this set, when the server is dropped, ends the tasks of all connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        // Without `TCP_NODELAY`, the second packet of a response could wait for up to 40 ms until the first packet is
        // acknowledged.
        stream.set_nodelay(true).unwrap();
        let connection = state.connections.fetch_add(1, Ordering::SeqCst);
        state.open.fetch_add(1, Ordering::SeqCst);
        let (state, tls) = (state.clone(), tls.clone());
        connections.spawn(async move {
            let counted = state.clone();
            let service = |certificate: Option<Bytes>| {
                hyper::service::service_fn(move |request| {
                    serve(request, state.clone(), connection, certificate.clone())
                })
            };
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // Ignore connection errors of the server, because the tests only check the client.
            match tls {
                None => drop(builder.serve_connection(TokioIo::new(stream), service(None)).await),
                Some(tls) => {
                    if let Ok(stream) = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await {
                        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                        let shown = shown.map(|certificate| Bytes::copy_from_slice(certificate));
                        drop(builder.serve_connection(TokioIo::new(stream), service(shown)).await);
                    }
                }
            }
            counted.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken on purpose")
    }
}

impl std::error::Error for Broken {}

async fn serve(
    request: http::Request<Incoming>,
    state: Arc<State>,
    connection: usize,
    certificate: Option<Bytes>,
) -> Result<http::Response<ScriptedBody>, Broken> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let seen = Seen {
        method: head.method,
        uri: head.uri.path_and_query().map(|uri| uri.to_string()).unwrap_or_default(),
        headers: head.headers,
        body,
        connection,
        version: head.version,
        certificate,
    };
    let before = {
        let mut all = state.seen.lock().unwrap();
        all.push(seen.clone());
        all.len() - 1
    };
    let reply = state.script.lock().unwrap().pop_front();
    let mut reply = reply.unwrap_or_else(|| state.after.clone());
    while let Reply::By(choose) = reply {
        reply = choose(&seen, before);
    }
    match reply {
        Reply::By(_) | Reply::Hang => Err(Broken),
        Reply::Silence => std::future::pending().await,
        Reply::Answer { status, headers, chunks, end } => {
            let mut answer = http::Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(name, value);
            }
            let chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
            let pause = Box::pin(tokio::time::sleep(Duration::from_secs(2)));
            Ok(answer.body(ScriptedBody { chunks, end, pause, flushed: false }).unwrap())
        }
    }
}

struct ScriptedBody {
    chunks: VecDeque<Bytes>,
    end: End,
    /// The pause before the last chunk of a late body.
    pause: Pin<Box<Sleep>>,
    flushed: bool,
}

impl http_body::Body for ScriptedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if !self.flushed {
            self.flushed = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if matches!(self.end, End::Late) && self.chunks.len() == 1 {
            ready!(self.pause.as_mut().poll(cx));
        }
        if let Some(chunk) = self.chunks.pop_front() {
            self.flushed = false;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match self.end {
            End::Proper | End::Late => Poll::Ready(None),
            End::Cut => Poll::Ready(Some(Err(Broken))),
            End::Stall => Poll::Pending,
        }
    }
}

/// Advances a paused clock in small steps, which tests with sockets need. A paused clock jumps to the next deadline
/// when no task is ready, so each step first gives the kernel one real millisecond to transfer data.
pub(crate) fn steady_clock() -> impl Drop {
    const STEP: Duration = Duration::from_millis(500);
    struct Clock(JoinHandle<()>);
    impl Drop for Clock {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    Clock(tokio::spawn(async {
        loop {
            // The paused clock cannot advance while this blocking task runs.
            drop(tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1))).await);
            tokio::time::sleep(STEP).await;
        }
    }))
}

/// Advances the clock of tokio, which the client uses. The clocks of servers and credential plugins do not change.
pub(crate) async fn skip(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Waits for a future, and panics after 20 s so that the test does not hang.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("the test timed out")
}

pub(crate) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn closed_port() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap()
}

/// Creates a named pipe without a writer. Opening the pipe for reading blocks the calling thread.
#[cfg(unix)]
pub(crate) fn pipe(dir: &std::path::Path) -> std::path::PathBuf {
    let path = dir.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}
