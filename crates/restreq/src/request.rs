//! A request, while it is built.

mod body;
pub(crate) mod path;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue, PROXY_AUTHORIZATION, SET_COOKIE};
use http::{HeaderMap, Method};
use pintle_meta::redacted_url;
use serde::Serialize;

pub(crate) use body::{Body, BoxError, HttpBody};
#[cfg(test)]
pub(crate) use url::templates_rendered;

use crate::error::InvalidRequest;
use crate::warning::WarningHandler;
use crate::{Error, RestClient};

/// One request to the API server: built by chained setters, then sent by itself.
///
/// The first fault that a setter finds is kept; the setters after it do nothing, and [`send`](Self::send) and its like return
/// it before any I/O. A request can be sent more than once, and from several tasks at once; each sending counts its own
/// retries.
///
/// # Examples
///
/// ```
/// use pintle_meta::ClientConfig;
/// use pintle_restreq::RestClient;
///
/// let client = RestClient::new(ClientConfig::new("https://10.0.0.1:6443"))?;
/// let request = client
///     .get()
///     .abs_path(["/apis/apps/v1"])
///     .namespace("team-a")
///     .resource("deployments")
///     .name("web")
///     .subresource(["status"])
///     .param("pretty", "true");
/// assert_eq!(
///     request.url(),
///     "https://10.0.0.1:6443/apis/apps/v1/namespaces/team-a/deployments/web/status?pretty=true"
/// );
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    pub(crate) client: RestClient,
    pub(crate) method: Method,
    /// What the path begins with, such as `/apis/apps/v1`; the path prefix of the server's URL included.
    prefix: Arc<str>,
    subpath: String,
    /// In the order of their keys; the values of one key in the order given.
    params: BTreeMap<String, Vec<String>>,
    pub(crate) headers: HeaderMap,
    /// Set to empty is not the same as unset: see [`namespace`](Self::namespace).
    pub(crate) namespace: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) max_retries: u32,
    pub(crate) max_body: Option<usize>,
    pub(crate) throttled: bool,
    pub(crate) warnings: Option<Arc<dyn WarningHandler>>,
    pub(crate) body: Body,
    fault: Option<InvalidRequest>,
}

/// How often a request is sent again at most: client-go's figure.
const MAX_RETRIES: u32 = 10;

impl Request {
    pub(crate) fn new(client: RestClient, method: Method) -> Self {
        Self {
            method,
            prefix: client.root().clone(),
            subpath: String::new(),
            params: BTreeMap::new(),
            headers: HeaderMap::new(),
            namespace: None,
            resource: None,
            name: None,
            subresource: None,
            timeout: client.timeouts().total,
            idle_timeout: None,
            max_retries: MAX_RETRIES,
            max_body: None,
            throttled: client.is_throttled(),
            warnings: None,
            body: Body::Empty,
            fault: None,
            client,
        }
    }

    /// Replaces the HTTP method. Acts even after a fault.
    pub fn verb(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Appends to what the path begins with. The parts are joined and cleaned, not validated.
    pub fn prefix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.fault.is_none() {
            self.prefix = join_all(&self.prefix, segments).into();
        }
        self
    }

    /// Appends to the end of the path, after name and subresource. The parts are joined and cleaned, not validated.
    pub fn suffix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.fault.is_none() {
            self.subpath = join_all(&self.subpath, segments);
        }
        self
    }

    /// Replaces what the path begins with, beneath the path prefix of the server's URL. A slash at the end is kept if there
    /// is just one segment and it ends with one.
    pub fn abs_path<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.fault.is_none() {
            let segments: Vec<S> = segments.into_iter().collect();
            let base = self.client.base().path.clone();
            let mut prefix = join_all(&format!("{base}/"), &segments);
            if let [only] = &segments[..] {
                let only = only.as_ref();
                if only.ends_with('/') && (!base.is_empty() || only.len() > 1) && !prefix.ends_with('/') {
                    prefix.push('/');
                }
            }
            self.prefix = prefix.into();
        }
        self
    }

    /// Takes path and query of a URI that a server gave, such as `/api/v1/pods?limit=1`. The parameters set so far are
    /// dropped.
    pub fn request_uri(mut self, uri: &str) -> Self {
        if self.fault.is_some() {
            return self;
        }
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let path = match path.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => path,
        };
        match percent_encoding::percent_decode_str(path).decode_utf8() {
            Ok(path) => {
                self.params.clear();
                for (key, value) in path::decode_query(query) {
                    self.params.entry(key).or_default().push(value);
                }
                self.abs_path([path])
            }
            Err(error) => self.keep(InvalidRequest::Uri { uri: redacted_url(uri), message: error.to_string() }),
        }
    }

    /// The resource's plural. Once only.
    pub fn resource(self, resource: impl Into<String>) -> Self {
        self.set_once("resource", resource.into(), |request| &mut request.resource)
    }

    /// The namespace. Once only. An empty one means all namespaces for a list, and is a fault for a create or a named object.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.set_once("namespace", namespace.into(), |request| &mut request.namespace)
    }

    /// The namespace, where there is one.
    pub fn namespace_if_scoped(self, namespace: impl Into<String>, scoped: bool) -> Self {
        if scoped { self.namespace(namespace) } else { self }
    }

    /// The name of the object. Once only, and not empty.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.is_empty() && self.fault.is_none() {
            return self.keep(InvalidRequest::Segment { part: "name", value: name, why: "it may not be empty" });
        }
        self.set_once("name", name, |request| &mut request.name)
    }

    /// The subresource, such as `status`, in one part or several. Once only.
    pub fn subresource<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        const PART: &str = "subresource";
        if self.fault.is_some() {
            return self;
        }
        let segments: Vec<S> = segments.into_iter().collect();
        let joined = join_all("", &segments);
        if let Some(first) = &self.subresource {
            let first = first.clone();
            return self.keep(InvalidRequest::AlreadySet { part: PART, first, second: joined });
        }
        for segment in &segments {
            if let Some(why) = path::segment_fault(segment.as_ref()) {
                let value = segment.as_ref().into();
                return self.keep(InvalidRequest::Segment { part: PART, value, why });
            }
        }
        self.subresource = Some(joined);
        self
    }

    /// Adds a query parameter. A key may be given several times; all its values are sent.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if self.fault.is_none() {
            self.params.entry(key.into()).or_default().push(value.into());
        }
        self
    }

    /// Adds the members of an options object as query parameters: texts, numbers and booleans, and each element of a list.
    /// Absent members are left out.
    pub fn options(mut self, options: &impl Serialize) -> Self {
        if self.fault.is_some() {
            return self;
        }
        match url::option_pairs(options) {
            Ok(pairs) => {
                for (key, value) in pairs {
                    self.params.entry(key).or_default().push(value);
                }
                self
            }
            Err(message) => self.keep(InvalidRequest::Encode { what: "the options object", message }),
        }
    }

    /// Sets a header, in place of all its present values. Acts even after a fault. One that shows who asks, `Authorization` or a cookie, does
    /// not print itself, should a layer print the headers.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive([AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(&name));
                self.headers.insert(name, value);
                self
            }
            _ => self.keep(InvalidRequest::Header { name: name.into() }),
        }
    }

    /// The deadline of the whole exchange, retries included, throttling before the first attempt not; zero for none. The
    /// server is told, by the parameter `timeout`. A watch or a stream only tells the server.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if self.fault.is_none() {
            self.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        self
    }

    /// How long the answer's body may pause. The default is that of the client.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// How often to send again at most, where that is safe; 10 by default. Acts even after a fault. Where no deadline ends the
    /// request, as with watches, the waits in between come to a minute at most; the last answer is told then. So it is when all requests of the
    /// client together have spent what they may spend on retries: 500 at once, a fifth of their number, and 50 a second.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// The largest answer to take, in bytes; of a list that is read item by item, the largest item, and of a watch the largest
    /// frame. The default is that of the client.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Sends without waiting for the client's rate limiter and back-off: for the few requests that may not be late, such as the renewal of a
    /// lease. Acts even after a fault.
    pub fn unthrottled(mut self) -> Self {
        self.throttled = false;
        self
    }

    /// Who hears of the warnings in the answer, in place of the client's handler. Acts even after a fault.
    pub fn warning_handler(mut self, handler: Arc<dyn WarningHandler>) -> Self {
        self.warnings = Some(handler);
        self
    }

    /// The body, as it is. Sets no `Content-Type`.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if self.fault.is_none() {
            self.body = Body::Bytes(bytes.into());
        }
        self
    }

    /// The body: the content of a file, which is read now. Sets no `Content-Type`.
    pub fn body_file(self, path: impl AsRef<Path>) -> Self {
        if self.fault.is_some() {
            return self;
        }
        match std::fs::read(&path) {
            Ok(content) => self.body(content),
            Err(error) => self.keep(InvalidRequest::BodyFile { path: path.as_ref().into(), source: Arc::new(error) }),
        }
    }

    /// The body, piece by piece. It can be sent once, so the request is never retried. Where it panics, the request fails. Sets no
    /// `Content-Type`.
    pub fn body_stream(mut self, chunks: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        if self.fault.is_none() {
            self.body = Body::stream(chunks);
        }
        self
    }

    /// The body: an object as JSON, with the `Content-Type` to it unless one is set. One that is `null` is no body at all.
    pub fn json(mut self, object: &(impl Serialize + ?Sized)) -> Self {
        if self.fault.is_some() {
            return self;
        }
        match serde_json::to_vec(object) {
            Ok(text) if text == b"null" => self,
            Ok(text) => {
                self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                self.body = Body::Bytes(text.into());
                self
            }
            Err(error) => self.keep(InvalidRequest::Encode { what: "the body", message: error.to_string() }),
        }
    }

    /// The first fault, if there is any. Sending returns it.
    pub fn error(&self) -> Option<&InvalidRequest> {
        self.fault.as_ref()
    }

    /// The API group that the path names; empty for the core group and for other paths.
    pub(crate) fn group(&self) -> &str {
        let path = self.prefix.strip_prefix(&self.client.base().path).unwrap_or_default();
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        group.unwrap_or_default()
    }

    /// Marks the request as one that makes no sense.
    pub(crate) fn keep(mut self, fault: InvalidRequest) -> Self {
        self.fault.get_or_insert(fault);
        self
    }

    /// What forbids sending, found without I/O.
    pub(crate) fn preflight(&self) -> Result<(), Error> {
        let fault = match &self.fault {
            Some(fault) => fault.clone(),
            None if self.namespace.as_deref() == Some("") && (self.method == Method::POST || self.name.is_some()) => {
                InvalidRequest::EmptyNamespace
            }
            None => return Ok(()),
        };
        Err(Error::Invalid { request: self.line(), source: fault })
    }

    fn set_once(mut self, part: &'static str, value: String, slot: fn(&mut Self) -> &mut Option<String>) -> Self {
        if self.fault.is_some() {
            return self;
        }
        if let Some(first) = slot(&mut self).clone() {
            return self.keep(InvalidRequest::AlreadySet { part, first, second: value });
        }
        if let Some(why) = path::segment_fault(&value) {
            return self.keep(InvalidRequest::Segment { part, value, why });
        }
        *slot(&mut self) = Some(value);
        self
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("line", &format_args!("{}", self.line()))
            .field("body", &self.body)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

fn join_all<S: AsRef<str>>(start: &str, segments: impl IntoIterator<Item = S>) -> String {
    segments.into_iter().fold(path::join([start]), |joined, segment| path::join([joined.as_str(), segment.as_ref()]))
}
