//! The scheme, the host and the port of a server.

/// The scheme and the authority of a server URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is `https` instead of `http`.
    pub https: bool,
    /// The authority in the form `host` or `host:port`. An IPv6 address is in brackets.
    pub authority: String,
}

impl Origin {
    /// Creates an origin without checking the authority. [`Transport::new`](crate::Transport::new)
    /// checks it.
    pub fn new(https: bool, authority: impl Into<String>) -> Self {
        Self { https, authority: authority.into() }
    }

    /// Returns `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    /// Returns the host, without brackets, and the port. The default port depends on the scheme.
    pub fn host_and_port(&self) -> (String, u16) {
        let (host, port) = split_port(&self.authority);
        (host.to_owned(), port.unwrap_or(if self.https { 443 } else { 80 }))
    }

    /// Returns the value of the `Host` header.
    pub fn host_header(&self) -> &str {
        let default = if self.https { ":443" } else { ":80" };
        self.authority.strip_suffix(default).unwrap_or(&self.authority)
    }
}

/// Splits an authority into the host (without brackets) and the optional port.
pub(crate) fn split_port(authority: &str) -> (&str, Option<u16>) {
    let (host, port) = match authority.rsplit_once(':') {
        // The last colon can be part of an IPv6 address in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    };
    (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_defaults_to_that_of_the_scheme() {
        for (https, authority, host, port, header) in [
            (false, "host", "host", 80, "host"),
            (true, "host:443", "host", 443, "host"),
            (true, "host:80", "host", 80, "host:80"),
            (true, "[::1]:6443", "::1", 6443, "[::1]:6443"),
            (false, "[::1]", "::1", 80, "[::1]"),
        ] {
            let origin = Origin::new(https, authority);
            assert_eq!((origin.host_and_port(), origin.host_header()), ((host.into(), port), header), "{authority}");
        }
    }
}
