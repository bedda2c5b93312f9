//! The transport of requests: connections, TLS and HTTP.

mod body;
pub(crate) mod connect;
mod connection_group;
mod eyeballs;
mod http1;
mod pool;
pub(crate) mod proxy;
mod reads;
mod timers;
mod tls;
pub(crate) mod tunnel;
#[cfg(feature = "ws")]
pub(crate) mod upgrade;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Response, Uri, uri};
use pintle_meta::{ClientConfig, TlsClientConfig, redacted_url};

pub(crate) use self::body::ResponseBody;
#[cfg(all(feature = "gzip", any(test, fuzzing)))]
pub(crate) use self::body::inflated;
use self::connect::Connector;
use self::connection_group::ConnectionGroup;
#[cfg(any(test, fuzzing))]
pub(crate) use self::http1::http1_read;
pub(crate) use self::http1::is_invalid_response;
use self::proxy::Proxy;
pub(crate) use self::timers::Timers;
use self::tls::TlsSource;
#[cfg(any(test, fuzzing))]
pub(crate) use self::tls::pem_faults;
pub(crate) use self::tls::{CA, ClientPair, PluginCertificate, pem};
use crate::base::Base;
use crate::body::HttpBody;
use crate::error::{BoxError, ConfigError, causes};
use crate::http2::Http2Config;
use crate::metrics::Instruments;

/// The connections to one server.
pub(crate) struct Transport {
    tls: Option<TlsSource>,
    /// The TLS settings for connections to a proxy that uses TLS.
    proxy_tls: Option<TlsSource>,
    /// The `Host` header of HTTP/1.
    host: HeaderValue,
    /// The scheme and the authority of the server, for requests that need an absolute URI.
    origin: (uri::Scheme, uri::Authority),
    drop_connection_on_cancel: bool,
    /// The connections that use the current TLS settings. When the TLS settings change, the next requests use new
    /// connections. Requests in progress finish on the old connections.
    groups: RwLock<Arc<ConnectionGroups>>,
    timers: Timers,
}

/// Watches and streams use separate connections. On shared connections, watches and streams would occupy HTTP/2 streams
/// for a long time, and short requests would have to wait. A client with `drop_connection_on_cancel` sends few
/// requests, so all requests share one group.
struct ConnectionGroups {
    connector: Connector,
    short: Arc<ConnectionGroup>,
    long: Arc<ConnectionGroup>,
}

/// How long a request uses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionUse {
    /// Until the response ends.
    Short,
    /// The request keeps its connection until the client stops reading the response. Watches and streams use this variant.
    Long,
    /// The connection never returns to the pool, because it is upgraded to another protocol.
    #[cfg(feature = "ws")]
    Upgrade,
}

/// The options for sending one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExchangeOptions {
    pub(crate) usage: ConnectionUse,
    /// The maximum time between sending the request and receiving the response headers.
    pub(crate) headers: Option<Duration>,
}

/// A failure of the transport. There is no response.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Connect {
        refused: bool,
        source: Arc<dyn StdError + Send + Sync>,
    },
    ConnectTimeout,
    /// The response headers did not arrive within this time after the client sent the request.
    HeadersTimeout(Duration),
    /// The server did not process the request, and will not process it later.
    Unprocessed(Arc<dyn StdError + Send + Sync>),
    Exchange {
        /// Whether the connection was reused. A reused connection most likely died while it was idle.
        is_stale: bool,
        source: Arc<dyn StdError + Send + Sync>,
    },
}

/// The error of a request that got no response.
struct SendError {
    source: BoxError,
    /// Whether no byte of the request was sent. The caller can then send the request over another connection.
    is_unsent: bool,
}

/// Returns whether a request with this method usually has a body. Such a request contains a `Content-Length` even if
/// its body is empty.
fn has_body(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

impl Transport {
    /// Creates the transport. If `drop_connection_on_cancel` is true, cancelling a request also drops its connection.
    pub(crate) fn new(
        base: &Base,
        config: &ClientConfig,
        proxy: Option<Proxy>,
        connect_timeout: Duration,
        http2: Http2Config,
        drop_connection_on_cancel: bool,
        metrics: Option<Arc<Instruments>>,
    ) -> Result<Self, ConfigError> {
        let (tls, settings) = match base.https {
            true => {
                let (source, settings) = TlsSource::open(&config.tls, http2.enabled)?;
                (Some(source), Some(settings))
            }
            false => (None, None),
        };
        let (host, port) = base.host_and_port();
        let (proxy_tls, proxy_settings) = match &proxy {
            Some(Proxy::Http { is_tls: true, .. }) => {
                // Verify the proxy with the same CA certificates as the server. The client's certificate and the
                // configured server name apply only to the server.
                let trust = TlsClientConfig { certificate: None, key: None, server_name: None, ..config.tls.clone() };
                let (source, settings) = TlsSource::open(&trust, false)?;
                (Some(source), Some(settings))
            }
            _ => (None, None),
        };
        let connector = Connector {
            host,
            port,
            proxy,
            proxy_tls: proxy_settings,
            tls: settings,
            timeout: connect_timeout,
            http2,
            metrics,
        };
        let unusable = |why: &str| ConfigError::Server { server: redacted_url(&base.authority), why: why.into() };
        let host = HeaderValue::from_str(base.host_header());
        let host = host.map_err(|_| unusable("its host contains a character that is not allowed in a header"))?;
        let scheme = if base.https { uri::Scheme::HTTPS } else { uri::Scheme::HTTP };
        let authority = base.authority.parse().map_err(|_| unusable("its host is not \"host\" or \"host:port\""))?;
        let origin = (scheme, authority);
        let groups = RwLock::new(Arc::new(ConnectionGroups::new(connector, drop_connection_on_cancel)));
        Ok(Self { tls, proxy_tls, host, origin, drop_connection_on_cancel, groups, timers: Timers::default() })
    }

    /// Returns the timers for the deadlines of requests.
    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Sends a request and waits for the response headers. The URI of the request must consist of a path and a query.
    pub(crate) async fn round_trip(
        &self,
        request: &mut Request<HttpBody>,
        options: ExchangeOptions,
    ) -> Result<Response<ResponseBody>, Failure> {
        if let Some(tls) = &self.tls {
            tls.look(|settings| self.replace(|connector| connector.tls = Some(settings))).await;
        }
        if let Some(tls) = &self.proxy_tls {
            tls.look(|settings| self.replace(|connector| connector.proxy_tls = Some(settings))).await;
        }
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner).clone();
        let group = match options.usage {
            ConnectionUse::Short => &groups.short,
            ConnectionUse::Long => &groups.long,
            #[cfg(feature = "ws")]
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
                let sending = pin!(connection.send(request));
                match options.headers {
                    None => Ok(sending.await),
                    Some(headers) => self.timers.within(headers, sending).await.ok_or(headers),
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
            // A reused connection may have died while it was idle, or the server may have shut down the connection.
            if !is_unsent || is_fresh {
                return Err(Failure::of_exchange(source, is_unsent, is_fresh));
            }
        }
    }

    /// Sets the URI and the `Host` header in the form that the connection requires. The request may still contain the values that an
    /// earlier attempt set for another connection.
    fn address(&self, request: &mut Request<HttpBody>, is_http1: bool, proxy: Option<&Proxy>) {
        let mut is_whole = !is_http1;
        if !is_http1 {
            request.headers_mut().remove(HOST);
        } else {
            request.headers_mut().insert(HOST, self.host.clone());
            // A forwarding proxy needs an absolute URI and the credentials for the proxy.
            if let Some(Proxy::Http { auth, .. }) = proxy.filter(|_| self.tls.is_none()) {
                is_whole = true;
                if let Some(auth) = auth {
                    request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
                }
            }
        }
        match is_whole {
            true => self.make_whole(request),
            false if request.uri().authority().is_some() => {
                let target = request.uri().path_and_query().cloned();
                *request.uri_mut() = target.map(Uri::from).unwrap_or_default();
            }
            false => {}
        }
    }

    /// Adds the scheme and the authority, which the URI does not have yet.
    pub(crate) fn make_whole<B>(&self, request: &mut Request<B>) {
        if request.uri().authority().is_none() {
            let mut parts = uri::Parts::default();
            parts.path_and_query = request.uri().path_and_query().cloned();
            (parts.scheme, parts.authority) = (Some(self.origin.0.clone()), Some(self.origin.1.clone()));
            // All parts of the URI are valid, so this call cannot fail.
            *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        }
    }

    /// Sets the client certificate for new connections. The certificate comes from a run of the credential plugin. If
    /// the run returned no certificate, new connections use the configured certificate. If a later run of the plugin
    /// has already set the certificate, this method does nothing.
    pub(crate) async fn show(&self, shown: PluginCertificate<'_>) -> Result<(), ConfigError> {
        match &self.tls {
            Some(tls) => tls.show(shown, |settings| self.replace(|connector| connector.tls = Some(settings))).await,
            None => Ok(()),
        }
    }

    /// Sets the TLS settings for new connections.
    fn replace(&self, change: impl FnOnce(&mut Connector)) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(feature = "tower")]
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectTimeout => f.write_str("connecting took too long"),
            Self::HeadersTimeout(_) => f.write_str("no response headers in time"),
            Self::Connect { source, .. } | Self::Unprocessed(source) | Self::Exchange { source, .. } => source.fmt(f),
        }
    }
}

#[cfg(feature = "tower")]
impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::ConnectTimeout | Self::HeadersTimeout(_) => None,
            // The error message already contains the message of the source.
            Self::Connect { source, .. } | Self::Unprocessed(source) | Self::Exchange { source, .. } => source.source(),
        }
    }
}

impl Failure {
    fn connecting(error: BoxError) -> Self {
        let source: Arc<dyn StdError + Send + Sync> = error.into();
        let is_refusal = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        let refused = causes(&*source).any(|cause| cause.downcast_ref().is_some_and(is_refusal));
        Self::Connect { refused, source }
    }

    fn of_exchange(error: BoxError, is_unsent: bool, is_fresh: bool) -> Self {
        let source: Arc<dyn StdError + Send + Sync> = error.into();
        let is_unprocessed = is_unsent || causes(&*source).any(|cause| cause.downcast_ref().is_some_and(is_refused));
        // In TLS 1.3, the server can reject the client's certificate after the client has finished the handshake. If
        // the connection was reused, or if the TLS error has another cause, the server may have processed the request.
        let is_turned_away = is_fresh && causes(&*source).any(is_refused_handshake);
        match is_turned_away {
            true => Self::Connect { refused: false, source },
            false if is_unprocessed => Self::Unprocessed(source),
            false => {
                let is_stale = !is_fresh && !is_invalid_response(&*source);
                Self::Exchange { is_stale, source }
            }
        }
    }

    /// Returns the error of a dial whose task ended before the connection was established.
    fn interrupted() -> Self {
        Self::Connect { refused: false, source: Arc::new(Interrupted) }
    }
}

/// The source of the error that a request gets if its dial is dropped, because the runtime of the dial or the client was dropped.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connecting was interrupted: the runtime that it ran on has ended")
    }
}

impl StdError for Interrupted {}

/// Returns whether the server reported that it has not processed the stream and will not process the stream later (RFC
/// 9113, sections 6.8 and 8.7). The crate h2 reports a GOAWAY for a stream only if the last stream ID in the GOAWAY is lower than the ID of
/// the stream.
fn is_refused(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// Returns whether an error affects only one stream. If only one stream is affected, the connection can still be used.
fn is_of_stream(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(h2::Error::is_reset))
}

/// Returns whether the peer rejected the TLS handshake. The function searches the text of the error, because an HTTP/2 error contains its
/// cause only as text.
fn is_refused_handshake(error: &(dyn StdError + 'static)) -> bool {
    let text = error.to_string();
    let alert = text.split_once(ALERT).map(|(_, alert)| alert).unwrap_or_default();
    REFUSALS.iter().any(|refusal| alert.starts_with(refusal))
}

/// The start of rustls's error message for an alert that the peer sent.
const ALERT: &str = "received fatal alert: ";

/// Alerts that a peer sends only during a handshake (RFC 8446, section 6.2, and alerts of older TLS versions). After
/// any other alert, such as an internal error, the server may already have started to process the request.
const REFUSALS: [&str; 18] = [
    "AccessDenied",
    "BadCertificate",
    "CertificateExpired",
    "CertificateRequired",
    "CertificateRevoked",
    "CertificateUnknown",
    "CertificateUnobtainable",
    "DecryptError",
    "HandshakeFailure",
    "InappropriateFallback",
    "InsufficientSecurity",
    "MissingExtension",
    "NoApplicationProtocol",
    "NoCertificate",
    "ProtocolVersion",
    "UnknownCA",
    "UnrecognisedName",
    "UnsupportedCertificate",
];

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("tls", &self.tls).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rustls::AlertDescription as Alert;

    use super::*;

    #[test]
    fn only_handshake_alerts_prove_that_nothing_was_processed() {
        for (alert, is_proof) in [
            (Alert::BadCertificate, true),
            (Alert::CertificateRequired, true),
            (Alert::CertificateUnknown, true),
            (Alert::HandshakeFailure, true),
            (Alert::UnknownCA, true),
            (Alert::AccessDenied, true),
            (Alert::CertificateExpired, true),
            (Alert::NoApplicationProtocol, true),
            (Alert::InternalError, false),
            (Alert::BadRecordMac, false),
            (Alert::DecodeError, false),
            (Alert::IllegalParameter, false),
            (Alert::RecordOverflow, false),
            (Alert::UnexpectedMessage, false),
            (Alert::UserCanceled, false),
            (Alert::Unknown(200), false),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
            assert_eq!(is_refused_handshake(&error), is_proof, "{error}");
        }
        assert!(!is_refused_handshake(&io::Error::other("reset")));
    }
}
