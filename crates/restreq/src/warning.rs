//! Warnings from the server.

pub(crate) mod parse;
mod words;

use std::fmt;

pub(crate) use parse::parse_all;

/// A warning that the server sent in a response, for example about a deprecated API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The warning code, which is always 299 in warnings from Kubernetes.
    pub code: u16,
    /// The component that sent the warning, or `-` if the component is unknown.
    pub agent: String,
    /// The human-readable text.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Handles the warnings in responses.
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
    /// Handles one warning. The request does not continue until this method returns, so it should be fast.
    fn warn(&self, warning: &Warning);
}

/// The default handler, which logs each warning that has code 299 at level WARN.
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
