//! The address of the server.

use pintle_meta::redacted_url;

use crate::error::ConfigError;
use crate::path;

/// The base of all request URLs: scheme, host and path prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) https: bool,
    /// `host` or `host:port`. IPv6 addresses are in brackets.
    pub(crate) authority: String,
    /// The path prefix, which is empty or has the form `/prefix` without a trailing slash.
    pub(crate) path: String,
}

impl Base {
    /// Parses a server address, which is a host, `host:port` or a URL. The default scheme is `https` if `tls` is true,
    /// and `http` otherwise. A path without a scheme is an error, because `host/path` usually is a mistake. The query,
    /// the fragment and the user information in the URL are ignored.
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
        // A port without a host means localhost, as with Go's dialer.
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
        Ok(Self { https, authority, path: if prefix == "/" { String::new() } else { prefix } })
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// Returns the host without brackets, and the port. The default port is the port of the scheme.
    pub(crate) fn host_and_port(&self) -> (String, u16) {
        let (host, port) = split_port(&self.authority);
        (host.to_owned(), port.unwrap_or(self.default_port()))
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn host_header(&self) -> &str {
        let default = match self.https {
            true => ":443",
            false => ":80",
        };
        self.authority.strip_suffix(default).unwrap_or(&self.authority)
    }

    fn default_port(&self) -> u16 {
        if self.https { 443 } else { 80 }
    }
}

/// Splits an authority into the host, without brackets, and the optional port.
pub(crate) fn split_port(authority: &str) -> (&str, Option<u16>) {
    let (host, port) = match authority.rsplit_once(':') {
        // In an IPv6 address in brackets, the last colon is part of the address.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    };
    (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
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
            let shown = base.map(|base| format!("{} {} {}", base.scheme(), base.authority, base.path));
            assert_eq!(shown.as_deref(), expected, "{server}");
        }
    }

    #[test]
    fn port_defaults_to_that_of_the_scheme() {
        for (server, host, port, header) in [
            ("http://host", "host", 80, "host"),
            ("https://host:443", "host", 443, "host"),
            ("https://host:80", "host", 80, "host:80"),
            ("https://[::1]:6443", "::1", 6443, "[::1]:6443"),
            ("http://[::1]", "::1", 80, "[::1]"),
        ] {
            let base = Base::parse(server, false).unwrap();
            assert_eq!((base.host_and_port(), base.host_header()), ((host.into(), port), header), "{server}");
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
