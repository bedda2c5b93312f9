//! What a server remarks on requests that it served.

pub(crate) mod parse;
mod words;

use std::fmt;

pub(crate) use parse::parse_all;

/// A remark of the server on a request that it nevertheless served, such as the use of a deprecated API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// 299 for everything that Kubernetes itself says.
    pub code: u16,
    /// Who warns; `-` for unknown.
    pub agent: String,
    /// For humans.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Hears of the warnings in answers.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use pintle_meta::ClientConfig;
/// use pintle_restreq::{RestClient, RestClientConfig, Warning, WarningHandler};
///
/// struct Print;
///
/// impl WarningHandler for Print {
///     fn warn(&self, warning: &Warning) {
///         eprintln!("{}: {warning}", warning.code);
///     }
/// }
///
/// let config = ClientConfig::new("https://10.0.0.1:6443");
/// let client = RestClient::new(RestClientConfig { warning_handler: Arc::new(Print), ..config.into() })?;
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
pub trait WarningHandler: Send + Sync {
    /// Is told each warning once per answer. It should return at once: the request waits for it.
    fn warn(&self, warning: &Warning);
}

/// Logs warnings of code 299 at level WARN; the default of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogWarnings;

impl WarningHandler for LogWarnings {
    fn warn(&self, warning: &Warning) {
        if warning.code == 299 && !warning.text.is_empty() {
            tracing::warn!(agent = warning.agent, "the server warns: {}", warning.text);
        }
    }
}

/// Ignores all warnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoreWarnings;

impl WarningHandler for IgnoreWarnings {
    fn warn(&self, _: &Warning) {}
}
