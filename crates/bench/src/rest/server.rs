//! The server for the `rest` benchmark. The server returns a small object, and serves watches with one event per
//! second.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::{Instant, interval_at};

use crate::constant_server::Answer;
use crate::tls;

/// The listeners of the server.
#[derive(Debug)]
pub struct Listeners {
    /// The listener for plain HTTP/1.1.
    pub plain: TcpListener,
    /// The listener for HTTP/1.1 and HTTP/2 over TLS.
    pub tls: TcpListener,
}

/// A typical small object with a size of about 500 bytes.
const SMALL: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"small","namespace":"default","uid":"8d2c1f7e-5a7f-4b0e-9c57-3f0f6b1f9a10","resourceVersion":"1000000001","creationTimestamp":"2026-01-05T10:00:00Z","labels":{"app.kubernetes.io/name":"small","team":"atlas"},"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-05T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:key":{}}}}]},"data":{"key":"value","log-level":"info"}}"#;

/// The maximum number of concurrent streams per connection, as in older versions of kube-apiserver.
const MOST_STREAMS: u32 = 250;
const BETWEEN_EVENTS: Duration = Duration::from_secs(1);

/// Starts the server. Returns the server's CA certificate as PEM.
///
/// # Errors
///
/// Returns an error if the server cannot create its certificate.
pub fn serve(listeners: Listeners) -> Result<String, Box<dyn std::error::Error>> {
    let (tls, authority) = tls::acceptor()?;
    let objects = Arc::new(Objects::default());
    // Both server tasks run until the program exits. Ignore connection errors, which affect only one client.
    let plain = objects.clone();
    drop(tokio::spawn(tls::accept(listeners.plain, move |stream| {
        let objects = plain.clone();
        async move { http1(stream, objects).await }
    })));
    drop(tokio::spawn(tls::accept(listeners.tls, move |stream| {
        let (objects, tls) = (objects.clone(), tls.clone());
        async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => http2(stream, objects).await,
                _ => http1(stream, objects).await,
            }
        }
    })));
    Ok(authority)
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, objects: Arc<Objects>) {
    let answer = service_fn(|request| std::future::ready(Ok::<_, Infallible>(objects.answer(&request))));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, objects: Arc<Objects>) {
    let answer = service_fn(|request| std::future::ready(Ok::<_, Infallible>(objects.answer(&request))));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(MOST_STREAMS);
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

#[derive(Default)]
struct Objects {
    watches: AtomicU64,
}

impl Objects {
    fn answer(&self, request: &Request<Incoming>) -> Response<Answer> {
        let watches = |query: &str| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let answer = match path {
            "/api/v1/namespaces/default/configmaps/small" => Answer::constant(SMALL),
            "/api/v1/namespaces/default/configmaps" if watches(query) => self.watch(),
            _ => Answer::Whole(None),
        };
        let is_missing = matches!(answer, Answer::Whole(None));
        let mut response = Response::new(answer);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if is_missing {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
    }

    /// Opens a watch. The watches send their events at different times, which spreads the events of a thousand
    /// watches over a second.
    fn watch(&self) -> Answer {
        let place = self.watches.fetch_add(1, Ordering::Relaxed) * 619 % 1_000;
        let first = Instant::now() + Duration::from_millis(place);
        let event = Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{SMALL}}}\n"));
        let mut timer = interval_at(first, BETWEEN_EVENTS);
        Answer::Events(Box::pin(stream::poll_fn(move |cx| timer.poll_tick(cx).map(|_| Some(event.clone())))))
    }
}
