//! The credentials of a client: the `Authorization` header, client certificates and impersonation.

pub(crate) mod exec;
mod impersonate;
#[cfg(feature = "oidc")]
pub(crate) mod oidc;
mod policy;
mod renewal;
pub(crate) mod token;

use std::sync::Arc;

use http::HeaderValue;
use pintle_meta::ClientConfig;
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
    Exec(Renewal<ExecPlugin>),
    #[cfg(feature = "oidc")]
    Oidc(Arc<Renewal<oidc::OidcLogin>>),
}

impl Credentials {
    pub(crate) fn new(config: &ClientConfig, metrics: Option<Arc<Instruments>>) -> Result<Self, ConfigError> {
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
                (Some(exec), None) => Self::Exec(Renewal::new(ExecPlugin::new(exec, config, metrics)?, None)),
                #[cfg(feature = "oidc")]
                (None, Some(oidc)) => Self::Oidc(oidc::open(oidc)?),
                // Without the feature `oidc`, ignore the login if a client certificate is configured.
                #[cfg(not(feature = "oidc"))]
                (None, Some(_)) if config.tls.certificate.is_some() => Self::None,
                #[cfg(not(feature = "oidc"))]
                (None, Some(_)) => {
                    let why = "logins by OpenID Connect need the feature `oidc` of pintle-restreq".into();
                    return Err(ConfigError::Value { field: "oidc", why });
                }
                (None, None) => Self::None,
            },
        })
    }

    pub(crate) async fn login(&self) -> Result<Login, AuthError> {
        match self {
            Self::None => Ok(Login::default()),
            Self::Fixed(header) => Ok(header.clone().into()),
            Self::TokenFile(file) => file.header().await.map(Login::from),
            Self::Exec(plugin) => Box::pin(plugin.login()).await,
            #[cfg(feature = "oidc")]
            Self::Oidc(oidc) => Box::pin(oidc.login()).await,
        }
    }

    /// Returns new credentials after the server has rejected `used`, or `None` if no other credentials are available.
    pub(crate) async fn after_refusal(&self, used: &Login) -> Result<Option<Login>, AuthError> {
        let fresh = match self {
            Self::None | Self::Fixed(_) => None,
            Self::TokenFile(file) => file.reread().await.ok().map(Login::from),
            Self::Exec(plugin) => Some(plugin.renew(used).await?),
            // Without a refresh token, the client cannot obtain new credentials for the login.
            #[cfg(feature = "oidc")]
            Self::Oidc(oidc) if !oidc.source().may_refresh() => None,
            #[cfg(feature = "oidc")]
            Self::Oidc(oidc) => Some(oidc.renew(used).await?),
        };
        Ok(fresh.filter(|fresh| !fresh.is_same(used)))
    }
}
