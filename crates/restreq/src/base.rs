//! Parses the server's address.

use std::fmt;

use pintle_meta::redacted_url;
use pintle_transport::{ConfigError, Origin};

use crate::path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) origin: Origin,
    /// The path prefix in the form `/prefix` without a trailing slash, or an empty string.
    pub(crate) path: String,
}

impl Base {
    /// Parses the address of a server: a host, `host:port` or a URL. The default scheme is `https` if `tls` is `true`,
    /// and `http` otherwise. An address with a path but without a scheme is rejected, because `host/path` is usually a
    /// mistake. The query, fragment and user information of a URL are ignored.
    pub(crate) fn parse(server: &str, tls: bool) -> Result<Self, ConfigError> {
        let fault = |why: &str| ConfigError::Server { server: redacted_url(server), why: why.into() };
        let server = server.trim();
        if server.is_empty() {
            return Err(fault("it is empty; set it to the URL of the API server"));
        }
        let (https, rest, had_scheme) = match server.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest, true),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest, true),
            Some(_) => return Err(fault("its scheme is neither http nor https")),
            None => (tls, server, false),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        // A port without a host means localhost, as in Go's dialer.
        let authority = if authority.starts_with(':') { format!("localhost{authority}") } else { authority.to_owned() };
        let parsed: Option<http::uri::Authority> = authority.parse().ok();
        let host = parsed.as_ref().map(http::uri::Authority::host).filter(|host| !matches!(*host, "" | "[]"));
        let port = host.map(|host| &authority[host.len()..]);
        if !port.is_some_and(|port| port.is_empty() || port[1..].parse::<u16>().is_ok()) {
            return Err(fault("its host is not \"host\" or \"host:port\""));
        }
        let prefix = path::join(["/", prefix]);
        if !had_scheme && prefix != "/" {
            return Err(fault("a path needs a scheme before the host: write https://host/path"));
        }
        Ok(Self { origin: Origin::new(https, authority), path: if prefix == "/" { String::new() } else { prefix } })
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.origin.scheme(), self.origin.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_may_be_host_or_url() {
        for (server, tls, expected) in [
            ("127.0.0.1", false, Some("http 127.0.0.1 ")),
            (":8080", false, Some("http localhost:8080 ")),
            ("foo.bar.com", false, Some("http foo.bar.com ")),
            ("foo.bar.com", true, Some("https foo.bar.com ")),
            ("1.2.3.4:567", true, Some("https 1.2.3.4:567 ")),
            ("http://host", true, Some("http host ")),
            ("http://host/prefix/", false, Some("http host /prefix")),
            ("https://host:6443/a//b?q=1#f", false, Some("https host:6443 /a/b")),
            ("https://me:hush@host", false, Some("https host ")),
            ("https://[::1]:6443", false, Some("https [::1]:6443 ")),
            ("host/server", false, None),
            ("", true, None),
            ("https://", false, None),
            ("https://[]:443", false, None),
            ("ftp://host", false, None),
            ("///:://localhost", true, None),
            ("https://host:port", false, None),
        ] {
            let base = Base::parse(server, tls).ok();
            let shown = base.map(|base| format!("{} {} {}", base.origin.scheme(), base.origin.authority, base.path));
            assert_eq!(shown.as_deref(), expected, "{server}");
        }
    }

    #[test]
    fn error_about_server_hides_its_password() {
        for (server, shown) in [
            ("ftp://me:hush@host", "ftp://host"),
            ("me:hush@host/path", "host/path"),
            ("https://me:hu/sh@host", "https://host"),
        ] {
            let error = Base::parse(server, false).unwrap_err().to_string();
            assert!(error.contains(&format!("{shown:?}")) && !error.contains("hu"), "{error}");
        }
    }
}
