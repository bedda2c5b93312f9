//! The credentials of a client: the `Authorization` header, client certificates and impersonation.

pub(crate) mod exec;
mod impersonate;
mod policy;
pub(crate) mod renewal;
pub(crate) mod token;

use std::sync::Arc;

use http::HeaderValue;
use pintle_meta::{ClientConfig, OidcConfig};
use pintle_transport::authorization::{self, secret};
use pintle_transport::{ClientPair, ConfigError};

use exec::ExecPlugin;
pub(crate) use impersonate::Impersonation;
use renewal::Renewal;
use token::TokenFile;

use crate::error::AuthError;
use crate::metrics::Instruments;

#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) header: Option<HeaderValue>,
    /// The client certificate that replaces the configured client certificate.
    pub(crate) pair: Option<Arc<ClientPair>>,
    /// The number of the renewal that returned these credentials, counted from 1, or 0 if the credentials are never
    /// renewed.
    pub(crate) run: u64,
}

impl Login {
    /// Returns `true` if both logins have the same credentials, even if the credentials come from different renewals.
    fn is_same(&self, other: &Self) -> bool {
        self.header == other.header && self.pair == other.pair
    }
}

impl From<HeaderValue> for Login {
    fn from(header: HeaderValue) -> Self {
        Self { header: Some(header), pair: None, run: 0 }
    }
}

pub(crate) enum Credentials {
    None,
    /// An `Authorization` header with the configured password or token, which never changes.
    Fixed(HeaderValue),
    TokenFile(TokenFile),
    /// Credentials of a plugin or an OpenID Connect login.
    Renewed(Arc<Renewal>),
}

/// Opens an OpenID Connect login. The login sends requests, so it is implemented above this module.
pub(crate) type OpenOidc = fn(&OidcConfig) -> Result<Credentials, ConfigError>;

impl Credentials {
    pub(crate) fn new(
        config: &ClientConfig,
        metrics: Option<Arc<Instruments>>,
        open_oidc: OpenOidc,
    ) -> Result<Self, ConfigError> {
        let has_token = config.token.is_some() || config.token_file.is_some();
        if config.basic.is_some() && has_token {
            return Err(ConfigError::Conflict { first: "basic", second: "token" });
        }
        if let Some(basic) = &config.basic {
            return Ok(Self::Fixed(authorization::basic("basic", &basic.username, basic.password.expose())?));
        }
        let token = config.token.as_ref().map(|token| secret("token", "Bearer", token.expose())).transpose()?;
        Ok(match (&config.token_file, token) {
            (Some(path), token) => Self::TokenFile(TokenFile::new(path.clone(), token)),
            (None, Some(token)) => Self::Fixed(token),
            // If a client certificate is configured, ignore credential plugins and OpenID Connect logins.
            (None, None) => match (config.exec.clone().filter(|_| config.tls.certificate.is_none()), &config.oidc) {
                (Some(_), Some(_)) => return Err(ConfigError::Conflict { first: "exec", second: "oidc" }),
                (Some(exec), None) => {
                    let plugin = Arc::new(ExecPlugin::new(exec, config, metrics)?);
                    Self::Renewed(Arc::new(Renewal::new(plugin, None)))
                }
                // Without the feature `oidc`, ignore the login if a client certificate is configured.
                #[cfg(not(feature = "oidc"))]
                (None, Some(_)) if config.tls.certificate.is_some() => Self::None,
                (None, Some(oidc)) => open_oidc(oidc)?,
                (None, None) => Self::None,
            },
        })
    }

    pub(crate) async fn login(&self) -> Result<Login, AuthError> {
        match self {
            Self::None => Ok(Login::default()),
            Self::Fixed(header) => Ok(header.clone().into()),
            Self::TokenFile(file) => file.header().await.map(Login::from),
            Self::Renewed(renewal) => Box::pin(renewal.login()).await,
        }
    }

    /// Returns new credentials after the server has rejected `used`, or `None` if no other credentials are available.
    pub(crate) async fn after_refusal(&self, used: &Login) -> Result<Option<Login>, AuthError> {
        let fresh = match self {
            Self::None | Self::Fixed(_) => None,
            Self::TokenFile(file) => file.reread().await.ok().map(Login::from),
            Self::Renewed(renewal) => renewal.renew(used).await?,
        };
        Ok(fresh.filter(|fresh| !fresh.is_same(used)))
    }
}
