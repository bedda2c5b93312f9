//! Which proxy a connection goes through.

use http::HeaderValue;
use http::uri::{Scheme, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use pintle_meta::redacted_url;

use crate::base::Base;
use crate::error::ConfigError;

/// The proxy that all requests of a client go through: it has one server, so this is decided once.
#[derive(Clone)]
pub(super) enum Proxy {
    /// An HTTP proxy: asked for a tunnel if the server speaks TLS, for each resource if not.
    Http { uri: Uri, auth: Option<HeaderValue> },
    /// A SOCKS5 proxy, which looks names up itself.
    Socks5 { uri: Uri, auth: Option<(String, String)> },
}

const FIELD: &str = "proxy_url";

impl Proxy {
    /// The configured proxy or else, as the environment says, that of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. The latter
    /// are for the world outside: this machine is never reached through them.
    pub(super) fn choose(base: &Base, configured: Option<&str>) -> Result<Option<Self>, ConfigError> {
        match configured {
            Some(url) => {
                let fault =
                    |why: &str| ConfigError::Value { field: FIELD, why: format!("{:?}: {why}", redacted_url(url)) };
                let matcher = Matcher::builder().all(url).build();
                let intercept = url.contains("://").then(|| destination(base).and_then(|uri| matcher.intercept(&uri)));
                let intercept = intercept.flatten().ok_or_else(|| fault("it is no URL of a proxy"))?;
                Self::from_intercept(&intercept).map(Some).map_err(fault)
            }
            None if is_this_machine(&base.authority) => Ok(None),
            None => Self::from_environment(base, &Matcher::from_env()),
        }
    }

    fn from_environment(base: &Base, matcher: &Matcher) -> Result<Option<Self>, ConfigError> {
        let Some(intercept) = destination(base).and_then(|uri| matcher.intercept(&uri)) else { return Ok(None) };
        let fault = |why: &str| ConfigError::Value {
            field: "HTTPS_PROXY or HTTP_PROXY",
            why: format!("{:?}: {why}", intercept.uri().to_string()),
        };
        Self::from_intercept(&intercept).map(Some).map_err(fault)
    }

    fn from_intercept(intercept: &Intercept) -> Result<Self, &'static str> {
        let uri = intercept.uri().clone();
        match uri.scheme_str() {
            Some("http") => Ok(Self::Http { uri, auth: intercept.basic_auth().cloned() }),
            Some("socks5" | "socks5h") => {
                let auth = intercept.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned()));
                Ok(Self::Socks5 { uri: with_port(uri, 1080), auth })
            }
            Some("https") => Err("a proxy that is reached over TLS is not supported; use http or socks5"),
            _ => Err("its scheme is not supported; use http or socks5"),
        }
    }

    /// The header for requests that the proxy itself answers: those that are not tunnelled.
    pub(super) fn header(&self) -> Option<&HeaderValue> {
        match self {
            Self::Http { auth, .. } => auth.as_ref(),
            Self::Socks5 { .. } => None,
        }
    }
}

fn destination(base: &Base) -> Option<Uri> {
    let scheme = if base.https { Scheme::HTTPS } else { Scheme::HTTP };
    Uri::builder().scheme(scheme).authority(base.authority.as_str()).path_and_query("/").build().ok()
}

fn with_port(uri: Uri, port: u16) -> Uri {
    if uri.port().is_some() {
        return uri;
    }
    let mut parts = uri.clone().into_parts();
    let host = uri.host().unwrap_or_default();
    parts.authority = format!("{host}:{port}").parse().ok();
    Uri::from_parts(parts).unwrap_or(uri)
}

fn is_this_machine(authority: &str) -> bool {
    let Some(uri) = authority.parse::<http::uri::Authority>().ok() else { return false };
    let host = uri.host().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(server: &str) -> Base {
        Base::parse(server, false).unwrap()
    }

    fn shown(proxy: Option<Proxy>) -> String {
        match proxy {
            None => "direct".into(),
            Some(Proxy::Http { uri, auth }) => format!("{uri}{}", if auth.is_some() { " with auth" } else { "" }),
            Some(Proxy::Socks5 { uri, auth }) => format!("{uri}{}", if auth.is_some() { " with auth" } else { "" }),
        }
    }

    #[test]
    fn a_configured_proxy_is_a_url_with_a_known_scheme() {
        for (url, expected) in [
            ("http://p", Some("http://p/")),
            ("http://me:pw@p:8080/path", Some("http://p:8080/ with auth")),
            ("socks5://p", Some("socks5://p:1080/")),
            ("socks5://me:pw@p:1081", Some("socks5://p:1081/ with auth")),
            ("https://p", None),
            ("socks6://p", None),
            ("p:8080", None),
            ("nonsense", None),
        ] {
            let proxy = Proxy::choose(&base("https://server"), Some(url));
            assert_eq!(proxy.ok().map(shown).as_deref(), expected, "{url}");
        }
        let Err(error) = Proxy::choose(&base("https://server"), Some("https://me:hush@p")) else { panic!("accepted") };
        assert!(!error.to_string().contains("hush") && error.to_string().contains("proxy_url"), "{error}");
    }

    #[test]
    fn no_proxy_names_hosts_networks_and_addresses() {
        let no = "192.168.143.0/24,10.1.2.3,2001:db8::/48,.example.com";
        let matcher = Matcher::builder().all("http://p").no(no).build();
        for (server, direct) in [
            ("https://192.168.143.7", true),
            ("https://192.168.143.7:6443", true),
            ("https://192.168.144.7", false),
            ("https://10.1.2.3:6443", true),
            ("https://[2001:db8::1]:6443", true),
            ("https://[2001:db9::1]", false),
            ("https://a.example.com", true),
            ("https://other.org", false),
        ] {
            let proxy = Proxy::from_environment(&base(server), &matcher).unwrap();
            assert_eq!(proxy.is_none(), direct, "{server}");
        }
    }

    #[test]
    fn this_machine_is_reached_directly() {
        for (authority, expected) in [
            ("localhost:80", true),
            ("127.0.0.1", true),
            ("[::1]:6443", true),
            ("10.0.0.1:6443", false),
            ("host", false),
        ] {
            assert_eq!(is_this_machine(authority), expected, "{authority}");
        }
    }
}
