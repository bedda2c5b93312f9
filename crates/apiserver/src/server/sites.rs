//! Rejects requests that may come from web pages of other sites.
//!
//! A server without a token file treats every caller as an administrator. Without this check, any web page in a browser
//! on the same machine could read and write all objects. The page could use a WebSocket, a form, or a host name that
//! resolves to the address of the server (DNS rebinding).

use std::net::IpAddr;

use http::header::CONTENT_TYPE;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use pintle_serving::body::{ResponseBody, full};

use crate::config::ApiServerConfig;

/// The suffixes of names that cannot be registered in the public DNS. Devices in the local network can claim names with
/// these suffixes.
const PRIVATE: [&str; 3] = [".internal", ".local", ".svc"];

/// Returns a response with status 403 if a web page of another site may have sent the request.
pub(super) fn refusal<B>(request: &Request<B>, config: &ApiServerConfig) -> Option<Response<ResponseBody>> {
    let header = |name: &str| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("\0"));
    // The `Origin` header alone does not identify a browser, because some Java clients also send it.
    let is_browser =
        header("accept-language").is_some() || header("user-agent").is_some_and(|agent| agent.starts_with("Mozilla/"));
    let named = request.uri().authority().map(Authority::as_str).or_else(|| header("host")).unwrap_or_default();
    let host = host_of(named);
    let why = match header("origin") {
        _ if !is_this_server(&host, is_browser, config) => format!(
            "the Host {named:?} may be the name of another site; if it is this server, add it to allowed_hosts (--allow-host)"
        ),
        Some(origin) if !is_same_site(origin, &host) => format!("the Origin {origin:?} is another site"),
        None if header("sec-fetch-site") == Some("cross-site") => "the request comes from another site".to_owned(),
        _ => return None,
    };
    let text = format!("without a token file, every caller is an administrator, so web pages have no access: {why}");
    let mut response = Response::new(full(text));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Some(response)
}

/// Returns the host of an authority without the port and the brackets of an IPv6 address. In requests from browsers,
/// the authority always contains a host.
fn host_of(authority: &str) -> String {
    let host = authority.parse().map_or_else(|_| authority.to_owned(), |parsed: Authority| parsed.host().to_owned());
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

/// Returns `true` if a page with this host cannot come from another site.
///
/// - A page whose host is an IP address was loaded from this address, and `localhost` is always this machine.
/// - With TLS, another site has no certificate that browsers accept for the connection to this server.
/// - A page of the local network can have a host without a dot, or a host that ends in `.local`. The server rejects
///   such local names in requests from browsers. The check also applies to other addresses than loopback, because a
///   firewall or a container's port mapping can restrict access to this machine.
fn is_this_server(host: &str, is_browser: bool, config: &ApiServerConfig) -> bool {
    let is_private = || !host.contains('.') || PRIVATE.iter().any(|ending| host.ends_with(ending));
    config.tls
        || is_local(host)
        || host.parse::<IpAddr>().is_ok()
        || config.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
        || (is_private() && !is_browser)
}

/// Returns `true` if the origin is the server itself or another server on this machine. An origin that is only a path
/// cannot come from a web page, because browsers always send a scheme and a host, or `null`.
fn is_same_site(origin: &str, host: &str) -> bool {
    let of = |origin: Uri| origin.authority().map(|authority| host_of(authority.as_str()));
    origin.starts_with('/') || origin.parse().ok().and_then(of).is_some_and(|site| site == host || is_loopback(&site))
}

fn is_loopback(host: &str) -> bool {
    is_local(host) || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn is_refused(config: &ApiServerConfig, host: &str, headers: &[(&str, &str)]) -> bool {
        let request = Request::get("/api").header("host", host);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        refusal(&request.body(()).unwrap(), config).is_some()
    }

    #[test]
    fn hosts_of_other_sites_are_refused() {
        let loopback = ApiServerConfig { allowed_hosts: vec!["Api.example".into()], ..ApiServerConfig::default() };
        let everywhere = ApiServerConfig { bind: Ipv4Addr::UNSPECIFIED.into(), ..loopback.clone() };
        let tls = ApiServerConfig { tls: true, ..loopback.clone() };
        let own =
            "127.0.0.1:8080 [::1]:8080 localhost LOCALHOST.:8080 a.localhost:8080 192.168.1.7:6443 api.example:8080";
        let private = " apiserver:8080 printer.local host.docker.internal kubernetes.default.svc a.svc.cluster.local";
        let others = "api.example.evil.example evil.example:8080 127.0.0.1.evil.example localhost.evil.example";
        for (hosts, by_browser, by_others) in [(own, false, false), (private, true, false), (others, true, true)] {
            for (name, value, refused) in [
                ("accept-language", "en", by_browser),
                ("user-agent", "Mozilla/5.0", by_browser),
                ("user-agent", "okhttp/4.12.0", by_others),
            ] {
                for host in hosts.split(' ') {
                    assert_eq!(is_refused(&loopback, host, &[(name, value)]), refused, "{host:?} {name}: {value}");
                    assert_eq!(is_refused(&everywhere, host, &[(name, value)]), refused, "{host:?} {name}: {value}");
                    assert!(!is_refused(&tls, host, &[(name, value)]), "{host:?} with TLS");
                }
            }
        }
        let rebound = Request::get("http://evil.example/api").header("host", "127.0.0.1").body(()).unwrap();
        assert!(refusal(&rebound, &loopback).is_some(), "over HTTP/2, the URI has the host");
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for (host, origin, by_server) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080", false),
            ("127.0.0.1:8080", "http://localhost:3000", false),
            ("192.168.1.7:80", "https://192.168.1.7", false),
            ("192.168.1.7:80", "https://192.168.1.8", true),
            ("127.0.0.1:8080", "/a", false),
            ("127.0.0.1:8080", "https://evil.example", true),
            ("127.0.0.1:8080", "https://localhost.evil.example", true),
            ("127.0.0.1:8080", "null", true),
            ("127.0.0.1:8080", "file://", true),
            ("127.0.0.1:8080", "", true),
        ] {
            for tls in [false, true] {
                let config = ApiServerConfig { tls, ..ApiServerConfig::default() };
                assert_eq!(is_refused(&config, host, &[("origin", origin)]), by_server, "{host} {origin:?} {tls}");
            }
        }
        let config = ApiServerConfig::default();
        for (site, by_server) in [("cross-site", true), ("same-site", false), ("same-origin", false), ("none", false)] {
            let is_refused = |headers: &[_]| is_refused(&config, "127.0.0.1", headers);
            assert_eq!(is_refused(&[("sec-fetch-site", site)]), by_server, "a GET without an Origin: {site}");
            assert!(!is_refused(&[("sec-fetch-site", site), ("origin", "http://localhost:3000")]), "{site}");
        }
    }
}
