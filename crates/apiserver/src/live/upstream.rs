//! The upstream cluster's client.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pintle_json::{Json, json};
use pintle_kinds::Kind;
use pintle_meta::__private::Mutex;
use pintle_serving::body::ResponseBody;
use pintle_serving::body_budget::{LARGEST_BODY, Unread};
use tower_service::Service;

use super::UPSTREAM_TIMEOUT;
use crate::http::Incoming;

type BoxError = Box<dyn Error + Send + Sync>;
type Exchange = Pin<Box<dyn Future<Output = Result<Response<Incoming>, BoxError>> + Send>>;

/// The maximum size of a response, in bytes. The largest responses are list pages.
const LARGEST_RESPONSE: usize = 1 << 30;

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
            // A poisoned lock still contains a valid service, because the service is only cloned under the lock.
            let mut service = service.lock().clone();
            Box::pin(async move {
                poll_fn(|context| service.poll_ready(context)).await.map_err(Into::into)?;
                let response = service.call(request).await.map_err(Into::into)?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        }))
    }

    /// Sends a request and waits for the response head, without a timeout.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Refusal> {
        (self.0)(request).await.map_err(|error| Refusal::unreachable(&*error))
    }

    pub(super) async fn send_with_timeout(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Refusal> {
        let response = tokio::time::timeout(UPSTREAM_TIMEOUT, self.send(request)).await;
        response.unwrap_or_else(|_| Err(Refusal::timeout()))
    }

    /// Sends a GET request and returns the response body. Returns an error for an unsuccessful status.
    pub(super) async fn open(&self, path: &str) -> Result<Incoming, Refusal> {
        let request = Request::builder().method(Method::GET).uri(path).header(ACCEPT, "application/json");
        let request = request.body(Full::default()).map_err(|error| Refusal::unreachable(&error))?;
        let (head, body) = self.send_with_timeout(request).await?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = kind.unwrap_or("text/plain").to_owned();
        let (code, retry_after) = (head.status.as_u16(), head.headers.get(RETRY_AFTER).cloned());
        Err(Refusal { code, content_type, body: read_to_end(body, LARGEST_RESPONSE).await?, retry_after })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Json, Refusal> {
        let read = async { read_to_end(self.open(path).await?, LARGEST_RESPONSE).await };
        let body = tokio::time::timeout(UPSTREAM_TIMEOUT, read).await.unwrap_or_else(|_| Err(Refusal::timeout()))?;
        serde_json::from_slice(&body).map_err(|error| Refusal::unreachable(&error))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream")
    }
}

async fn read_to_end(mut body: Incoming, largest: usize) -> Result<Bytes, Refusal> {
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

const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

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

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}

/// An error response to a client request, from the upstream server or from this server.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    content_type: String,
    body: Bytes,
    retry_after: Option<HeaderValue>,
}

impl Refusal {
    fn new(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self { code, content_type: "application/json".into(), body: status.to_string().into(), retry_after: None }
    }

    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        let mut message = format!("the plan cannot read its cluster: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::new(503, "ServiceUnavailable", &message)
    }

    pub(super) fn from_status(status: &Json) -> Self {
        let code = status["code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(500);
        Self { code, content_type: "application/json".into(), body: status.to_string().into(), retry_after: None }
    }

    pub(super) fn timeout() -> Self {
        Self::new(504, "Timeout", "the plan's cluster did not respond in time")
    }

    pub(super) fn wrong_object(key: &str) -> Self {
        let why = format!("the plan's cluster returned a different object for {key}");
        Self::new(502, "InternalError", &why)
    }

    pub(super) fn unreadable_body(unread: &Unread) -> Self {
        match unread {
            Unread::Broken(why) => Self::new(400, "BadRequest", &format!("cannot read the request body: {why}")),
            Unread::TooLarge => {
                Self::new(413, "RequestEntityTooLarge", &format!("a body is longer than {LARGEST_BODY} bytes"))
            }
            Unread::OutOfBudget => {
                let retry_after = Some(HeaderValue::from_static("1"));
                Self { retry_after, ..Self::new(429, "TooManyRequests", "too many request bodies at once") }
            }
        }
    }

    /// Creates the error for a write to a resource that only the upstream cluster serves.
    pub(super) fn unknown(resource: &str) -> Self {
        let why = format!("{resource}: the plan does not know this resource and never writes to the cluster");
        Self::new(405, "MethodNotAllowed", &why)
    }

    /// Returns `true` if the object does not exist. A 404 error without the object's name means that the cluster does
    /// not serve the resource.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.code == 404 && self.status()["details"]["name"] == name
    }

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
        let response = Response::builder().status(self.code).header(CONTENT_TYPE, self.content_type);
        let response = self.retry_after.iter().fold(response, |response, value| response.header(RETRY_AFTER, value));
        let response = response.body(body);
        // Building the response cannot fail, because the status and the content type are valid.
        response.unwrap_or_default()
    }
}
