//! A server that answers the requests of client-go's load with constant bytes. With this server, the load is limited only
//! by client-go, TLS and HTTP/2. Therefore, no API server can reach higher figures.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pintle_meta::__private::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::constant_server::Answer;
use crate::tls;

/// The ConfigMap that an API server stores for a create of the load.
const CONFIG_MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c1234","namespace":"load-0","uid":"8d2c1f7e-5a7f-4b0e-9c57-3f0f6b1f9a10","resourceVersion":"1234","creationTimestamp":"2026-01-05T10:00:00Z","managedFields":[{"manager":"apiserver","operation":"Update","apiVersion":"v1","time":"2026-01-05T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:key":{}}}}]},"data":{"key":"value"}}"#;

/// The watch event of an update.
const EVENT: &str = concat!(
    r#"{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c1234","namespace":"load-0","uid":"8d2c1f7e-5a7f-4b0e-9c57-3f0f6b1f9a10","resourceVersion":"1234","creationTimestamp":"2026-01-05T10:00:00Z","managedFields":[{"manager":"apiserver","operation":"Update","apiVersion":"v1","time":"2026-01-05T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:key":{}}}}]},"data":{"key":"other"}}}"#,
    "\n"
);

const NAMESPACE: &str =
    r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"load-0"},"status":{"phase":"Active"}}"#;

/// The maximum number of concurrent streams per connection, as in kube-apiserver.
const MOST_STREAMS: u32 = 100;

/// Starts the server. Returns the server's CA certificate as PEM.
///
/// # Errors
///
/// Returns an error if the server cannot create its certificate.
pub fn serve(listener: TcpListener) -> Result<String, Box<dyn Error>> {
    let (acceptor, authority) = tls::acceptor()?;
    let floor = Arc::new(Floor::default());
    // The task runs until the program exits. Ignore connection errors, which affect only one client.
    drop(tokio::spawn(tls::accept(listener, move |stream| {
        let (floor, acceptor) = (floor.clone(), acceptor.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = service_fn(move |request| floor.clone().answer(request));
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.max_concurrent_streams(MOST_STREAMS);
            let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
        }
    })));
    Ok(authority)
}

#[derive(Default)]
struct Floor {
    namespace: Mutex<Namespace>,
}

/// The state of the load's current namespace.
#[derive(Default)]
struct Namespace {
    created: usize,
    /// The response to a LIST, which is created by the first LIST after the last create.
    list: Option<Bytes>,
    watches: Vec<UnboundedSender<Bytes>>,
}

impl Floor {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
        let (head, body) = request.into_parts();
        // Read the body before the response, because hyper resets a stream whose request is not complete.
        let _ = body.collect().await;
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        let is_of_maps = path.contains("/configmaps");
        let (status, answer) = match head.method {
            Method::POST if is_of_maps => {
                let mut namespace = self.namespace.lock();
                namespace.created += 1;
                namespace.list = None;
                (StatusCode::CREATED, Answer::constant(CONFIG_MAP))
            }
            Method::POST => (StatusCode::CREATED, Answer::constant(NAMESPACE)),
            Method::PUT => {
                let event = Bytes::from_static(EVENT.as_bytes());
                self.namespace.lock().watches.retain(|watch| watch.send(event.clone()).is_ok());
                (StatusCode::OK, Answer::constant(CONFIG_MAP))
            }
            Method::DELETE => {
                *self.namespace.lock() = Namespace::default();
                (StatusCode::OK, Answer::constant(NAMESPACE))
            }
            _ if path.ends_with("/configmaps") && query.contains("watch=true") => {
                let (sender, mut events) = unbounded_channel();
                self.namespace.lock().watches.push(sender);
                (StatusCode::OK, Answer::Events(Box::pin(stream::poll_fn(move |cx| events.poll_recv(cx)))))
            }
            _ if path.ends_with("/configmaps") && query.contains("limit=1") => {
                (StatusCode::OK, Answer::Whole(Some(list(1))))
            }
            _ if path.ends_with("/configmaps") => (StatusCode::OK, Answer::Whole(Some(self.namespace.lock().list()))),
            _ if is_of_maps => (StatusCode::OK, Answer::constant(CONFIG_MAP)),
            _ if path == "/readyz" => (StatusCode::OK, Answer::constant("ok")),
            _ => (StatusCode::NOT_FOUND, Answer::Whole(None)),
        };
        let mut response = Response::new(answer);
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

impl Namespace {
    fn list(&mut self) -> Bytes {
        let created = self.created;
        self.list.get_or_insert_with(|| list(created)).clone()
    }
}

fn list(items: usize) -> Bytes {
    let items = vec![CONFIG_MAP; items].join(",");
    Bytes::from(format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"1234"}},"items":[{items}]}}"#
    ))
}
