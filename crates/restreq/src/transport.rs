//! The way to the server: connections, TLS, HTTP. The only place that knows hyper's client.

mod answer;
mod connect;
mod eyeballs;
mod lane;
mod pool;
pub(crate) mod proxy;
mod tls;
pub(crate) mod tunnel;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, Uri, uri};
use pintle_meta::{ClientConfig, TlsClientConfig, redacted_url};

pub(crate) use self::answer::AnswerBody;
#[cfg(all(feature = "gzip", any(test, fuzzing)))]
pub(crate) use self::answer::inflated;
use self::connect::Connector;
use self::lane::Lane;
use self::proxy::Proxy;
use self::tls::TlsSource;
#[cfg(any(test, fuzzing))]
pub(crate) use self::tls::pem_faults;
pub(crate) use self::tls::{CA, ClientPair, Shown, pem};
use crate::Http2Config;
use crate::base::Base;
use crate::error::ConfigError;
use crate::metrics::Instruments;
use crate::request::HttpBody;

/// The connections to one server.
pub(crate) struct Transport {
    tls: Option<TlsSource>,
    /// Of a proxy that is reached over TLS.
    proxy_tls: Option<TlsSource>,
    /// The `Host` header of HTTP/1.
    host: HeaderValue,
    /// Scheme and authority of a whole URI.
    origin: (uri::Scheme, uri::Authority),
    is_wary: bool,
    /// The connections of the present TLS settings. New ones get new connections: requests on the old ones go on to their end.
    lanes: RwLock<Arc<Lanes>>,
}

/// Watches and the like have connections of their own, since they hold them for long: on HTTP/2 their streams would be those that
/// short requests lack. Where a request that is given up takes its connection along, requests are few, and one connection does.
struct Lanes {
    connector: Connector,
    short: Arc<Lane>,
    long: Arc<Lane>,
}

/// For how long a request has its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Short,
    /// For as long as someone listens.
    Long,
}

/// How an exchange fails beneath HTTP.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Connect {
        refused: bool,
        source: Arc<dyn StdError + Send + Sync>,
    },
    ConnectTimeout,
    /// The server has not begun to do what was asked for, and never will.
    Unprocessed(Arc<dyn StdError + Send + Sync>),
    Exchange {
        /// Whether the connection had served before: most likely it had died since.
        is_stale: bool,
        source: Arc<dyn StdError + Send + Sync>,
    },
}

impl Transport {
    /// `is_wary`: a request that is given up takes its connection along.
    pub(crate) fn new(
        base: &Base,
        config: &ClientConfig,
        proxy: Option<Proxy>,
        connect_timeout: Duration,
        http2: Http2Config,
        is_wary: bool,
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
                // Trusted as the server is. The client's certificate and the server's name are the server's business.
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
        let host = host.map_err(|_| unusable("its host holds what a header may not hold"))?;
        let scheme = if base.https { uri::Scheme::HTTPS } else { uri::Scheme::HTTP };
        let authority = base.authority.parse().map_err(|_| unusable("its host is not \"host\" or \"host:port\""))?;
        let origin = (scheme, authority);
        let lanes = RwLock::new(Arc::new(Lanes::new(connector, is_wary)));
        Ok(Self { tls, proxy_tls, host, origin, is_wary, lanes })
    }

    /// Sends a request, whose URI is path and query, and waits for the head of the answer.
    pub(crate) async fn round_trip(
        &self,
        mut request: Request<HttpBody>,
        span: Span,
    ) -> Result<Response<AnswerBody>, Failure> {
        if let Some(tls) = &self.tls {
            tls.look(|settings| self.replace(|connector| connector.tls = Some(settings))).await;
        }
        if let Some(tls) = &self.proxy_tls {
            tls.look(|settings| self.replace(|connector| connector.proxy_tls = Some(settings))).await;
        }
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let lane = match span {
            Span::Short => &lanes.short,
            Span::Long => &lanes.long,
        };
        loop {
            let mut lease = lane.lease().await?;
            let is_fresh = !lease.has_served();
            self.address(&mut request, lease.is_http1(), lanes.connector.proxy.as_ref());
            let mut error = match lease.send(request).await {
                Some(Ok(answer)) => return Ok(answer.map(|incoming| AnswerBody::new(incoming, lease))),
                Some(Err(error)) => error,
                None => return Err(Failure::interrupted()),
            };
            let unsent = error.take_message();
            if unsent.is_some() || !is_of_stream(error.error()) {
                lease.give_up();
            }
            match unsent {
                // A connection that has served may have died since, or been told to take no more.
                Some(unsent) if !is_fresh => request = unsent,
                unsent => return Err(Failure::of_exchange(error.into_error(), unsent.is_some(), is_fresh)),
            }
        }
    }

    /// Names the server in the way that the connection wants. The request may have been addressed for another.
    fn address(&self, request: &mut Request<HttpBody>, is_http1: bool, proxy: Option<&Proxy>) {
        request.headers_mut().remove(HOST);
        let mut is_whole = !is_http1;
        if is_http1 {
            request.headers_mut().insert(HOST, self.host.clone());
            // A proxy that is asked for each resource wants the whole URI, and its own password.
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

    /// Adds scheme and authority to the URI, if they are missing.
    pub(crate) fn make_whole<B>(&self, request: &mut Request<B>) {
        if request.uri().authority().is_none() {
            let mut parts = uri::Parts::default();
            parts.path_and_query = request.uri().path_and_query().cloned();
            (parts.scheme, parts.authority) = (Some(self.origin.0.clone()), Some(self.origin.1.clone()));
            // It can only be one: all of its parts are.
            *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        }
    }

    /// Shows a credential program's certificate from now on, or the configured one again, on new connections; unless a later
    /// run of the program has already said what to show.
    pub(crate) async fn show(&self, shown: Shown<'_>) -> Result<(), ConfigError> {
        match &self.tls {
            Some(tls) => tls.show(shown, |settings| self.replace(|connector| connector.tls = Some(settings))).await,
            None => Ok(()),
        }
    }

    /// Has new connections made in another way from now on.
    fn replace(&self, change: impl FnOnce(&mut Connector)) {
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        let mut connector = lanes.connector.clone();
        change(&mut connector);
        let old = std::mem::replace(&mut *lanes, Arc::new(Lanes::new(connector, self.is_wary)));
        drop(lanes);
        drop(old);
    }
}

impl Lanes {
    fn new(connector: Connector, is_wary: bool) -> Self {
        let lane = || Lane::new(connector.clone(), is_wary);
        let short = lane();
        let long = if is_wary { short.clone() } else { lane() };
        Self { connector, short, long }
    }
}

#[cfg(feature = "tower")]
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectTimeout => f.write_str("connecting took too long"),
            Self::Connect { source, .. } | Self::Unprocessed(source) | Self::Exchange { source, .. } => source.fmt(f),
        }
    }
}

#[cfg(feature = "tower")]
impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::ConnectTimeout => None,
            // It has been told already.
            Self::Connect { source, .. } | Self::Unprocessed(source) | Self::Exchange { source, .. } => source.source(),
        }
    }
}

impl Failure {
    fn connecting(error: crate::request::BoxError) -> Self {
        let source: Arc<dyn StdError + Send + Sync> = error.into();
        let is_refusal = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        let refused = causes(&*source).any(|cause| cause.downcast_ref().is_some_and(is_refusal));
        Self::Connect { refused, source }
    }

    fn of_exchange(error: hyper::Error, is_unsent: bool, is_fresh: bool) -> Self {
        let is_unprocessed = is_unsent || causes(&error).any(|cause| cause.downcast_ref().is_some_and(is_refused));
        let source: Arc<dyn StdError + Send + Sync> = Arc::new(error);
        // TLS 1.3 has the server refuse a certificate after the client's last word of the handshake. Once a connection has served,
        // or with any other fault of TLS, the server may have done what was asked for.
        let is_turned_away = is_fresh && causes(&*source).any(is_refused_handshake);
        match is_turned_away {
            true => Self::Connect { refused: false, source },
            false if is_unprocessed => Self::Unprocessed(source),
            false => Self::Exchange { is_stale: !is_fresh, source },
        }
    }

    /// Whoever was about to connect is gone.
    fn interrupted() -> Self {
        Self::Connect { refused: false, source: Arc::new(Interrupted) }
    }
}

/// The runtime ended, or the client was dropped, while a connection was being made.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connecting was interrupted: the runtime that it ran on has ended")
    }
}

impl StdError for Interrupted {}

/// Whether the server says that it has not begun with the stream, and never will (RFC 9113, sections 6.8 and 8.7). h2 tells a stream
/// of a GOAWAY only if that came from the peer and the stream is above its last one.
fn is_refused(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// Whether an error is of one stream alone, so that its connection is as good as before.
fn is_of_stream(error: &hyper::Error) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(h2::Error::is_reset))
}

/// Whether the peer refused the handshake of TLS. Only the text tells: HTTP/2 keeps no more of what went wrong beneath it.
fn is_refused_handshake(error: &(dyn StdError + 'static)) -> bool {
    let text = error.to_string();
    let alert = text.split_once(ALERT).map(|(_, alert)| alert).unwrap_or_default();
    REFUSALS.iter().any(|refusal| alert.starts_with(refusal))
}

/// How rustls words what a peer ends a connection with.
const ALERT: &str = "received fatal alert: ";

/// The alerts that nobody sends but in a handshake (RFC 8446, section 6.2; those of older versions, too). With any other, such as that of
/// an internal error, a server may end what it has begun to serve.
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

/// An error and all beneath it.
pub(crate) fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| StdError::source(*error))
}

/// An error in one line: what each layer adds, from the outside in.
pub(crate) fn in_one_line(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for cause in causes(error) {
        let text = cause.to_string();
        // Layers often repeat the one beneath.
        if !line.contains(&text) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&text);
        }
    }
    line
}

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
    fn only_the_alerts_of_a_handshake_prove_that_nothing_was_looked_at() {
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
