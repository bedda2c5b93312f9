//! The state that all clones of a client and their requests share.

use std::sync::Arc;

use http::HeaderValue;
use pintle_meta::{ClientConfig, redacted_url};
use pintle_transport::{ConfigError, ExchangeOptions, Failure, RequestBody, ResponseBody, Transport, TransportConfig};

use crate::auth::{Credentials, Impersonation, OpenOidc};
use crate::backoff::ServerBackoff;
use crate::base::Base;
use crate::config::{RestClientConfig, Timeouts};
#[cfg(feature = "tower")]
use crate::layer::LayeredTransport;
use crate::metrics::Instruments;
use crate::retry::Budget;
use crate::throttle::Throttle;
use crate::warning::WarningHandler;

pub(crate) struct Shared {
    pub(crate) base: Base,
    pub(crate) default_namespace: String,
    pub(crate) transport: Arc<Transport>,
    #[cfg(feature = "tower")]
    layered: Option<LayeredTransport>,
    pub(crate) credentials: Credentials,
    pub(crate) impersonation: Impersonation,
    pub(crate) throttle: Throttle,
    pub(crate) retries: Budget,
    pub(crate) backoff: Option<ServerBackoff>,
    pub(crate) throttled: bool,
    pub(crate) user_agent: HeaderValue,
    pub(crate) accept: HeaderValue,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_body: usize,
    pub(crate) max_object: usize,
    pub(crate) warnings: Arc<dyn WarningHandler>,
    pub(crate) metrics: Option<Arc<Instruments>>,
    pub(crate) logged_body: Option<usize>,
    #[cfg(feature = "gzip")]
    pub(crate) takes_gzip: bool,
}

const MAX_OBJECT: usize = 16 << 20;

impl Shared {
    pub(crate) fn new(config: RestClientConfig, open_oidc: OpenOidc) -> Result<Self, ConfigError> {
        let server = &config.server;
        let base = base(server)?;
        let user_agent = header("user_agent", server.user_agent.as_deref().unwrap_or(&default_user_agent()))?;
        let metrics =
            config.metrics.map(|provider| Arc::new(Instruments::new(provider, base.origin.authority.clone())));
        let transport = Arc::new(Transport::new(TransportConfig {
            origin: base.origin.clone(),
            tls: server.tls.clone(),
            proxy_url: server.proxy_url.clone(),
            proxy_from_environment: config.proxy_from_environment,
            connect_timeout: config.timeouts.connect,
            http2: config.http2,
            drop_connection_on_cancel: config.drop_connection_on_cancel,
            metrics: metrics.as_deref().map(Instruments::provider),
        })?);
        Ok(Self {
            default_namespace: server.default_namespace().to_owned(),
            #[cfg(feature = "tower")]
            layered: config.transport_layer.map(|layer| layer.around(transport.clone())),
            transport,
            credentials: Credentials::new(server, metrics.clone(), open_oidc)?,
            impersonation: Impersonation::new(server.impersonate.as_ref())?,
            throttle: Throttle::new(server.qps, server.burst),
            retries: Budget::default(),
            backoff: config.backoff.map(ServerBackoff::new),
            throttled: config.throttled,
            user_agent,
            accept: header("accept", &config.accept)?,
            timeouts: config.timeouts,
            max_body: config.max_body,
            max_object: server.max_object.unwrap_or(MAX_OBJECT),
            warnings: config.warning_handler,
            metrics,
            logged_body: config.logged_body,
            #[cfg(feature = "gzip")]
            takes_gzip: config.gzip && !server.disable_compression,
            base,
        })
    }

    /// Sends a request and waits for the response headers. Takes the body out of `request`.
    pub(crate) async fn round_trip(
        &self,
        request: &mut http::Request<RequestBody>,
        options: ExchangeOptions,
    ) -> Result<http::Response<ResponseBody>, Failure> {
        #[cfg(feature = "tower")]
        if let Some(layered) = &self.layered {
            return Box::pin(layered.round_trip(request, options, self.timeouts.connect)).await;
        }
        self.transport.round_trip(request, options).await
    }
}

/// Returns the server's address. Returns an error for an address without a scheme if the client would send credentials unencrypted.
fn base(config: &ClientConfig) -> Result<Base, ConfigError> {
    let tls = &config.tls;
    let has_tls = tls.ca.is_some() || tls.certificate.is_some() || tls.insecure_skip_verify;
    let base = Base::parse(&config.server, has_tls)?;
    let has_secret = config.basic.is_some() || config.token.is_some() || config.token_file.is_some();
    let has_login = config.exec.is_some() || config.oidc.is_some();
    if !has_tls && (has_secret || has_login) && !config.server.contains("://") {
        let why = "without a scheme the client would send the credentials unencrypted; write https:// before the host";
        return Err(ConfigError::Server { server: redacted_url(&config.server), why: why.into() });
    }
    Ok(base)
}

fn header(field: &'static str, text: &str) -> Result<HeaderValue, ConfigError> {
    let why = "it contains a character that is not allowed in a header";
    HeaderValue::from_str(text).map_err(|_| ConfigError::Value { field, why: why.into() })
}

/// Returns the default user agent, such as `quickstart/0.1.0 (linux/x86_64) pintle`.
fn default_user_agent() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    // The file name of a program may contain characters that are not allowed in a header value.
    let program: String = program.chars().filter(|c| c.is_ascii_graphic()).collect();
    let program = if program.is_empty() { "unknown" } else { &program };
    format!("{program}/{} ({}/{}) pintle", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)
}
