//! The client, and how it is made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use pintle_meta::{ClientConfig, GroupVersion, redacted_url};
use pintle_metrics::Provider;
use pintle_ratelimit::ItemBackoffConfig;

use crate::auth::{Credentials, Impersonation};
use crate::backoff::{self, ServerBackoff};
use crate::base::Base;
use crate::error::ConfigError;
#[cfg(feature = "tower")]
use crate::layer::{LayeredTransport, TransportLayer};
use crate::metrics::Instruments;
use crate::request::HttpBody;
use crate::retry::Budget;
use crate::throttle::Throttle;
use crate::transport::proxy::{Environment, Proxy};
use crate::transport::{AnswerBody, Failure, Span, Transport};
use crate::warning::{LogWarnings, WarningHandler};
use crate::{Http2Config, Request};

/// A client for one API server. A clone is a reference count, and shares connections, credentials and the rate limit.
///
/// Each sending of a request is a span of `tracing`, named `request`, of the level DEBUG. Its fields are those of OpenTelemetry, and stay as
/// they are: `otel.kind`, `http.request.method`, `url.full` (without secrets), `url.template` (client-go's: without names and values), `server.address`, `k8s.namespace.name`, `k8s.resource`,
/// `http.response.status_code` (of the last attempt), `http.request.resend_count`, and `error.type`: the code of the server's refusal,
/// or what kept the answer from coming. Of a stream, list or watch, it ends with the head of the answer.
///
/// A request that the server's priority and fairness refuses is sent again when the server says so. No other request waits for it.
///
/// It reaches the server over HTTP/1.1 or, where TLS negotiates it, HTTP/2. It starts no task of its own but those that drive
/// its connections, which end with the last clone and the last request. They are tasks of the runtime whose request first needed the
/// connection: where a runtime ends, or stands still, what goes over its connections fails at its deadline. Later requests have new
/// connections, but for one case: a connection of HTTP/2 that has come about is used for as long as its runtime stands still.
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
    /// What the paths of its requests begin with.
    root: Arc<str>,
}

struct Shared {
    base: Base,
    default_namespace: String,
    transport: Arc<Transport>,
    #[cfg(feature = "tower")]
    layered: Option<LayeredTransport>,
    credentials: Credentials,
    impersonation: Impersonation,
    throttle: Throttle,
    retries: Budget,
    backoff: Option<ServerBackoff>,
    throttled: bool,
    user_agent: HeaderValue,
    accept: HeaderValue,
    timeouts: Timeouts,
    max_body: usize,
    max_object: usize,
    warnings: Arc<dyn WarningHandler>,
    metrics: Option<Arc<Instruments>>,
    logged_body: Option<usize>,
    #[cfg(feature = "gzip")]
    takes_gzip: bool,
}

/// How long each part of an exchange may take.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_meta::ClientConfig;
/// use pintle_restreq::{RestClient, RestClientConfig, Timeouts};
///
/// let timeouts = Timeouts { connect: Duration::from_secs(5), idle: None, ..Timeouts::default() };
/// assert_eq!(timeouts.headers, Some(Duration::from_secs(75)));
/// let client = RestClient::new(RestClientConfig { timeouts, ..ClientConfig::new("https://10.0.0.1:6443").into() })?;
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Reaching the server, TLS included. 30 s by default. Looking up its name may go on beyond that, for as long as the system's resolver
    /// takes, and so long does a runtime wait for it at its end.
    pub connect: Duration,
    /// From sending a request to the first line of the answer; not for streams, whose server may have nothing to say yet.
    /// 75 s by default: a kube-apiserver gives up after 60 s, and says so.
    pub headers: Option<Duration>,
    /// Between two parts of an answer; not for watches and streams, which may rest, and which the transport's own probes
    /// guard. 60 s by default.
    pub idle: Option<Duration>,
    /// The whole exchange, watches and streams excepted. None by default; [`ClientConfig::timeout`] sets it.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            headers: Some(Duration::from_secs(75)),
            idle: Some(Duration::from_secs(60)),
            total: None,
        }
    }
}

/// The most that is held of an object of a list or a watch, where the configuration does not say.
const MAX_OBJECT: usize = 16 << 20;

/// A [`ClientConfig`], and the settings that a configuration file does not have.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use pintle_meta::ClientConfig;
/// use pintle_metrics::InMemoryProvider;
/// use pintle_restreq::{IgnoreWarnings, RestClient, RestClientConfig};
///
/// let client = RestClient::new(RestClientConfig {
///     max_body: 64 << 20,
///     warning_handler: Arc::new(IgnoreWarnings),
///     metrics: Some(Arc::new(InMemoryProvider::new())),
///     ..ClientConfig::new("https://10.0.0.1:6443").into()
/// })?;
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct RestClientConfig {
    /// The server, how to reach it, and as whom.
    pub server: ClientConfig,
    /// All deadlines. By default the [total](Timeouts::total) one is [`ClientConfig::timeout`].
    pub timeouts: Timeouts,
    /// The `Accept` of all requests: `application/json, */*`.
    pub accept: String,
    /// The largest answer to take as a whole, in bytes: 1 GiB, so that a list of 150 000 large pods fits. Lists that are read item
    /// by item and watches have no such limit, but one for each object: [`ClientConfig::max_object`].
    pub max_body: usize,
    /// Whether a request that is given up before its end takes its connection along, so that the next one begins on another. Over
    /// HTTP/1.1 it is so in any case. Over HTTP/2 others share the connection, and one that has lost its peer is given up only after
    /// 45 s: too late for the few requests that may not be late, such as the renewals of a lease, which want a client of their own
    /// with this set. Its watches share the connection, as long as that is the newest. Not set by default.
    pub drop_on_timeout: bool,
    /// Whether HTTP/2 is spoken, and when its connections are asked whether they are alive. By default as the environment has it:
    /// [`Http2Config::of_process`].
    pub http2: Http2Config,
    /// For how long all requests together leave the server alone after an answer of 429 or 5xx: longer with each, and no more after
    /// any other answer. Those that are [`unthrottled`](Request::unthrottled) do not wait. By default as the environment has it, in
    /// client-go's variables `KUBE_CLIENT_BACKOFF_BASE` and `KUBE_CLIENT_BACKOFF_DURATION`; without both, not at all: servers protect
    /// themselves by priority and fairness, and one request that is held back need not hold back all others.
    pub backoff: Option<ItemBackoffConfig>,
    /// Whether requests wait for the client's rate limit and back-off. Set by default. Not set, each is
    /// [`unthrottled`](Request::unthrottled): for a client whose requests may not be late, such as the renewals of leases.
    pub throttled: bool,
    /// Whether the proxies of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) count where
    /// [`ClientConfig::proxy_url`] is `None`. True by default. False reaches the server directly.
    pub proxy_from_environment: bool,
    /// Who hears of the server's warnings. By default they are logged.
    pub warning_handler: Arc<dyn WarningHandler>,
    /// Who is told of the requests, from the first one until the last clone of the client is dropped. By default nobody. After a
    /// panic of it the requests go on, and it is told nothing more.
    ///
    /// | name | kind | labels | says |
    /// |---|---|---|---|
    /// | `rest_client_requests_total` | counter | `code`, `method`, `host` | attempts, by the code of the answer, `<error>` without one |
    /// | `rest_client_request_retries_total` | counter | `code`, `verb`, `host` | those of them after the first of a request |
    /// | `rest_client_request_duration_seconds` | histogram | `verb`, `host` | from the call to the end of the answer, waits and all attempts included; of a list to the head of the answer; not of streams and watches |
    /// | `rest_client_rate_limiter_duration_seconds` | histogram | `verb`, `host` | waits for the client's own rate limit, 0 where there is none to wait for |
    /// | `rest_client_dns_resolution_duration_seconds` | histogram | `host` | looking up the addresses of the server, or of its proxy, if that is a name |
    /// | `rest_client_request_size_bytes` | histogram | `verb`, `host` | bodies of requests, of each attempt; not of those that are streams |
    /// | `rest_client_exec_plugin_call_total` | counter | `code`, `call_status` | runs of the credential program: by its exit code, `no_error`, `plugin_execution_error`, `plugin_not_found_error` or `client_internal_error` |
    /// | `rest_client_exec_plugin_policy_call_total` | counter | `status` | how often it was `allowed` or `denied` |
    /// | `rest_client_exec_plugin_certificate_rotation_age` | histogram | | for how many seconds a certificate of it had been shown when another took its place |
    /// | `rest_client_response_size_bytes` | histogram | `verb`, `host` | bodies of successes that were read as a whole: not of lists by item, streams and watches |
    ///
    /// Of client-go's, `rest_client_exec_plugin_ttl_seconds` is not told: it is the least of all clients, and what several tell of one gauge
    /// adds up. Nor are those that begin with `rest_client_transport_`: they are of its cache of transports, and here is none.
    pub metrics: Option<Arc<dyn Provider>>,
    /// How many bytes of each body are logged, at the level TRACE by the target `pintle_restreq::body`. None: none at all, which is the
    /// default. It is JSON without what may be secret: neither the data of Secrets, nor what is called a token, a password or the like.
    /// Of anything else it is how much there is; of streams, watches and lists that are read by item, nothing. client-go's level 8 shows
    /// 1,024 bytes.
    pub logged_body: Option<usize>,
    /// Whether answers may come in gzip, but for those of watches and streams. A kube-apiserver makes those smaller that are above
    /// 128 KiB: worth it where the network is slow, and dear where it is not, in CPU time on both sides. Not set by default, unlike
    /// client-go's; without effect under [`disable_compression`](ClientConfig::disable_compression), and for a request that sets
    /// `Accept-Encoding` itself. All limits are those of what it comes to.
    #[cfg(feature = "gzip")]
    pub gzip: bool,
    /// What is around the transport. By default nothing.
    #[cfg(feature = "tower")]
    pub transport_layer: Option<TransportLayer>,
}

impl From<ClientConfig> for RestClientConfig {
    fn from(server: ClientConfig) -> Self {
        Self {
            timeouts: Timeouts { total: server.timeout, ..Timeouts::default() },
            server,
            accept: "application/json, */*".into(),
            max_body: 1 << 30,
            drop_on_timeout: false,
            http2: Http2Config::of_process(),
            backoff: backoff::of_process(),
            throttled: true,
            proxy_from_environment: true,
            warning_handler: Arc::new(LogWarnings),
            metrics: None,
            logged_body: None,
            #[cfg(feature = "gzip")]
            gzip: false,
            #[cfg(feature = "tower")]
            transport_layer: None,
        }
    }
}

impl fmt::Debug for RestClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestClientConfig")
            .field("server", &self.server)
            .field("timeouts", &self.timeouts)
            .field("accept", &self.accept)
            .field("max_body", &self.max_body)
            .field("drop_on_timeout", &self.drop_on_timeout)
            .field("http2", &self.http2)
            .field("backoff", &self.backoff)
            .field("throttled", &self.throttled)
            .field("proxy_from_environment", &self.proxy_from_environment)
            .field("metrics", &self.metrics)
            .field("logged_body", &self.logged_body)
            .finish_non_exhaustive()
    }
}

impl RestClient {
    /// Makes a client: of a [`ClientConfig`], with all that this leaves open at its default, or of a [`RestClientConfig`]. Reads
    /// the certificate files, here and now.
    ///
    /// # Errors
    ///
    /// The configuration contradicts itself, or a certificate or key in it cannot be used. Nothing is sent yet: whether the
    /// server is there, the first request tells.
    pub fn new(config: impl Into<RestClientConfig>) -> Result<Self, ConfigError> {
        let RestClientConfig {
            server: config,
            timeouts,
            accept,
            max_body,
            drop_on_timeout,
            http2,
            backoff,
            throttled,
            proxy_from_environment,
            warning_handler,
            metrics,
            logged_body,
            #[cfg(feature = "gzip")]
            gzip,
            #[cfg(feature = "tower")]
            transport_layer,
        } = config.into();
        let tls = &config.tls;
        let has_tls = tls.ca.is_some() || tls.certificate.is_some() || tls.insecure_skip_verify;
        let base = Base::parse(&config.server, has_tls)?;
        let has_secret = config.basic.is_some() || config.token.is_some() || config.token_file.is_some();
        let has_login = config.exec.is_some() || config.oidc.is_some();
        if !has_tls && (has_secret || has_login) && !config.server.contains("://") {
            let why =
                "without a scheme it would be http, and who asks would be sent in the open; write https:// before it";
            return Err(ConfigError::Server { server: redacted_url(&config.server), why: why.into() });
        }
        let header = |field, text: &str| {
            let value = HeaderValue::from_str(text);
            value.map_err(|_| ConfigError::Value { field, why: "it holds what a header may not hold".into() })
        };
        let user_agent = header("user_agent", config.user_agent.as_deref().unwrap_or(&default_user_agent()))?;
        let metrics = metrics.map(|provider| Arc::new(Instruments::new(provider, base.authority.clone())));
        let env = if proxy_from_environment { Environment::of_process() } else { Environment::default() };
        let proxy = Proxy::choose(&base, config.proxy_url.as_deref(), &env)?;
        let transport =
            Transport::new(&base, &config, proxy, timeouts.connect, http2, drop_on_timeout, metrics.clone())?;
        let transport = Arc::new(transport);
        let shared = Shared {
            default_namespace: config.default_namespace().to_owned(),
            #[cfg(feature = "tower")]
            layered: transport_layer.map(|layer| layer.around(transport.clone())),
            transport,
            credentials: Credentials::new(&config, metrics.clone())?,
            impersonation: Impersonation::new(config.impersonate.as_ref())?,
            throttle: Throttle::new(config.qps, config.burst),
            retries: Budget::default(),
            backoff: backoff.map(ServerBackoff::new),
            throttled,
            user_agent,
            accept: header("accept", &accept)?,
            timeouts,
            max_body,
            max_object: config.max_object.unwrap_or(MAX_OBJECT),
            warnings: warning_handler,
            metrics,
            logged_body,
            #[cfg(feature = "gzip")]
            takes_gzip: gzip && !config.disable_compression,
            base,
        };
        let root = format!("{}/", shared.base.path).into();
        Ok(Self { shared: Arc::new(shared), root })
    }

    /// A request with the method GET.
    pub fn get(&self) -> Request {
        self.verb(Method::GET)
    }

    /// A request with the method POST: creates.
    pub fn post(&self) -> Request {
        self.verb(Method::POST)
    }

    /// A request with the method PUT: replaces.
    pub fn put(&self) -> Request {
        self.verb(Method::PUT)
    }

    /// A request with the method PATCH, in the language that the content type names.
    pub fn patch(&self, content_type: &str) -> Request {
        self.verb(Method::PATCH).header("content-type", content_type)
    }

    /// A request with the method DELETE.
    pub fn delete(&self) -> Request {
        self.verb(Method::DELETE)
    }

    /// A request with any method.
    pub fn verb(&self, method: Method) -> Request {
        Request::new(self.clone(), method)
    }

    /// The same client, whose requests begin at `/api/v1` or `/apis/GROUP/VERSION`.
    pub fn for_group_version(&self, group_version: &GroupVersion) -> Self {
        let root = format!("{}{}", self.shared.base.path, group_version.path());
        Self { shared: self.shared.clone(), root: root.into() }
    }

    /// The namespace to use where none is named.
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }

    pub(crate) fn root(&self) -> &Arc<str> {
        &self.root
    }

    pub(crate) fn base(&self) -> &Base {
        &self.shared.base
    }

    pub(crate) fn accept(&self) -> &HeaderValue {
        &self.shared.accept
    }

    pub(crate) fn user_agent(&self) -> &HeaderValue {
        &self.shared.user_agent
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.shared.timeouts
    }

    pub(crate) fn max_body(&self) -> usize {
        self.shared.max_body
    }

    pub(crate) fn max_object(&self) -> usize {
        self.shared.max_object
    }

    pub(crate) fn throttle(&self) -> &Throttle {
        &self.shared.throttle
    }

    pub(crate) fn backoff(&self) -> Option<&ServerBackoff> {
        self.shared.backoff.as_ref()
    }

    pub(crate) fn is_throttled(&self) -> bool {
        self.shared.throttled
    }

    pub(crate) fn retries(&self) -> &Budget {
        &self.shared.retries
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.shared.credentials
    }

    pub(crate) fn impersonation(&self) -> &Impersonation {
        &self.shared.impersonation
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.shared.transport
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn round_trip(
        &self,
        request: http::Request<HttpBody>,
        span: Span,
    ) -> Result<http::Response<AnswerBody>, Failure> {
        #[cfg(feature = "tower")]
        if let Some(layered) = &self.shared.layered {
            return layered.round_trip(request, span).await;
        }
        self.shared.transport.round_trip(request, span).await
    }

    pub(crate) fn warnings(&self) -> &Arc<dyn WarningHandler> {
        &self.shared.warnings
    }

    pub(crate) fn logged_body(&self) -> Option<usize> {
        self.shared.logged_body
    }

    #[cfg(feature = "gzip")]
    pub(crate) fn takes_gzip(&self) -> bool {
        self.shared.takes_gzip
    }

    pub(crate) fn metrics(&self) -> Option<&Instruments> {
        self.shared.metrics.as_deref()
    }
}

impl fmt::Debug for RestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = &self.shared.base;
        f.debug_struct("RestClient")
            .field("server", &format_args!("{}://{}{}", base.scheme(), base.authority, base.path))
            .finish_non_exhaustive()
    }
}

/// The program's name and version of this client: `quickstart/0.1.0 (linux/x86_64) pintle`.
fn default_user_agent() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    // A file name may hold anything; a header may not.
    let program: String = program.chars().filter(|c| c.is_ascii_graphic()).collect();
    let program = if program.is_empty() { "unknown" } else { &program };
    format!("{program}/{} ({}/{}) pintle", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)
}
