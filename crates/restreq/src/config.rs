//! The configuration of a client.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::ClientConfig;
use pintle_metrics::Provider;
use pintle_ratelimit::ItemBackoffConfig;
use pintle_transport::Http2Config;

use crate::backoff;
#[cfg(feature = "tower")]
use crate::layer::TransportLayer;
use crate::warning::{LogWarnings, WarningHandler};

/// The configuration of a [`RestClient`](crate::RestClient): a [`ClientConfig`] and settings that are not part of a
/// kubeconfig.
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
    /// The address, the TLS settings and the credentials for the server.
    pub server: ClientConfig,
    /// The deadlines. By default, [`Timeouts::total`] is [`ClientConfig::timeout`].
    pub timeouts: Timeouts,
    /// The `Accept` header of all requests, by default `application/json, */*`.
    pub accept: String,
    /// The maximum size of a response body that is read as a whole, in bytes. The default is 1 GiB, which is enough for
    /// a list of 150,000 large pods. In watches and in lists that are read item by item, [`ClientConfig::max_object`]
    /// limits the size of each object instead.
    pub max_body: usize,
    /// Whether a request that is cancelled or times out drops its connection. After a connection was dropped, the next
    /// request uses another connection. The default is `false`.
    ///
    /// With HTTP/1.1, a cancelled request always drops its connection. With HTTP/2, requests share a connection, and
    /// the client needs 45 s to detect that the server no longer responds. Use `drop_connection_on_cancel` in a
    /// separate client for urgent requests such as lease renewals. Do not open watches with a client for urgent
    /// requests, because the watches would share a connection with these requests.
    pub drop_connection_on_cancel: bool,
    /// Whether to use HTTP/2, and how to ping idle connections. The default is [`Http2Config::of_process`], which reads
    /// environment variables.
    pub http2: Http2Config,
    /// The backoff for all requests of the client after responses with status 429 or 5xx. Each further response with
    /// status 429 or 5xx increases the backoff, and any other response resets it.
    /// [`unthrottled`](crate::Request::unthrottled) requests do not wait for the backoff.
    ///
    /// By default, the backoff is read from client-go's environment variables `KUBE_CLIENT_BACKOFF_BASE` and
    /// `KUBE_CLIENT_BACKOFF_DURATION`. The default is `None` unless both variables are set. Most clients do not need a
    /// backoff, because API Priority and Fairness protects the server. With a backoff, one rejected request delays
    /// all requests.
    pub backoff: Option<ItemBackoffConfig>,
    /// Whether requests are subject to the rate limit and the backoff of the client. The default is `true`. If
    /// `throttled` is `false`, all requests are [`unthrottled`](crate::Request::unthrottled). Set `throttled` to
    /// `false` for a client that only sends urgent requests, such as lease renewals.
    pub throttled: bool,
    /// Whether to use the proxies in the environment variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`
    /// if [`ClientConfig::proxy_url`] is `None`. The default is `true`. If this field is `false`, the client ignores
    /// these variables and connects directly.
    pub proxy_from_environment: bool,
    /// The handler for warnings from the server. By default, warnings are logged.
    pub warning_handler: Arc<dyn WarningHandler>,
    /// The metrics provider. The default is `None`, which disables metrics. The provider is used from the first request
    /// until the last clone of the client is dropped. If the provider panics, it is no longer called, and requests are
    /// not affected.
    ///
    /// | name | kind | labels | meaning |
    /// |---|---|---|---|
    /// | `rest_client_requests_total` | counter | `code`, `method`, `host` | attempts, by the status code of the response; `<error>` if there was none |
    /// | `rest_client_request_retries_total` | counter | `code`, `verb`, `host` | attempts after the first attempt of a request |
    /// | `rest_client_request_duration_seconds` | histogram | `verb`, `host` | time from the call to the end of the response, including waits and all attempts; for a list, to the response headers; not for streams and watches |
    /// | `rest_client_rate_limiter_duration_seconds` | histogram | `verb`, `host` | time spent waiting for the client's own rate limit; 0 without a wait |
    /// | `rest_client_dns_resolution_duration_seconds` | histogram | `host` | time spent resolving the host name of the server or its proxy |
    /// | `rest_client_request_size_bytes` | histogram | `verb`, `host` | size of request bodies, for each attempt; not for streamed bodies |
    /// | `rest_client_exec_plugin_call_total` | counter | `code`, `call_status` | runs of the credential plugin, by its exit code; the status is `no_error`, `plugin_execution_error`, `plugin_not_found_error` or `client_internal_error` |
    /// | `rest_client_exec_plugin_policy_call_total` | counter | `status` | decisions of the plugin policy: `allowed` or `denied` |
    /// | `rest_client_exec_plugin_certificate_rotation_age` | histogram | | seconds for which a plugin's certificate was in use before it was replaced |
    /// | `rest_client_response_size_bytes` | histogram | `verb`, `host` | size of successful response bodies that are read as a whole; not for streams, watches and lists read by item |
    ///
    /// Two kinds of client-go's metrics are not supported. `rest_client_exec_plugin_ttl_seconds` is the minimum over
    /// all clients, but a metrics provider would add up the values of the clients. Metrics whose names start with
    /// `rest_client_transport_` describe the transport cache of client-go, which has no equivalent here.
    pub metrics: Option<Arc<dyn Provider>>,
    /// The maximum number of bytes of each body to log, at level TRACE with the target `pintle_restreq::body`. The
    /// default is `None`, which disables this logging.
    ///
    /// If a body is not JSON, only its size is logged. The client redacts the data of Secrets, and the values of fields
    /// whose names suggest a token or a password. Streams, watches and lists that are read item by item are not logged.
    /// At log level 8, client-go logs 1,024 bytes of each body.
    pub logged_body: Option<usize>,
    /// Whether to request gzip responses. The default is `false`, unlike in client-go. Watches and streams are never
    /// compressed.
    ///
    /// kube-apiserver compresses responses that are larger than 128 KiB. Compression saves time on slow networks, but
    /// only costs CPU time on fast networks. This setting is ignored if
    /// [`disable_compression`](ClientConfig::disable_compression) is set, or if a request has an `Accept-Encoding`
    /// header. All size limits refer to the decompressed body.
    #[cfg(feature = "gzip")]
    pub gzip: bool,
    /// A `tower` layer that wraps the transport of the client. The default is `None`.
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
            drop_connection_on_cancel: false,
            http2: Http2Config::of_process(),
            backoff: backoff::config_from_env(),
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

pintle_meta::debug_struct!(RestClientConfig {
    server,
    timeouts,
    accept,
    max_body,
    drop_connection_on_cancel,
    http2,
    backoff,
    throttled,
    proxy_from_environment,
    metrics,
    logged_body,
    ..
});

/// The deadlines for the phases of a request.
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
    /// The timeout for connecting to the server, including the TLS handshake. The default is 30 s.
    ///
    /// A DNS lookup by the operating system's resolver cannot be cancelled, so a slow lookup can delay the shutdown of
    /// a tokio runtime for longer than this timeout.
    pub connect: Duration,
    /// The timeout for the response headers. The default is 75 s, because kube-apiserver ends a request after 60 s with
    /// a timeout error. The timeout starts when the request is sent. Each chunk of a [streaming
    /// body](crate::Request::body_stream) that is sent restarts the timeout. Streams ignore this timeout, because the
    /// server may not have any data to send yet.
    pub headers: Option<Duration>,
    /// The maximum time to wait for the next part of a response body. The default is 60 s. Watches and streams ignore
    /// this timeout, because they can be idle for a long time. For watches and streams, HTTP/2 pings or TCP keep-alive
    /// probes detect that the server is lost.
    pub idle: Option<Duration>,
    /// The timeout for an entire request, or `None` for no timeout. Watches and streams ignore this timeout. In a
    /// [`RestClientConfig`], the default is [`ClientConfig::timeout`].
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
