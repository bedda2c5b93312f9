//! The request builder.

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

#[cfg(test)]
pub(crate) use url::templates_rendered;

use crate::backoff::ServerBackoff;
use crate::body::Body;
use crate::client::RestClient;
use crate::error::{Error, InvalidRequest};
use crate::path;
use crate::warning::WarningHandler;

/// A request to the API server. Build a request with chained setters, and send it with a method such as
/// [`send`](Self::send).
///
/// If a setter detects an error, the request stores the error, and most later setters do nothing. Sending the request
/// then returns the stored error without sending anything. A request can be sent several times, even concurrently. Each
/// send has a separate retry count.
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
    /// Boxed, so that each setter moves only a pointer.
    pub(crate) parts: Box<Parts>,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) client: RestClient,
    pub(crate) method: Method,
    /// The first part of the path, such as `/apis/apps/v1`. Includes the path prefix of the server's URL.
    prefix: Arc<str>,
    subpath: String,
    /// The query parameters, sorted by key. The values of a key keep their order.
    params: BTreeMap<String, Vec<String>>,
    pub(crate) headers: HeaderMap,
    /// The namespace. `None` differs from an empty namespace: see [`namespace`](Self::namespace).
    pub(crate) namespace: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) max_retries: u32,
    pub(crate) max_body: Option<usize>,
    pub(crate) throttled: bool,
    pub(crate) limiter: Option<Throttle<TokioClock>>,
    pub(crate) backoff: Option<Arc<ServerBackoff>>,
    /// Whether to return a response with status 429 instead of retrying.
    pub(crate) returns_429: bool,
    pub(crate) warnings: Option<Arc<dyn WarningHandler>>,
    pub(crate) body: Body,
    fault: Option<InvalidRequest>,
}

/// The default number of retries, as in client-go.
const MAX_RETRIES: u32 = 10;

impl Request {
    pub(crate) fn new(client: RestClient, method: Method) -> Self {
        let parts = Parts {
            method,
            prefix: client.root.clone(),
            subpath: String::new(),
            params: BTreeMap::new(),
            headers: HeaderMap::new(),
            namespace: None,
            resource: None,
            name: None,
            subresource: None,
            timeout: client.shared.timeouts.total,
            idle_timeout: None,
            max_retries: MAX_RETRIES,
            max_body: None,
            throttled: client.shared.throttled,
            limiter: None,
            backoff: None,
            returns_429: false,
            warnings: None,
            body: Body::Empty,
            fault: None,
            client,
        };
        Self { parts: Box::new(parts) }
    }

    /// Sets the HTTP method. This setter works even if an earlier setter failed.
    pub fn verb(mut self, method: Method) -> Self {
        self.parts.method = method;
        self
    }

    /// Appends segments to the first part of the path, which precedes the resource. The segments are joined and
    /// normalized, but not validated.
    pub fn prefix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.prefix = join_all(&self.parts.prefix, segments).into();
        }
        self
    }

    /// Appends segments to the end of the path, which follows the name and the subresource. The segments are joined and
    /// normalized, but not validated.
    pub fn suffix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.subpath = join_all(&self.parts.subpath, segments);
        }
        self
    }

    /// Sets the first part of the path. The path prefix of the server's URL precedes this part. A single segment keeps
    /// its trailing slash.
    pub fn abs_path<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.parts.fault.is_none() {
            let segments: Vec<S> = segments.into_iter().collect();
            let base = self.parts.client.shared.base.path.clone();
            let mut prefix = join_all(&format!("{base}/"), &segments);
            if let [only] = &segments[..] {
                let only = only.as_ref();
                if only.ends_with('/') && (!base.is_empty() || only.len() > 1) && !prefix.ends_with('/') {
                    prefix.push('/');
                }
            }
            self.parts.prefix = prefix.into();
        }
        self
    }

    /// Sets the path and query from a URI such as `/api/v1/pods?limit=1`. Replaces all earlier parameters.
    pub fn request_uri(mut self, uri: &str) -> Self {
        if self.parts.fault.is_some() {
            return self;
        }
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let path = match path.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => path,
        };
        match percent_encoding::percent_decode_str(path).decode_utf8() {
            Ok(path) => {
                self.parts.params.clear();
                for (key, value) in path::decode_query(query) {
                    self.parts.params.entry(key).or_default().push(value);
                }
                self.abs_path([path])
            }
            Err(error) => self.keep(InvalidRequest::Uri { uri: redacted_url(uri), message: error.to_string() }),
        }
    }

    /// Sets the resource by its plural name. The resource can be set only once.
    pub fn resource(self, resource: impl Into<String>) -> Self {
        self.set_once("resource", resource.into(), |request| &mut request.parts.resource)
    }

    /// Sets the namespace. The namespace can be set only once. For a list, an empty namespace means all namespaces. For
    /// a create or a request with a name, an empty namespace is an error.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.set_once("namespace", namespace.into(), |request| &mut request.parts.namespace)
    }

    /// Sets the namespace if `scoped` is `true`.
    pub fn namespace_if_scoped(self, namespace: impl Into<String>, scoped: bool) -> Self {
        if scoped { self.namespace(namespace) } else { self }
    }

    /// Sets the object's name. The name can be set only once and must not be empty.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.is_empty() && self.parts.fault.is_none() {
            return self.keep(InvalidRequest::Segment { part: "name", value: name, why: "it may not be empty" });
        }
        self.set_once("name", name, |request| &mut request.parts.name)
    }

    /// Sets the subresource, such as `status`. `segments` are the path segments of the subresource. The subresource can
    /// be set only once.
    pub fn subresource<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        const PART: &str = "subresource";
        if self.parts.fault.is_some() {
            return self;
        }
        let segments: Vec<S> = segments.into_iter().collect();
        let joined = join_all("", &segments);
        if let Some(first) = &self.parts.subresource {
            let first = first.clone();
            return self.keep(InvalidRequest::AlreadySet { part: PART, first, second: joined });
        }
        for segment in &segments {
            if let Some(why) = path::segment_fault(segment.as_ref()) {
                let value = segment.as_ref().into();
                return self.keep(InvalidRequest::Segment { part: PART, value, why });
            }
        }
        self.parts.subresource = Some(joined);
        self
    }

    /// Adds a query parameter. If a key is added several times, all values are kept.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.params.entry(key.into()).or_default().push(value.into());
        }
        self
    }

    /// Adds the fields of an options struct as query parameters. A field can be a string, a number, a boolean, or a
    /// list of these types. A list adds one parameter per element. Absent fields are skipped.
    pub fn options(mut self, options: &impl Serialize) -> Self {
        if self.parts.fault.is_some() {
            return self;
        }
        match url::option_pairs(options) {
            Ok(pairs) => {
                for (key, value) in pairs {
                    self.parts.params.entry(key).or_default().push(value);
                }
                self
            }
            Err(message) => self.keep(InvalidRequest::Encode { what: "the options object", message }),
        }
    }

    /// Sets a header and removes the header's previous values. This setter works even if an earlier setter failed. A
    /// header with credentials or cookies is marked as sensitive, so `Debug` does not print its value.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive([AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(&name));
                self.parts.headers.insert(name, value);
                self
            }
            _ => self.keep(InvalidRequest::Header { name: name.into() }),
        }
    }

    /// Sets the timeout for the whole request, including all retries. The timeout does not include the rate limiter's
    /// wait before the first attempt. Zero means no timeout. The client also sends the timeout to the server, as the
    /// parameter `timeout`. For watches and streams, only the server enforces the timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if self.parts.fault.is_none() {
            self.parts.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        self
    }

    /// Sets the maximum duration of each pause within the response body. The default is the client's setting.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.parts.idle_timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries. 10 by default. This setter works even if an earlier setter failed. The
    /// client retries a request only if a retry is safe.
    ///
    /// If the request has no deadline, the pauses between attempts take at most a minute in total. After this minute,
    /// or if the client's retry budget is empty, the request returns the last response. The retry budget grows by a
    /// fifth of a retry with each request and by 50 retries per second, up to 500 retries.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.parts.max_retries = retries;
        self
    }

    /// Sets the maximum size of the response in bytes. For a list that is read item by item, this is the maximum size
    /// of an item. For a watch, this is the maximum size of a frame. The default is the client's setting.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.parts.max_body = Some(bytes);
        self
    }

    /// Sets a rate limiter that replaces the client's rate limiter, like client-go's `Throttle`. This setter works even
    /// if an earlier setter failed. Clones of a rate limiter share their tokens, so several requests can share a
    /// separate limit.
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
        self.parts.limiter = Some(limiter);
        self
    }

    /// Sets a back-off that replaces the client's back-off, like client-go's `BackOff`. This setter works even if an
    /// earlier setter failed. This request and its clones share the back-off, and each attempt waits for the back-off.
    /// A response with status 429 or 5xx increases the back-off, and any other response resets it.
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
        self.parts.backoff = Some(Arc::new(ServerBackoff::new(config)));
        self
    }

    pub(crate) fn returning_429(mut self) -> Self {
        self.parts.returns_429 = true;
        self
    }

    /// Disables rate limiting and back-off for this request. The setter also removes the request's own rate limiter and
    /// back-off, and works even if an earlier setter failed. Use this setter for urgent requests, such as lease
    /// renewals.
    pub fn unthrottled(mut self) -> Self {
        (self.parts.throttled, self.parts.limiter, self.parts.backoff) = (false, None, None);
        self
    }

    /// Sets a warning handler that replaces the client's warning handler. This setter works even if an earlier setter
    /// failed.
    pub fn warning_handler(mut self, handler: Arc<dyn WarningHandler>) -> Self {
        self.parts.warnings = Some(handler);
        self
    }

    /// Sets the request body. Does not set `Content-Type`.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.body = Body::Bytes(bytes.into());
        }
        self
    }

    /// Sets the request body to the content of a file. The setter reads the file immediately. Does not set
    /// `Content-Type`.
    pub fn body_file(self, path: impl AsRef<Path>) -> Self {
        if self.parts.fault.is_some() {
            return self;
        }
        match std::fs::read(&path) {
            Ok(content) => self.body(content),
            Err(error) => self.keep(InvalidRequest::BodyFile { path: path.as_ref().into(), source: Arc::new(error) }),
        }
    }

    /// Sets the request body to a stream of chunks. A stream can be sent only once, so the client never retries the
    /// request. If the stream panics, the request fails. Does not set `Content-Type`.
    pub fn body_stream(mut self, chunks: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        if self.parts.fault.is_none() {
            self.parts.body = Body::stream(chunks);
        }
        self
    }

    /// Sets the request body to `object`, serialized as JSON. Sets `Content-Type` unless the header is already set. If
    /// `object` serializes to `null`, the request has no body.
    pub fn json(mut self, object: &(impl Serialize + ?Sized)) -> Self {
        if self.parts.fault.is_some() {
            return self;
        }
        match serde_json::to_vec(object) {
            Ok(text) if text == b"null" => self,
            Ok(text) => {
                self.parts.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                self.parts.body = Body::Bytes(text.into());
                self
            }
            Err(error) => self.keep(InvalidRequest::Encode { what: "the body", message: error.to_string() }),
        }
    }

    /// Returns the first error from a setter, if any. Sending the request would return this error.
    pub fn error(&self) -> Option<&InvalidRequest> {
        self.parts.fault.as_ref()
    }

    /// Returns the API group in the request's path, or an empty string for the core group and for other paths.
    pub(crate) fn group(&self) -> &str {
        let path = self.parts.prefix.strip_prefix(&self.parts.client.shared.base.path).unwrap_or_default();
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        group.unwrap_or_default()
    }

    /// Stores an error. Does nothing if the request already has an error.
    pub(crate) fn keep(mut self, fault: InvalidRequest) -> Self {
        self.parts.fault.get_or_insert(fault);
        self
    }

    /// This method does no I/O.
    pub(crate) fn preflight(&self) -> Result<(), Error> {
        let fault = match &self.parts.fault {
            Some(fault) => fault.clone(),
            None if self.parts.namespace.as_deref() == Some("")
                && (self.parts.method == Method::POST || self.parts.name.is_some()) =>
            {
                InvalidRequest::EmptyNamespace
            }
            None => return Ok(()),
        };
        Err(Error::Invalid { request: self.line(), source: fault })
    }

    fn set_once(mut self, part: &'static str, value: String, slot: fn(&mut Self) -> &mut Option<String>) -> Self {
        if self.parts.fault.is_some() {
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
            .field("body", &self.parts.body)
            .field("fault", &self.parts.fault)
            .finish_non_exhaustive()
    }
}

fn join_all<S: AsRef<str>>(start: &str, segments: impl IntoIterator<Item = S>) -> String {
    segments.into_iter().fold(path::join([start]), |joined, segment| path::join([joined.as_str(), segment.as_ref()]))
}
