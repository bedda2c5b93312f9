//! Whether HTTP/2 is spoken, and how its connections are watched over.

use std::time::Duration;

/// How a client speaks HTTP/2, where TLS negotiates it. The default is client-go's.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_meta::ClientConfig;
/// use pintle_restreq::{Http2Config, RestClient, RestClientConfig};
///
/// // A load balancer that forgets connections which rest for 10 s.
/// let http2 = Http2Config { ping_after: Some(Duration::from_secs(5)), ..Http2Config::of_process() };
/// let client = RestClient::new(RestClientConfig { http2, ..ClientConfig::new("https://10.0.0.1:6443").into() })?;
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Config {
    /// Whether it is offered to the server. Without it, each request that is under way has a connection of its own.
    pub enabled: bool,
    /// A peer that is silent for so long is asked whether it is there. None: it is not asked, and a connection whose peer has gone in
    /// silence is noticed by TCP alone. 30 s by default.
    pub ping_after: Option<Duration>,
    /// So long it has to answer; after that, the connection is given up. 15 s by default.
    pub ping_timeout: Duration,
}

impl Default for Http2Config {
    fn default() -> Self {
        Self { enabled: true, ping_after: Some(Duration::from_secs(30)), ping_timeout: Duration::from_secs(15) }
    }
}

/// So long is as good as for ever.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Http2Config {
    /// The same, in spans that hyper can add to any moment without a panic.
    pub(crate) fn countable(self) -> Self {
        let ping_after = self.ping_after.map(|after| after.min(LONGEST));
        Self { ping_after, ping_timeout: self.ping_timeout.min(LONGEST), ..self }
    }

    /// As the environment of this process has it, by client-go's variables: `DISABLE_HTTP2`, if it is not empty;
    /// `HTTP2_READ_IDLE_TIMEOUT_SECONDS`, of which 0 stands for no question; `HTTP2_PING_TIMEOUT_SECONDS`. What is not set, or is no
    /// number, has its default.
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let Self { ping_after, ping_timeout, .. } = Self::default();
        let text = |name| variable(name).filter(|text| !text.is_empty());
        let seconds = |name| {
            let text = text(name)?;
            let seconds = text.parse().map(Duration::from_secs);
            seconds.inspect_err(|_| tracing::warn!("{name} is no number of seconds, and has no effect: {text:?}")).ok()
        };
        Self {
            enabled: text("DISABLE_HTTP2").is_none(),
            ping_after: match seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS") {
                Some(Duration::ZERO) => None,
                asked => asked.or(ping_after),
            },
            // None at all would give up each connection that is asked.
            ping_timeout: seconds("HTTP2_PING_TIMEOUT_SECONDS").filter(|time| !time.is_zero()).unwrap_or(ping_timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_it_by_client_gos_variables() {
        let of = |wanted: &str, text: &str| Http2Config::of(|name| (name == wanted).then(|| text.to_owned()));
        let seconds = Duration::from_secs;
        assert_eq!(Http2Config::of(|_| None), Http2Config::default());
        for (text, enabled) in [("", true), ("1", false), ("false", false)] {
            assert_eq!(of("DISABLE_HTTP2", text).enabled, enabled, "{text:?}: anything at all");
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
