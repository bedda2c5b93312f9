//! The client.

use std::sync::Arc;

use http::Method;
use pintle_meta::GroupVersion;
#[cfg(not(feature = "oidc"))]
use pintle_meta::OidcConfig;
use pintle_transport::ConfigError;

#[cfg(not(feature = "oidc"))]
use crate::auth::Credentials;
use crate::config::RestClientConfig;
#[cfg(feature = "oidc")]
use crate::oidc::open as open_oidc;
use crate::request::Request;
use crate::shared::Shared;

/// A client for one API server. Cloning a client is cheap. All clones share the connections, the credentials and the rate limit.
///
/// The client uses HTTP/2 if it is negotiated during the TLS handshake, and HTTP/1.1 otherwise.
///
/// # Retries
///
/// If API Priority and Fairness rejects a request, the client waits for the delay that the server requests, and then
/// retries the request. Other requests of the client do not wait for the delay of a throttled request.
///
/// # Tasks
///
/// The client only spawns tasks that drive its connections. The task of a connection runs on the runtime of the first
/// request that uses the connection. The task ends when the last clone of the client and the last request have been
/// dropped.
///
/// If the runtime of a connection is shut down or blocked, pending requests on this connection fail at their deadlines,
/// and later requests use new connections. An established HTTP/2 connection remains in use while its runtime is
/// blocked.
///
/// # Tracing
///
/// Each request creates a `tracing` span named `request` at level DEBUG. The field names are stable and follow the
/// OpenTelemetry conventions:
///
/// - `otel.kind`
/// - `http.request.method`
/// - `url.full`, without secrets
/// - `url.template`: the path without namespaces and names, as in client-go
/// - `server.address`
/// - `k8s.namespace.name`
/// - `k8s.resource`
/// - `http.response.status_code`: the status of the last attempt
/// - `http.request.resend_count`
/// - `error.type`: the status code of an error response, or the kind of failure if there was no response
///
/// For a stream, list or watch, the span ends when the response headers arrive.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ClientConfig, GroupVersion, redacted_url};
/// use pintle_restreq::RestClient;
///
/// let client = RestClient::new(ClientConfig::new("https://10.0.0.1:6443"))?;
/// let version = client.get().abs_path(["/version"]);
/// assert_eq!(version.url(), "https://10.0.0.1:6443/version");
///
/// let apps = client.for_group_version(&GroupVersion::new("apps", "v1"));
/// let web = apps.get().namespace("team-a").resource("deployments").name("web");
/// assert_eq!(web.url(), "https://10.0.0.1:6443/apis/apps/v1/namespaces/team-a/deployments/web");
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct RestClient {
    shared: Arc<Shared>,
    root: Arc<str>,
}

impl RestClient {
    /// Creates a client from a [`RestClientConfig`], or from a [`ClientConfig`](pintle_meta::ClientConfig) with defaults
    /// for all other settings. Certificate files are read on the calling thread.
    ///
    /// # Errors
    ///
    /// Returns an error if settings contradict each other, or if a certificate or key is invalid. No requests are sent,
    /// so it is not an error if the server is unreachable.
    pub fn new(config: impl Into<RestClientConfig>) -> Result<Self, ConfigError> {
        let shared = Shared::new(config.into(), open_oidc)?;
        let root = format!("{}/", shared.base.path).into();
        Ok(Self { shared: Arc::new(shared), root })
    }

    /// Returns a GET request.
    pub fn get(&self) -> Request {
        self.verb(Method::GET)
    }

    /// Returns a POST request, which creates an object.
    pub fn post(&self) -> Request {
        self.verb(Method::POST)
    }

    /// Returns a PUT request, which replaces an object.
    pub fn put(&self) -> Request {
        self.verb(Method::PUT)
    }

    /// Returns a PATCH request. `content_type` is the media type of the patch format, such as
    /// `application/merge-patch+json`.
    pub fn patch(&self, content_type: &str) -> Request {
        self.verb(Method::PATCH).header("content-type", content_type)
    }

    /// Returns a DELETE request.
    pub fn delete(&self) -> Request {
        self.verb(Method::DELETE)
    }

    /// Returns a request with the method `method`.
    pub fn verb(&self, method: Method) -> Request {
        Request::new(self.shared.clone(), self.root.clone(), method)
    }

    /// Returns a client for requests whose paths start with `/api/v1` or `/apis/GROUP/VERSION`. The returned client
    /// shares the connections, the rate limit and all other settings with this client.
    pub fn for_group_version(&self, group_version: &GroupVersion) -> Self {
        let root = format!("{}{}", self.shared.base.path, group_version.path());
        Self { shared: self.shared.clone(), root: root.into() }
    }

    /// Returns the configured default namespace, or `default`.
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }
}

pintle_meta::debug_struct!(RestClient |self| { server = format_args!("{}", self.shared.base), .. });

#[cfg(not(feature = "oidc"))]
fn open_oidc(_: &OidcConfig) -> Result<Credentials, ConfigError> {
    let why = "logins by OpenID Connect need the feature `oidc` of pintle-restreq".into();
    Err(ConfigError::Value { field: "oidc", why })
}
