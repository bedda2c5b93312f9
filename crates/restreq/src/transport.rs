//! The way to the server: connections, TLS, HTTP. The only place that knows hyper's client.

mod connect;
mod proxy;
mod tls;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pintle_meta::ClientConfig;

use self::connect::{ConnectTimeout, Connector};
use self::proxy::Proxy;
pub(crate) use self::tls::ClientPair;
use self::tls::{TlsSettings, TlsSource};
use crate::base::Base;
use crate::error::ConfigError;
use crate::request::HttpBody;

type Pool = Client<Connector, HttpBody>;

/// The connections to one server.
pub(crate) struct Transport {
    tls: Option<TlsSource>,
    proxy: Option<Proxy>,
    connect_timeout: Duration,
    /// The pool of the present TLS settings. New ones get a new pool: requests on the old one go on to their end.
    pool: RwLock<Arc<Pool>>,
}

/// How an exchange fails beneath HTTP.
#[derive(Debug)]
pub(crate) enum Failure {
    Connect { refused: bool, source: Arc<dyn StdError + Send + Sync> },
    ConnectTimeout,
    Exchange(Arc<dyn StdError + Send + Sync>),
}

/// As with Go's client: a peer that is silent for so long is asked whether it is there, and has so long to answer.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const POOL_IDLE: Duration = Duration::from_secs(90);
const POOL_SIZE: usize = 25;

impl Transport {
    pub(crate) fn new(base: &Base, config: &ClientConfig, connect_timeout: Duration) -> Result<Self, ConfigError> {
        let (tls, settings) = match base.https {
            true => {
                let (source, settings) = TlsSource::open(&config.tls)?;
                (Some(source), Some(settings))
            }
            false => (None, None),
        };
        let proxy = Proxy::choose(base, config.proxy_url.as_deref())?;
        let pool = pool(Connector::new(settings, proxy.clone(), connect_timeout));
        Ok(Self { tls, proxy, connect_timeout, pool: RwLock::new(Arc::new(pool)) })
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn round_trip(&self, mut request: Request<HttpBody>) -> Result<Response<Incoming>, Failure> {
        if let Some(tls) = &self.tls
            && let Some(settings) = tls.changed().await
        {
            self.replace(settings);
        }
        if let Some(header) = self.proxy.as_ref().filter(|_| self.tls.is_none()).and_then(Proxy::header) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, header.clone());
        }
        let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner).clone();
        pool.request(request).await.map_err(Failure::from_hyper)
    }

    /// Shows this certificate from now on, if it is another one than before: on new connections.
    pub(crate) async fn show(&self, pair: &ClientPair) -> Result<(), ConfigError> {
        if let Some(tls) = &self.tls
            && let Some(settings) = tls.show(pair).await?
        {
            self.replace(settings);
        }
        Ok(())
    }

    fn replace(&self, settings: Arc<TlsSettings>) {
        let connector = Connector::new(Some(settings), self.proxy.clone(), self.connect_timeout);
        *self.pool.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pool(connector));
    }
}

fn pool(connector: Connector) -> Pool {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_SIZE)
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

impl Failure {
    fn from_hyper(error: hyper_util::client::legacy::Error) -> Self {
        let connecting = error.is_connect();
        let error: Arc<dyn StdError + Send + Sync> = Arc::new(error);
        if !connecting {
            // TLS 1.3 has the server refuse a certificate after the client's last word of the handshake.
            let refused_by_tls = causes(&*error).any(is_tls);
            return if refused_by_tls {
                Self::Connect { refused: false, source: error }
            } else {
                Self::Exchange(error)
            };
        }
        if causes(&*error).any(|cause| cause.is::<ConnectTimeout>()) {
            return Self::ConnectTimeout;
        }
        let is_refusal = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        let refused = causes(&*error).any(|cause| cause.downcast_ref().is_some_and(is_refusal));
        Self::Connect { refused, source: error }
    }
}

fn is_tls(error: &(dyn StdError + 'static)) -> bool {
    let within = |io: &io::Error| io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    // HTTP/2 keeps only the text of what went wrong beneath it.
    error.is::<rustls::Error>() || error.downcast_ref().is_some_and(within) || error.to_string().contains(ALERT)
}

/// How rustls words a peer's refusal.
const ALERT: &str = "received fatal alert";

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
