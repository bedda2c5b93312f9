//! The request builder.

mod url;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue, PROXY_AUTHORIZATION, SET_COOKIE};
use http::{HeaderMap, Method};
use pintle_meta::__private::segment_fault;
use pintle_meta::{ApiError, ErrorKind, redacted_url};
use pintle_ratelimit::{ItemBackoffConfig, Throttle, TokioClock};
use serde::Serialize;

#[cfg(test)]
pub(crate) use url::templates_rendered;

use crate::backoff::ServerBackoff;
use crate::body::Body;
use crate::error::{InvalidRequest, failed};
use crate::path;
use crate::shared::Shared;
use crate::warning::WarningHandler;

/// A request to the API server. Build a request by chaining setters, and send it with a method such as
/// [`send`](Self::send).
///
/// If a setter fails, the request stores the error, and most of the following setters have no effect. Sending such a
/// request returns the stored error without any I/O. A request can be sent more than once, even concurrently. The
/// client counts the retries of each send separately.
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
    /// Boxed, so that setters only move a pointer.
    pub(crate) parts: Box<Parts>,
}

#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) method: Method,
    /// The beginning of the path, such as `/apis/apps/v1`, including the path prefix of the server URL.
    prefix: Arc<str>,
    subpath: String,
    /// The query parameters, sorted by key. The values of a parameter that was added several times are in the order of
    /// the calls.
    params: BTreeMap<String, Vec<String>>,
    pub(crate) headers: HeaderMap,
    /// The namespace, where `None` and an empty string have different meanings: see [`namespace`](Self::namespace).
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
    /// Whether the client returns a response with status 429 instead of retrying the request.
    pub(crate) returns_429: bool,
    pub(crate) warnings: Option<Arc<dyn WarningHandler>>,
    pub(crate) body: Body,
    fault: Option<InvalidRequest>,
}

/// The default maximum number of retries, as in client-go.
const MAX_RETRIES: u32 = 10;

impl Request {
    /// Creates a request whose path starts with `root`.
    pub(crate) fn new(shared: Arc<Shared>, root: Arc<str>, method: Method) -> Self {
        let parts = Parts {
            method,
            prefix: root,
            subpath: String::new(),
            params: BTreeMap::new(),
            headers: HeaderMap::new(),
            namespace: None,
            resource: None,
            name: None,
            subresource: None,
            timeout: shared.timeouts.total,
            idle_timeout: None,
            max_retries: MAX_RETRIES,
            max_body: None,
            throttled: shared.throttled,
            limiter: None,
            backoff: None,
            returns_429: false,
            warnings: None,
            body: Body::Empty,
            fault: None,
            shared,
        };
        Self { parts: Box::new(parts) }
    }

    /// Sets the HTTP method. This setter works even if an earlier setter has failed.
    pub fn verb(mut self, method: Method) -> Self {
        self.parts.method = method;
        self
    }

    /// Appends segments to the first part of the path, before the resource. The segments are joined and normalized, but
    /// not checked.
    pub fn prefix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.prefix = join_all(&self.parts.prefix, segments).into();
        }
        self
    }

    /// Appends segments to the end of the path, after the name and the subresource. The segments are joined and
    /// normalized, but not checked.
    pub fn suffix<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.subpath = join_all(&self.parts.subpath, segments);
        }
        self
    }

    /// Sets the beginning of the path, which is appended to the path prefix of the server URL. If there is only one
    /// segment, its trailing slash is kept.
    pub fn abs_path<S: AsRef<str>>(mut self, segments: impl IntoIterator<Item = S>) -> Self {
        if self.parts.fault.is_none() {
            let segments: Vec<S> = segments.into_iter().collect();
            let base = self.parts.shared.base.path.clone();
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

    /// Sets the path and query from a URI such as `/api/v1/pods?limit=1`. This setter replaces all earlier query
    /// parameters. The path is decoded and normalized below the path prefix of the server URL. An encoded slash or an
    /// encoded dot segment, such as `%2e%2e`, is an error, because decoding it would change the target of the request.
    pub fn request_uri(mut self, uri: &str) -> Self {
        if self.parts.fault.is_some() {
            return self;
        }
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let path = match path.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("", |at| &rest[at..]),
            _ => path,
        };
        match path::decode(path) {
            Ok(path) => {
                self.parts.params.clear();
                for (key, value) in path::decode_query(query) {
                    self.parts.params.entry(key).or_default().push(value);
                }
                self.abs_path([path])
            }
            Err(message) => self.keep(InvalidRequest::Uri { uri: redacted_url(uri), message }),
        }
    }

    /// Sets the resource by its plural name. The resource can only be set once.
    pub fn resource(self, resource: impl Into<String>) -> Self {
        self.set_once("resource", resource.into(), |request| &mut request.parts.resource)
    }

    /// Sets the namespace. The namespace can only be set once. When objects are listed, an empty namespace means all
    /// namespaces. In a create request, or in a request with a name, an empty namespace is an error.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.set_once("namespace", namespace.into(), |request| &mut request.parts.namespace)
    }

    /// Sets the namespace if `scoped` is `true`.
    pub fn namespace_if_scoped(self, namespace: impl Into<String>, scoped: bool) -> Self {
        if scoped { self.namespace(namespace) } else { self }
    }

    /// Sets the object's name. The name can only be set once and must not be empty.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.is_empty() && self.parts.fault.is_none() {
            return self.keep(InvalidRequest::Segment { part: "name", value: name, why: "it may not be empty" });
        }
        self.set_once("name", name, |request| &mut request.parts.name)
    }

    /// Sets the subresource, such as `status`. `segments` are the path segments of the subresource. The subresource can
    /// only be set once.
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
            if let Some(why) = segment_fault(segment.as_ref()) {
                let value = segment.as_ref().into();
                return self.keep(InvalidRequest::Segment { part: PART, value, why });
            }
        }
        self.parts.subresource = Some(joined);
        self
    }

    /// Adds a query parameter. If a key is added more than once, all of its values are sent.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.params.entry(key.into()).or_default().push(value.into());
        }
        self
    }

    /// Adds each field of a struct as a query parameter. A field can be a string, a number, a boolean, or a list of
    /// these types. For a list, one parameter per element is added. Fields without a value are skipped.
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

    /// Sets a header, replacing any previous values. This setter works even if an earlier setter has failed. Headers
    /// with credentials or cookies are marked as sensitive, so their values do not appear in `Debug` output.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(is_secret(&name));
                self.parts.headers.insert(name, value);
                self
            }
            _ => self.keep(InvalidRequest::Header { name: name.into() }),
        }
    }

    /// Sets the total timeout of the request, including all retries. The timeout does not include the wait for the rate
    /// limiter before the first attempt. A timeout of zero means that there is no timeout. The timeout is also sent to
    /// the server, as the parameter `timeout`. For watches and streams, only the server enforces the timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if self.parts.fault.is_none() {
            self.parts.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        self
    }

    /// Sets the maximum time to wait for the next part of the response body. By default, the setting of the client is
    /// used.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.parts.idle_timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries, which is 10 by default. This setter works even if an earlier setter has
    /// failed.
    ///
    /// A request is retried if the response has a `Retry-After` header, as in client-go. Unlike in client-go, the
    /// following requests are not retried after a 5xx status other than 501 and 503, because the server may already
    /// have made the change, and a retry could make the change twice:
    ///
    /// - a create with `generateName`
    /// - a JSON patch, unless it tests `/metadata/resourceVersion` before any operation other than `test`
    /// - a POST to a subresource other than `binding`, `eviction` and `token`
    /// - a write to a proxy, such as a POST or PUT
    ///
    /// After a lost connection, only requests that are safe to repeat are retried.
    ///
    /// If the request has no deadline, the total pause between attempts is limited to one minute. When the total pause
    /// reaches one minute, or when the client has no retry budget left, the request returns the last response. The
    /// retry budget grows by 0.2 retries with each request and by 50 retries per second, up to 500 retries.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.parts.max_retries = retries;
        self
    }

    /// Sets the maximum size of the response body in bytes. For a list that is read item by item, the limit applies to
    /// each item. For a watch, the limit applies to each event. By default, the setting of the client is used.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.parts.max_body = Some(bytes);
        self
    }

    /// Sets a rate limiter to use instead of the client's, like client-go's `Throttle`. This setter works even if an
    /// earlier setter has failed. Clones of a rate limiter share their tokens, so it can limit several requests
    /// together.
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

    /// Sets a backoff to use instead of the client's, like client-go's `BackOff`. This setter works even if an earlier
    /// setter has failed. This request and its clones share the backoff, which delays each attempt. Responses with
    /// status 429 or 5xx increase the backoff, and all other responses reset it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use pintle_meta::ApiError;
    /// use pintle_ratelimit::ItemBackoffConfig;
    /// use pintle_restreq::RestClient;
    ///
    /// async fn poll(client: &RestClient) -> Result<(), ApiError> {
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

    /// Disables rate limiting and backoff for this request, including the request's own rate limiter and backoff.
    /// This setter works even if an earlier setter has failed. Use this setter for urgent requests, such as lease
    /// renewals.
    pub fn unthrottled(mut self) -> Self {
        (self.parts.throttled, self.parts.limiter, self.parts.backoff) = (false, None, None);
        self
    }

    /// Sets a warning handler to use instead of the client's. This setter works even if an earlier setter has failed.
    pub fn warning_handler(mut self, handler: Arc<dyn WarningHandler>) -> Self {
        self.parts.warnings = Some(handler);
        self
    }

    /// Sets the request body. This setter does not set the header `Content-Type`.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if self.parts.fault.is_none() {
            self.parts.body = Body::Bytes(bytes.into());
        }
        self
    }

    /// Sets the body to the content of a file. The file is read immediately. This setter does not set the header
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

    /// Sets the body to a stream of chunks. A stream can only be sent once, so the request is never retried. If the
    /// stream panics, the request fails. This setter does not set the header `Content-Type`.
    pub fn body_stream(mut self, chunks: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Self {
        if self.parts.fault.is_none() {
            self.parts.body = Body::stream(chunks);
        }
        self
    }

    /// Sets the body to `object`, serialized as JSON. The header `Content-Type` is also set, unless it was set before.
    /// If `object` serializes to `null`, the request has no body.
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

    /// Returns the first error of a setter, if any. Sending the request returns the same error.
    pub fn error(&self) -> Option<&InvalidRequest> {
        self.parts.fault.as_ref()
    }

    /// Returns the API group in the path of the request. Returns an empty string for the core group and for paths
    /// without a group.
    pub(crate) fn group(&self) -> &str {
        let path = self.parts.prefix.strip_prefix(&self.parts.shared.base.path).unwrap_or_default();
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        group.unwrap_or_default()
    }

    /// Stores `fault`, unless the request already contains an error.
    pub(crate) fn keep(mut self, fault: InvalidRequest) -> Self {
        self.parts.fault.get_or_insert(fault);
        self
    }

    pub(crate) fn preflight(&self) -> Result<(), ApiError> {
        let fault = match &self.parts.fault {
            Some(fault) => fault.clone(),
            None if self.parts.namespace.as_deref() == Some("")
                && (self.parts.method == Method::POST || self.parts.name.is_some()) =>
            {
                InvalidRequest::EmptyNamespace
            }
            None => return Ok(()),
        };
        Err(failed(&self.line(), ErrorKind::InvalidRequest(Arc::new(fault))))
    }

    fn set_once(mut self, part: &'static str, value: String, slot: fn(&mut Self) -> &mut Option<String>) -> Self {
        if self.parts.fault.is_some() {
            return self;
        }
        if let Some(first) = slot(&mut self).clone() {
            return self.keep(InvalidRequest::AlreadySet { part, first, second: value });
        }
        if let Some(why) = segment_fault(&value) {
            return self.keep(InvalidRequest::Segment { part, value, why });
        }
        *slot(&mut self) = Some(value);
        self
    }
}

pintle_meta::debug_struct!(Request |self| {
    line = format_args!("{}", self.line()),
    body = self.parts.body,
    fault = self.parts.fault,
    ..
});

/// Returns `true` if the values of this header are credentials or cookies.
pub(crate) fn is_secret(name: &HeaderName) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(name)
}

fn join_all<S: AsRef<str>>(start: &str, segments: impl IntoIterator<Item = S>) -> String {
    segments.into_iter().fold(path::join([start]), |joined, segment| path::join([joined.as_str(), segment.as_ref()]))
}
