//! A builder for requests.

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
use pintle_ratelimit::{ItemBackoffConfig, Throttle, TokioClock};
use serde::Serialize;

pub(crate) use body::{Body, BoxError, HttpBody};
#[cfg(test)]
pub(crate) use url::templates_rendered;

use crate::backoff::ServerBackoff;
use crate::error::InvalidRequest;
use crate::warning::WarningHandler;
use crate::{Error, RestClient};

/// A request to the API server. Chained setters build a request, and methods such as [`send`](Self::send) send it.
///
/// If a setter finds an error, the request stores this error, and later setters do nothing. Sending the request then
/// returns that error without any I/O. A request can be sent several times, even concurrently. Each of these sends
/// counts its retries separately.
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
    /// The first part of the path, such as `/apis/apps/v1`. The first part of the path includes the path prefix of the
    /// server's URL.
    prefix: Arc<str>,
    subpath: String,
    /// The parameters, sorted by key. Several values of the same key keep their order.
    params: BTreeMap<String, Vec<String>>,
    pub(crate) headers: HeaderMap,
    /// The namespace. `None` and an empty string are different: see [`namespace`](Self::namespace).
    pub(crate) namespace: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) max_retries: u32,
    pub(crate) max_body: Option<usize>,
    pub(crate) throttled: bool,
    /// The rate limiter of this request. If set, it replaces the client's rate limiter.
    pub(crate) limiter: Option<Throttle<TokioClock>>,
    /// The back-off of this request. If set, it replaces the client's back-off.
    pub(crate) backoff: Option<Arc<ServerBackoff>>,
    /// Whether a response with status 429 is returned without a retry.
    pub(crate) returns_429: bool,
    pub(crate) warnings: Option<Arc<dyn WarningHandler>>,
    pub(crate) body: Body,
    fault: Option<InvalidRequest>,
}

/// The default number of retries, as in client-go.
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
            limiter: None,
            backoff: None,
            returns_429: false,
            warnings: None,
            body: Body::Empty,
            fault: None,
            client,
        }
    }

    /// Sets the HTTP method. This setter also works after an earlier setter found an error.
    pub fn verb(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Appends segments to the first part of the path, before the resource. The segments are joined and normalized, but
    /// not validated.
    pub fn prefix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.fault.is_none() {
            self.prefix = join_all(&self.prefix, segments).into();
        }
        self
    }

    /// Appends segments to the end of the path, after the name and the subresource. The segments are joined and
    /// normalized, but not validated.
    pub fn suffix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.fault.is_none() {
            self.subpath = join_all(&self.subpath, segments);
        }
        self
    }

    /// Sets the first part of the path, relative to the path prefix of the server's URL. If there is only one segment,
    /// its trailing slash is kept.
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

    /// Sets the path and query from a URI that a server returned, such as `/api/v1/pods?limit=1`. This method drops all
    /// parameters that were set earlier.
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

    /// Sets the resource of the request. The argument is the plural name. The resource can be set only once.
    pub fn resource(self, resource: impl Into<String>) -> Self {
        self.set_once("resource", resource.into(), |request| &mut request.resource)
    }

    /// Sets the namespace. The namespace can be set only once. For a list, an empty namespace means all namespaces. For
    /// a create request or a request with a name, an empty namespace is an error.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.set_once("namespace", namespace.into(), |request| &mut request.namespace)
    }

    /// Sets the namespace, but only if `scoped` is true.
    pub fn namespace_if_scoped(self, namespace: impl Into<String>, scoped: bool) -> Self {
        if scoped { self.namespace(namespace) } else { self }
    }

    /// Sets the object's name. The name can be set only once and must not be empty.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.is_empty() && self.fault.is_none() {
            return self.keep(InvalidRequest::Segment { part: "name", value: name, why: "it may not be empty" });
        }
        self.set_once("name", name, |request| &mut request.name)
    }

    /// Sets the subresource, such as `status`, from one or more segments. The subresource can be set only once.
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

    /// Adds a query parameter. If a key is added several times, all of its values are sent.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if self.fault.is_none() {
            self.params.entry(key.into()).or_default().push(value.into());
        }
        self
    }

    /// Adds the fields of an options object as query parameters. A field can be a string, a number, a boolean or a list
    /// of such values. Each element of a list becomes a separate parameter. Absent fields are skipped.
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

    /// Sets a header and replaces its previous values. This setter also works after an earlier setter found an error.
    /// Headers with credentials or cookies are marked as sensitive, so that the `Debug` output does not show their values.
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

    /// Sets the timeout for the whole request. The timeout includes all retries, but not the throttling before the first
    /// attempt. Zero means no timeout. The timeout is also sent to the server as the parameter `timeout`. For a watch or
    /// a stream, only the server enforces the timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if self.fault.is_none() {
            self.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        self
    }

    /// Sets how long the client waits for more data while it reads the response body. By default, the setting of the
    /// client applies.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries. This setter also works after an earlier setter found an error. The default
    /// is 10. A request is retried only if a retry is safe.
    ///
    /// If the request has no deadline, as is the case for watches, all waits between its attempts together take at most
    /// a minute. After that minute, the request returns the last response. The request also returns the last response
    /// when the client's retry budget is empty. The budget is 500 retries. The budget grows by a fifth of a retry with
    /// each request, and by 50 retries per second.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the maximum size of the response, in bytes. For a list that is read item by item, this is the maximum size
    /// of an item. For a watch, this is the maximum size of a frame. By default, the setting of the client applies.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Uses the given rate limiter for this request instead of the client's, even after an error. Corresponds to
    /// client-go's `Throttle`. Clones of a limiter share its tokens, so a group of requests can share a separate limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_ratelimit::{Throttle, TokioClock};
    /// use pintle_restreq::{Request, RestClient};
    ///
    /// /// Requests for a scan of all objects, which must not use up the client's limit.
    /// fn slow(client: &RestClient, limiter: &Throttle<TokioClock>) -> Request {
    ///     client.get().limiter(limiter.clone())
    /// }
    ///
    /// let limiter = Throttle::new(0.5, 1, TokioClock); // one request every two seconds
    /// # let _ = (slow, limiter);
    /// ```
    pub fn limiter(mut self, limiter: Throttle<TokioClock>) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Uses a separate back-off for this request instead of the client's, even after an error. Corresponds to
    /// client-go's `BackOff`. The back-off grows with each 429 or 5xx response to this request or its clones, and is
    /// reset by any other response. Each attempt of the request waits for this back-off.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use pintle_ratelimit::ItemBackoffConfig;
    /// use pintle_restreq::{Error, RestClient};
    ///
    /// async fn poll(client: &RestClient) -> Result<(), Error> {
    ///     let backoff = ItemBackoffConfig { base: Duration::from_secs(1), ..ItemBackoffConfig::default() };
    ///     let probe = client.get().abs_path(["/readyz"]).backoff(backoff);
    ///     while let Err(error) = probe.send().await {
    ///         println!("{error}");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn backoff(mut self, config: ItemBackoffConfig) -> Self {
        self.backoff = Some(Arc::new(ServerBackoff::new(config)));
        self
    }

    /// Returns a response with status 429 to the caller without a retry, even if the server asks for a retry.
    pub(crate) fn returning_429(mut self) -> Self {
        self.returns_429 = true;
        self
    }

    /// Disables rate limiting and back-off for this request, even after an error. The method disables the limiter and the
    /// back-off of the client, and also those that were set on this request before. Use this method for urgent requests,
    /// such as lease renewals.
    pub fn unthrottled(mut self) -> Self {
        (self.throttled, self.limiter, self.backoff) = (false, None, None);
        self
    }

    /// Sets the handler for warnings in the response of this request, instead of the client's handler, even after an
    /// error.
    pub fn warning_handler(mut self, handler: Arc<dyn WarningHandler>) -> Self {
        self.warnings = Some(handler);
        self
    }

    /// Sets the body to the given bytes. Does not set `Content-Type`.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if self.fault.is_none() {
            self.body = Body::Bytes(bytes.into());
        }
        self
    }

    /// Reads a file and sets the body to its content. Does not set `Content-Type`.
    pub fn body_file(self, path: impl AsRef<Path>) -> Self {
        if self.fault.is_some() {
            return self;
        }
        match std::fs::read(&path) {
            Ok(content) => self.body(content),
            Err(error) => self.keep(InvalidRequest::BodyFile { path: path.as_ref().into(), source: Arc::new(error) }),
        }
    }

    /// Sets the body to a stream of chunks. A stream can be sent only once, so a request with a stream is never
    /// retried. If the stream panics, the request fails. Does not set `Content-Type`.
    pub fn body_stream(mut self, chunks: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        if self.fault.is_none() {
            self.body = Body::stream(chunks);
        }
        self
    }

    /// Sets the body to an object as JSON. Sets `Content-Type` unless it is already set. If the object serializes to
    /// `null`, the request has no body.
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

    /// Returns the first error that a setter found. Sending the request would return this error.
    pub fn error(&self) -> Option<&InvalidRequest> {
        self.fault.as_ref()
    }

    /// Returns the API group in the path of the request. Returns an empty string for the core group, and for paths
    /// outside of the API.
    pub(crate) fn group(&self) -> &str {
        let path = self.prefix.strip_prefix(&self.client.base().path).unwrap_or_default();
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        group.unwrap_or_default()
    }

    /// Stores an error, unless an earlier error is already stored.
    pub(crate) fn keep(mut self, fault: InvalidRequest) -> Self {
        self.fault.get_or_insert(fault);
        self
    }

    /// Returns an error if the request cannot be sent. This method does no I/O.
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
