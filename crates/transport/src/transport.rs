//! Sends requests over connections to one server.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, Uri, uri};
use pintle_meta::__private::RwLock;
use pintle_meta::{TlsClientConfig, redacted_url};
use pintle_metrics::Provider;

use crate::connect::Connector;
use crate::connection_group::ConnectionGroup;
use crate::error::ConfigError;
use crate::exchange::{ConnectionUse, ExchangeOptions, SendError};
use crate::failure::{Failure, is_of_stream};
use crate::http2_config::Http2Config;
use crate::metrics::LookUps;
use crate::origin::Origin;
use crate::proxy::{Environment, Proxy};
use crate::request_body::RequestBody;
use crate::response_body::ResponseBody;
use crate::timers::Timers;
use crate::tls::{PluginCertificate, TlsSource};
use crate::upgrade;

/// The configuration of a [`Transport`]. Error messages name the fields of [`ClientConfig`](pintle_meta::ClientConfig).
pub struct TransportConfig {
    /// The server.
    pub origin: Origin,
    /// The certificates, the keys and the other TLS settings.
    pub tls: TlsClientConfig,
    /// The proxy's URL.
    pub proxy_url: Option<String>,
    /// Whether to use the proxy from the environment variables if [`proxy_url`](Self::proxy_url) is `None`.
    pub proxy_from_environment: bool,
    /// The timeout for establishing a connection.
    pub connect_timeout: Duration,
    /// The HTTP/2 settings.
    pub http2: Http2Config,
    /// Whether cancelling a request also drops its connection.
    pub drop_connection_on_cancel: bool,
    /// The provider for the metric `rest_client_dns_resolution_duration_seconds`. The provider must not panic, because
    /// destructors call it.
    pub metrics: Option<Arc<dyn Provider>>,
}

/// The connections to one server.
pub struct Transport {
    tls: Option<TlsSource>,
    proxy_tls: Option<TlsSource>,
    host: HeaderValue,
    /// The server's scheme and authority, for absolute URIs.
    origin: (uri::Scheme, uri::Authority),
    drop_connection_on_cancel: bool,
    /// The connections with the current TLS settings. When these settings change, new requests use new connections, and
    /// requests in flight finish on old connections.
    groups: RwLock<Arc<ConnectionGroups>>,
    timers: Timers,
}

/// The connections for short requests, and the connections for watches and streams. In a single group, short requests
/// would wait for HTTP/2 streams that watches occupy. If `drop_connection_on_cancel` is set, there is only one group,
/// because such a client sends only a few requests.
struct ConnectionGroups {
    connector: Connector,
    short: Arc<ConnectionGroup>,
    long: Arc<ConnectionGroup>,
}

impl Transport {
    /// Creates a transport. Certificate files are read on the calling thread.
    ///
    /// # Errors
    ///
    /// Returns an error if settings contradict each other, or if the server address, the proxy, a certificate or a key
    /// is invalid.
    pub fn new(config: TransportConfig) -> Result<Self, ConfigError> {
        let TransportConfig { origin, tls, http2, drop_connection_on_cancel, .. } = config;
        let env = if config.proxy_from_environment { Environment::of_process() } else { Environment::default() };
        let proxy = Proxy::choose(&origin, config.proxy_url.as_deref(), &env)?;
        // Verify the proxy's certificate with the CA certificates for the server. The client certificate and the
        // configured server name are only for the server.
        let trust = matches!(proxy, Some(Proxy::Http { is_tls: true, .. })).then(|| TlsClientConfig {
            certificate: None,
            key: None,
            server_name: None,
            ..tls.clone()
        });
        let (tls, settings) = origin.https.then(|| TlsSource::open(tls, http2.enabled)).transpose()?.unzip();
        let (proxy_tls, proxy_settings) = trust.map(|trust| TlsSource::open(trust, false)).transpose()?.unzip();
        let (server, port) = origin.host_and_port();
        let connector = Connector {
            metrics: config.metrics.map(|provider| {
                let host = proxy.as_ref().map_or(server.as_str(), Proxy::host);
                Arc::new(LookUps::new(provider, host.to_owned()))
            }),
            host: server,
            port,
            proxy,
            proxy_tls: proxy_settings,
            tls: settings,
            timeout: config.connect_timeout,
            http2,
        };
        let unusable = |why: &str| ConfigError::Server { server: redacted_url(&origin.authority), why: why.into() };
        let host = HeaderValue::from_str(origin.host_header());
        let host = host.map_err(|_| unusable("its host contains a character that is not allowed in a header"))?;
        let scheme = if origin.https { uri::Scheme::HTTPS } else { uri::Scheme::HTTP };
        let authority = origin.authority.parse().map_err(|_| unusable("its host is not \"host\" or \"host:port\""))?;
        let origin = (scheme, authority);
        let groups = RwLock::new(Arc::new(ConnectionGroups::new(connector, drop_connection_on_cancel)));
        Ok(Self { tls, proxy_tls, host, origin, drop_connection_on_cancel, groups, timers: Timers::default() })
    }

    /// Returns the timers for request deadlines.
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Sends a request and waits for the response headers. The URI of the request must consist of a path and a query.
    pub async fn round_trip(
        &self,
        request: &mut Request<RequestBody>,
        options: ExchangeOptions,
    ) -> Result<Response<ResponseBody>, Failure> {
        if let Some(tls) = &self.tls {
            tls.look(|settings| self.replace(|connector| connector.tls = Some(settings))).await;
        }
        if let Some(tls) = &self.proxy_tls {
            tls.look(|settings| self.replace(|connector| connector.proxy_tls = Some(settings))).await;
        }
        let groups = self.groups.read().clone();
        let group = match options.usage {
            ConnectionUse::Short => &groups.short,
            ConnectionUse::Long => &groups.long,
            ConnectionUse::Upgrade => {
                self.address(request, true, groups.connector.proxy.as_ref());
                let exchange = Box::pin(upgrade::round_trip(&groups.connector, request));
                let Some(headers) = options.headers else { return exchange.await };
                let limit = headers.saturating_add(groups.connector.timeout);
                let answer = self.timers.within(limit, pin!(exchange)).await;
                return answer.unwrap_or(Err(Failure::HeadersTimeout(headers)));
            }
        };
        loop {
            let mut connection = group.acquire().await?;
            let is_fresh = !connection.has_served();
            self.address(request, connection.is_http1(), groups.connector.proxy.as_ref());
            let sent = {
                let last_chunk = request.body().last_chunk();
                let sending = pin!(connection.send(request));
                match options.headers {
                    None => Ok(sending.await),
                    Some(headers) => self.timers.for_headers(headers, last_chunk, sending).await.ok_or(headers),
                }
            };
            let SendError { source, is_unsent } = match sent.map_err(Failure::HeadersTimeout)? {
                Some(Ok(answer)) => return Ok(answer.map(|incoming| ResponseBody::new(incoming, connection))),
                Some(Err(error)) => error,
                None => return Err(Failure::interrupted()),
            };
            if is_unsent || !is_of_stream(&*source) {
                connection.discard();
            }
            // Retry if a reused connection failed before any byte was sent. The connection may have been lost, or
            // closed by the server, while it was idle.
            if !is_unsent || is_fresh {
                return Err(Failure::of_exchange(source, is_unsent, is_fresh));
            }
        }
    }

    /// Sets the URI and the `Host` header for the chosen connection, and replaces the values of a previous attempt.
    fn address(&self, request: &mut Request<RequestBody>, is_http1: bool, proxy: Option<&Proxy>) {
        let mut is_whole = !is_http1;
        if !is_http1 {
            request.headers_mut().remove(HOST);
        } else {
            request.headers_mut().insert(HOST, self.host.clone());
            // A proxy that forwards the request needs an absolute URI and the proxy credentials.
            if let Some(Proxy::Http { auth, .. }) = proxy.filter(|_| self.tls.is_none()) {
                is_whole = true;
                if let Some(auth) = auth {
                    request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
                }
            }
        }
        if is_whole {
            self.make_whole(request);
        } else if request.uri().authority().is_some() {
            let target = request.uri().path_and_query().cloned();
            *request.uri_mut() = target.map(Uri::from).unwrap_or_default();
        }
    }

    /// Adds the scheme and the authority to the URI of a request if the URI lacks them.
    pub fn make_whole<B>(&self, request: &mut Request<B>) {
        if request.uri().authority().is_none() {
            let mut parts = uri::Parts::default();
            parts.path_and_query = request.uri().path_and_query().cloned();
            (parts.scheme, parts.authority) = (Some(self.origin.0.clone()), Some(self.origin.1.clone()));
            // This cannot fail, because all parts are valid.
            *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        }
    }

    /// Sets the client certificate for new connections to the certificate from a run of the credential plugin. If the
    /// plugin returned no certificate, new connections use the configured certificate. Does nothing if the certificate
    /// of a later run is already in use.
    pub async fn show(&self, shown: PluginCertificate<'_>) -> Result<(), ConfigError> {
        match &self.tls {
            Some(tls) => tls.show(shown, |settings| self.replace(|connector| connector.tls = Some(settings))).await,
            None => Ok(()),
        }
    }

    fn replace(&self, change: impl FnOnce(&mut Connector)) {
        let mut groups = self.groups.write();
        let mut connector = groups.connector.clone();
        change(&mut connector);
        let old =
            std::mem::replace(&mut *groups, Arc::new(ConnectionGroups::new(connector, self.drop_connection_on_cancel)));
        drop(groups);
        drop(old);
    }
}

impl ConnectionGroups {
    fn new(connector: Connector, drop_connection_on_cancel: bool) -> Self {
        let group = || ConnectionGroup::new(connector.clone(), drop_connection_on_cancel);
        let short = group();
        let long = if drop_connection_on_cancel { short.clone() } else { group() };
        Self { connector, short, long }
    }
}

pintle_meta::debug_struct!(Transport { tls, .. });
