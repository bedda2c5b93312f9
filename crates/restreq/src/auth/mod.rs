//! Who is asking: the `Authorization` header and impersonation.

mod impersonate;
mod token;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use pintle_meta::ClientConfig;

pub(crate) use impersonate::Impersonation;
use token::TokenFile;

use crate::error::{AuthError, ConfigError};

/// Where the `Authorization` header comes from.
#[derive(Debug)]
pub(crate) enum Credentials {
    None,
    /// A password or a token that stands in the configuration.
    Fixed(HeaderValue),
    TokenFile(TokenFile),
}

impl Credentials {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ConfigError> {
        let has_token = config.token.is_some() || config.token_file.is_some();
        if config.basic.is_some() && has_token {
            return Err(ConfigError::Conflict { first: "basic", second: "token" });
        }
        if let Some(basic) = &config.basic {
            let pair = format!("{}:{}", basic.username, basic.password.expose());
            return Ok(Self::Fixed(secret("basic", format!("Basic {}", BASE64_STANDARD.encode(pair)))?));
        }
        let token =
            config.token.as_ref().map(|token| secret("token", format!("Bearer {}", token.expose()))).transpose()?;
        Ok(match (&config.token_file, token) {
            (Some(path), token) => Self::TokenFile(TokenFile::new(path.clone(), token)),
            (None, Some(token)) => Self::Fixed(token),
            (None, None) => Self::None,
        })
    }

    /// The header for the next request. `None`: anonymous, or by certificate.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, AuthError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(value) => Ok(Some(value.clone())),
            Self::TokenFile(file) => file.header().await.map(Some),
        }
    }

    /// After the server refused `used`: the header to try instead, if there is another one by now.
    pub(crate) async fn after_refusal(&self, used: Option<&HeaderValue>) -> Result<Option<HeaderValue>, AuthError> {
        match self {
            Self::None | Self::Fixed(_) => Ok(None),
            Self::TokenFile(file) => Ok(file.reread().await.ok().filter(|fresh| Some(fresh) != used)),
        }
    }
}

/// A header value that does not print itself.
fn secret(field: &'static str, text: String) -> Result<HeaderValue, ConfigError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| ConfigError::Value {
        field,
        why: "it holds what a header may not hold, such as a line break".into(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}
