//! HTTP/2 settings.

use std::time::Duration;

/// The HTTP/2 settings of a client, with the same defaults as client-go. The settings apply only if the TLS handshake
/// negotiates HTTP/2.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// # use pintle_transport::Http2Config;
///
/// // For a load balancer that drops connections after 10 s of silence.
/// let http2 = Http2Config { ping_after: Some(Duration::from_secs(5)), ..Http2Config::default() };
/// assert!(http2.enabled);
/// assert_eq!(http2.ping_timeout, Duration::from_secs(15));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Config {
    /// Whether to offer HTTP/2 to the server. Without HTTP/2, each request in flight needs a separate connection.
    pub enabled: bool,
    /// The time without data from the server after which the client sends a ping. The default is 30 s. If `None`, the
    /// client sends no pings, so only TCP can detect that the server is unreachable.
    pub ping_after: Option<Duration>,
    /// The time to wait for the response to a ping before the connection is closed. The default is 15 s.
    pub ping_timeout: Duration,
}

impl Default for Http2Config {
    fn default() -> Self {
        Self { enabled: true, ping_after: Some(Duration::from_secs(30)), ping_timeout: Duration::from_secs(15) }
    }
}

/// The maximum duration of a setting, to which longer durations are shortened.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Http2Config {
    /// Shortens the durations, because adding a very long duration to an `Instant` would panic.
    pub(crate) fn countable(self) -> Self {
        let ping_after = self.ping_after.map(|after| after.min(LONGEST));
        Self { ping_after, ping_timeout: self.ping_timeout.min(LONGEST), ..self }
    }

    /// Reads the settings from client-go's environment variables. If a variable is missing or not a number, its setting
    /// keeps the default.
    ///
    /// - `DISABLE_HTTP2` disables HTTP/2 if it is not empty.
    /// - `HTTP2_READ_IDLE_TIMEOUT_SECONDS` sets [`ping_after`](Self::ping_after), in seconds. 0 disables pings.
    /// - `HTTP2_PING_TIMEOUT_SECONDS` sets [`ping_timeout`](Self::ping_timeout), in seconds.
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let Self { ping_after, ping_timeout, .. } = Self::default();
        let text = |name| variable(name).filter(|text| !text.is_empty());
        let seconds = |name| {
            let text = text(name)?;
            let seconds = text.parse().map(Duration::from_secs);
            seconds.inspect_err(|_| tracing::warn!("{name} is not a number of seconds and is ignored: {text:?}")).ok()
        };
        Self {
            enabled: text("DISABLE_HTTP2").is_none(),
            ping_after: match seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS") {
                Some(Duration::ZERO) => None,
                asked => asked.or(ping_after),
            },
            // Ignore a ping timeout of zero, because it would close each connection after its first ping.
            ping_timeout: seconds("HTTP2_PING_TIMEOUT_SECONDS").filter(|time| !time.is_zero()).unwrap_or(ping_timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http2_config_reads_client_go_environment_variables() {
        let of = |wanted: &str, text: &str| Http2Config::of(|name| (name == wanted).then(|| text.to_owned()));
        let seconds = Duration::from_secs;
        assert_eq!(Http2Config::of(|_| None), Http2Config::default());
        for (text, enabled) in [("", true), ("1", false), ("false", false)] {
            assert_eq!(of("DISABLE_HTTP2", text).enabled, enabled, "{text:?}: any value");
        }
        for (text, after, timeout) in [
            ("", Some(30), 15),
            ("60", Some(60), 60),
            ("0", None, 15),
            ("abc", Some(30), 15),
            ("-1", Some(30), 15),
            ("1.5", Some(30), 15),
        ] {
            assert_eq!(of("HTTP2_READ_IDLE_TIMEOUT_SECONDS", text).ping_after, after.map(seconds), "{text:?}");
            assert_eq!(of("HTTP2_PING_TIMEOUT_SECONDS", text).ping_timeout, seconds(timeout), "{text:?}");
        }
    }
}
