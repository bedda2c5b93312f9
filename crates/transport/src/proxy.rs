//! Chooses the proxy of a client.

pub(crate) mod bypass;

use http::HeaderValue;
use percent_encoding::percent_decode_str;
use pintle_meta::redacted_url;

use self::bypass::bypasses;
use crate::authorization::basic;
use crate::error::ConfigError;
use crate::origin::{Origin, split_port};

/// The proxy for all requests of a client. There is only one proxy, because a client has only one server.
#[derive(Clone)]
pub(crate) enum Proxy {
    /// An HTTP proxy, to which the connection may use TLS. The proxy opens a tunnel to an `https` server, and
    /// forwards each request to an `http` server.
    Http { is_tls: bool, host: String, port: u16, auth: Option<HeaderValue> },
    /// A SOCKS5 proxy, which also resolves the server's host name.
    Socks5 { host: String, port: u16, auth: Option<(String, String)> },
}

#[derive(Default)]
pub(crate) struct Environment {
    https: Option<String>,
    http: Option<String>,
    all: Option<String>,
    no: Option<String>,
}

impl Proxy {
    /// Returns the configured proxy. If no proxy is configured, returns the proxy from the environment variables
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`. For localhost, this function ignores the environment
    /// variables.
    pub(crate) fn choose(
        origin: &Origin,
        configured: Option<&str>,
        env: &Environment,
    ) -> Result<Option<Self>, ConfigError> {
        match configured {
            Some(url) => {
                let proxy = if url.contains("://") { Self::parse(url) } else { Err(NO_URL) };
                proxy.map(Some).map_err(|why| fault("proxy_url", url, why))
            }
            None => Self::from_environment(origin, env),
        }
    }

    fn from_environment(origin: &Origin, env: &Environment) -> Result<Option<Self>, ConfigError> {
        let (host, port) = origin.host_and_port();
        let (field, url) = if origin.https { ("HTTPS_PROXY", &env.https) } else { ("HTTP_PROXY", &env.http) };
        let named = url.as_ref().map(|url| (field, url)).or_else(|| Some(("ALL_PROXY", env.all.as_ref()?)));
        let Some((field, url)) = named else { return Ok(None) };
        if is_this_machine(&host) || env.no.as_deref().is_some_and(|list| bypasses(list, &host, port)) {
            return Ok(None);
        }
        // The default scheme is http, as in Go.
        let whole = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        Self::parse(&whole).map(Some).map_err(|why| fault(field, url, why))
    }

    fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.trim().split_once("://").ok_or(NO_URL)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let is_host = authority.parse::<http::uri::Authority>().is_ok_and(|authority| !authority.host().is_empty());
        let (host, port) = split_port(authority);
        let has_port = authority.ends_with(']') || !authority.contains(':') || port.is_some();
        if !is_host || !has_port || host.is_empty() {
            return Err(NO_URL);
        }
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let auth = user.map(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            (decode(user), decode(password))
        });
        let host = host.to_owned();
        let http = |is_tls, default| {
            // This cannot fail, because base64 is a valid header value.
            let auth = auth.as_ref().and_then(|(user, password)| basic("proxy_url", user, password).ok());
            Ok(Self::Http { is_tls, host: host.clone(), port: port.unwrap_or(default), auth })
        };
        match scheme.to_ascii_lowercase().as_str() {
            "http" => http(false, 80),
            "https" => http(true, 443),
            "socks5" | "socks5h" => Ok(Self::Socks5 { host, port: port.unwrap_or(1080), auth }),
            _ => Err("its scheme is not supported; use http, https or socks5"),
        }
    }

    pub(crate) fn host(&self) -> &str {
        let (Self::Http { host, .. } | Self::Socks5 { host, .. }) = self;
        host
    }
}

const NO_URL: &str = "it is not a proxy URL, such as http://proxy:3128";

impl Environment {
    pub(crate) fn of_process() -> Self {
        let first = |names: &[&str]| {
            let mut set = names.iter().filter_map(|name| std::env::var(name).ok());
            set.find(|value| !value.trim().is_empty())
        };
        // Ignore `HTTP_PROXY` in a CGI program, because a client can set it with a request header named `Proxy`.
        let http = if std::env::var_os("REQUEST_METHOD").is_some() {
            &["http_proxy"][..]
        } else {
            &["HTTP_PROXY", "http_proxy"]
        };
        Self {
            https: first(&["HTTPS_PROXY", "https_proxy"]),
            http: first(http),
            all: first(&["ALL_PROXY", "all_proxy"]),
            no: first(&["NO_PROXY", "no_proxy"]),
        }
    }
}

fn fault(field: &'static str, url: &str, why: &str) -> ConfigError {
    ConfigError::Value { field, why: format!("{:?}: {why}", redacted_url(url)) }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn origin(url: &str) -> Origin {
        let (scheme, authority) = url.split_once("://").unwrap();
        Origin::new(scheme == "https", authority)
    }

    fn shown(proxy: Option<Proxy>) -> String {
        let (scheme, host, port, has_auth) = match proxy {
            None => return "direct".into(),
            Some(Proxy::Http { is_tls: false, host, port, auth }) => ("http", host, port, auth.is_some()),
            Some(Proxy::Http { host, port, auth, .. }) => ("https", host, port, auth.is_some()),
            Some(Proxy::Socks5 { host, port, auth }) => ("socks5", host, port, auth.is_some()),
        };
        format!("{scheme}://{host}:{port}{}", if has_auth { " with auth" } else { "" })
    }

    #[test]
    fn configured_proxy_overrides_the_environment() {
        let both = env(|env| env.all = Some("http://other".into()));
        for (url, expected) in [
            ("http://p", Some("http://p:80")),
            ("http://me:pw@p:8080/path", Some("http://p:8080 with auth")),
            ("HTTP://[::1]:3128", Some("http://::1:3128")),
            ("socks5://p", Some("socks5://p:1080")),
            ("socks5://me:pw@p:1081", Some("socks5://p:1081 with auth")),
            ("https://p", Some("https://p:443")),
            ("https://me:pw@p:8443", Some("https://p:8443 with auth")),
            ("socks6://p", None),
            ("p:8080", None),
            ("nonsense", None),
            ("http://", None),
            ("http://p:x", None),
        ] {
            let proxy = Proxy::choose(&origin("https://server"), Some(url), &both);
            assert_eq!(proxy.ok().map(shown).as_deref(), expected, "{url}");
        }
        let Err(error) = Proxy::choose(&origin("https://server"), Some("ftp://me:hush@p"), &both) else {
            panic!("accepted")
        };
        assert!(!error.to_string().contains("hush") && error.to_string().contains("proxy_url"), "{error}");
    }

    #[test]
    fn proxy_user_and_password_may_be_percent_encoded() {
        let Ok(Proxy::Http { auth, .. }) = Proxy::parse("http://me%40home:p%3Aw@p") else { panic!("refused") };
        assert_eq!(auth.unwrap(), format!("Basic {}", BASE64_STANDARD.encode("me@home:p:w")));
    }

    fn env(change: impl FnOnce(&mut Environment)) -> Environment {
        let mut env = Environment::default();
        change(&mut env);
        env
    }

    #[test]
    fn environment_proxy_is_chosen_by_scheme() {
        let each = env(|env| (env.https, env.http) = (Some("s:1".into()), Some("http://p:2".into())));
        let all = env(|env| env.all = Some("socks5://a".into()));
        for (env, server, expected) in [
            (&each, "https://server", "http://s:1"),
            (&each, "http://server", "http://p:2"),
            (&each, "https://localhost", "direct"),
            (&each, "https://127.0.0.1:6443", "direct"),
            (&each, "http://[::1]:6443", "direct"),
            (&all, "http://server", "socks5://a:1080"),
            (&env(|_| {}), "http://server", "direct"),
            (&env(|env| env.http = Some("p".into())), "https://server", "direct"),
        ] {
            assert_eq!(shown(Proxy::from_environment(&origin(server), env).unwrap()), expected, "{server}");
        }
    }

    /// The client must not connect directly, because the proxy may be there to prevent direct connections.
    #[test]
    fn malformed_environment_proxy_is_an_error_naming_its_variable() {
        for url in ["http://me:hush@p:port", "::", "ftp://me:hush@p"] {
            let env = env(|env| (env.https, env.no) = (Some(url.into()), Some("direct".into())));
            let Err(error) = Proxy::from_environment(&origin("https://server"), &env) else { panic!("accepted {url}") };
            assert!(error.to_string().contains("HTTPS_PROXY") && !error.to_string().contains("hush"), "{error}");
            assert_eq!(shown(Proxy::from_environment(&origin("https://direct"), &env).unwrap()), "direct");
        }
    }
}
