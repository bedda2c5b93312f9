//! The way to the other cluster.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pintle_json::{Json, json};
use tower_service::Service;

use super::UPSTREAM_PATIENCE;
use crate::http::{Incoming, ResponseBody};
use crate::kinds::Kind;
use crate::registry::{LARGEST_BODY, Unread};

type BoxError = Box<dyn Error + Send + Sync>;
type Exchange = Pin<Box<dyn Future<Output = Result<Response<Incoming>, BoxError>> + Send>>;

/// The most that one answer may take: a page of a list, or an object.
const LARGEST_ANSWER: usize = 1 << 30;

/// Sends requests to the other cluster.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<dyn Fn(Request<Full<Bytes>>) -> Exchange + Send + Sync>);

impl Upstream {
    pub(crate) fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let service = Mutex::new(service);
        Self(Arc::new(move |request| {
            // A clone that panics leaves nothing half done.
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Box::pin(async move {
                poll_fn(|context| service.poll_ready(context)).await.map_err(Into::into)?;
                let answer = service.call(request).await.map_err(Into::into)?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        }))
    }

    /// Sends a request, and waits for the head of its answer however long that takes.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Refusal> {
        (self.0)(request).await.map_err(|error| Refusal::unreachable(&*error))
    }

    pub(super) async fn send_in_time(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Refusal> {
        let answered = tokio::time::timeout(UPSTREAM_PATIENCE, self.send(request)).await;
        answered.unwrap_or_else(|_| Err(Refusal::late()))
    }

    /// Begins to read what is at a path; what is no success is a refusal.
    pub(super) async fn open(&self, path: &str) -> Result<Incoming, Refusal> {
        let request = Request::builder().method(Method::GET).uri(path).header(ACCEPT, "application/json");
        let request = request.body(Full::default()).map_err(|error| Refusal::unreachable(&error))?;
        let (head, body) = self.send_in_time(request).await?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = kind.unwrap_or("text/plain").to_owned();
        Err(Refusal { code: head.status.as_u16(), content_type, body: whole(body, LARGEST_ANSWER).await? })
    }

    /// Reads the JSON at a path.
    pub(super) async fn get(&self, path: &str) -> Result<Json, Refusal> {
        let read = async { whole(self.open(path).await?, LARGEST_ANSWER).await };
        let body = tokio::time::timeout(UPSTREAM_PATIENCE, read).await.unwrap_or_else(|_| Err(Refusal::late()))?;
        serde_json::from_slice(&body).map_err(|error| Refusal::unreachable(&error))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream")
    }
}

/// Reads a body in full.
async fn whole(mut body: Incoming, largest: usize) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::unreachable(&*error))?;
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
        if bytes.len() > largest {
            return Err(Refusal::new(413, "RequestEntityTooLarge", &format!("a body is longer than {largest} bytes")));
        }
    }
    Ok(bytes.into())
}

/// What of a name may stand in a path.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The path of a collection.
pub(super) fn collection_path(kind: &Kind, namespace: &str) -> String {
    let (root, plural) = (kind.group_version().path(), &kind.plural);
    match namespace {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{}/{plural}", utf8_percent_encode(namespace, PART)),
    }
}

pub(super) fn object_path(kind: &Kind, namespace: &str, name: &str) -> String {
    format!("{}/{}", collection_path(kind, namespace), utf8_percent_encode(name, PART))
}

/// A value in a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}

/// Why something of the other cluster is not to be had: its own answer, or one in its place.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    content_type: String,
    body: Bytes,
}

impl Refusal {
    fn new(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self { code, content_type: "application/json".into(), body: status.to_string().into() }
    }

    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        let mut message = format!("the cluster that is planned for cannot be read: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::new(503, "ServiceUnavailable", &message)
    }

    /// What an event says of the watch itself.
    pub(super) fn told(status: &Json) -> Self {
        let code = status["code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(500);
        Self { code, content_type: "application/json".into(), body: status.to_string().into() }
    }

    pub(super) fn late() -> Self {
        Self::new(504, "Timeout", "the cluster that is planned for did not answer in time")
    }

    /// An answer that is about something else.
    pub(super) fn foreign(asked: &str) -> Self {
        let why = format!("the cluster that is planned for was asked for {asked}, and told of something else");
        Self::new(502, "InternalError", &why)
    }

    /// A body that is not passed on.
    pub(super) fn unread(unread: &Unread) -> Self {
        match unread {
            Unread::Broken(why) => Self::new(400, "BadRequest", &format!("the body broke off: {why}")),
            Unread::TooLarge => {
                Self::new(413, "RequestEntityTooLarge", &format!("a body is longer than {LARGEST_BODY} bytes"))
            }
            Unread::OutOfBudget => Self::new(429, "TooManyRequests", "too many bodies of requests are being read"),
        }
    }

    /// A write of what only the other cluster knows.
    pub(super) fn unknown(resource: &str) -> Self {
        let why = format!("{resource}: the plan knows no rules of this resource, and writes nothing to the cluster");
        Self::new(405, "MethodNotAllowed", &why)
    }

    /// Whether it says that there is no object of that name; another 404 says that there is no such resource.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.code == 404 && self.status()["details"]["name"] == name
    }

    /// What it says, in words.
    pub(crate) fn message(&self) -> String {
        match &self.status()["message"] {
            Json::String(message) => message.to_string(),
            _ => format!("{}: {}", self.code, String::from_utf8_lossy(&self.body).trim()),
        }
    }

    fn status(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let body = Full::new(self.body).map_err(|never| match never {}).boxed_unsync();
        let answer = Response::builder().status(self.code).header(CONTENT_TYPE, self.content_type).body(body);
        // It was an answer before, or is one of those above.
        answer.unwrap_or_default()
    }
}
