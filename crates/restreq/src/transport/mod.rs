//! The way to the server: connections, TLS, HTTP. The only place that knows hyper's client.

mod connect;
mod tls;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pintle_meta::ClientConfig;

use self::connect::{ConnectTimeout, Connector};
use self::tls::TlsSource;
use crate::base::Base;
use crate::error::ConfigError;
use crate::request::HttpBody;

type Pool = Client<Connector, HttpBody>;

/// The connections to one server.
pub(crate) struct Transport {
    tls: Option<TlsSource>,
    connect_timeout: Duration,
    /// The pool of the present TLS settings. New ones get a new pool: requests on the old one go on to their end.
    pool: std::sync::RwLock<Arc<Pool>>,
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
        let pool = pool(Connector::new(settings, connect_timeout));
        Ok(Self { tls, connect_timeout, pool: std::sync::RwLock::new(Arc::new(pool)) })
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn round_trip(&self, request: Request<HttpBody>) -> Result<Response<Incoming>, Failure> {
        let pool = self.pool().await;
        pool.request(request).await.map_err(Failure::from_hyper)
    }

    async fn pool(&self) -> Arc<Pool> {
        if let Some(tls) = &self.tls
            && let Some(settings) = tls.changed().await
        {
            let fresh = Arc::new(pool(Connector::new(Some(settings), self.connect_timeout)));
            *self.pool.write().unwrap_or_else(std::sync::PoisonError::into_inner) = fresh;
        }
        self.pool.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
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
            return Self::Exchange(error);
        }
        if causes(&*error).any(|cause| cause.is::<ConnectTimeout>()) {
            return Self::ConnectTimeout;
        }
        let is_refusal = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        let refused = causes(&*error).any(|cause| cause.downcast_ref().is_some_and(is_refusal));
        Self::Connect { refused, source: error }
    }
}

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
