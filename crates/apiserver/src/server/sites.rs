//! Rejects requests that may come from web pages of other sites.
//!
//! A server without a token file treats every caller as an administrator. Without this check, each page in a browser on
//! the same machine could read and write all objects: with a WebSocket, with a form, or with a host name that resolves
//! to the address of the server (DNS rebinding).

use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use pintle_serving::body::{ResponseBody, full};

/// The endings of names that nobody can register in the public DNS. Other names in `.local` are missing, because each
/// device in the local network can claim such a name with mDNS.
const PRIVATE: [&str; 4] = [".localhost", ".internal", ".svc", ".svc.cluster.local"];

/// Returns a response with status 403 if a web page of another site may have sent the request.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<Response<ResponseBody>> {
    let header = |name| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("\0"));
    let named = request.uri().authority().map(Authority::as_str).or_else(|| header(HOST)).unwrap_or_default();
    let host = host_of(named);
    let why = match header(ORIGIN) {
        _ if !is_private(&host) => format!("the Host {named:?} is not an IP address or a private name"),
        Some(origin) if !is_same_site(origin, &host) => format!("the Origin {origin:?} is another site"),
        _ => return None,
    };
    let text = format!("without a token file, every caller is an administrator, so web pages have no access: {why}");
    let mut response = Response::new(full(text));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Some(response)
}

/// Returns the host of an authority without the port and the brackets of an IPv6 address. Browsers always send a host.
fn host_of(authority: &str) -> String {
    let host = authority.parse().map_or_else(|_| authority.to_owned(), |parsed: Authority| parsed.host().to_owned());
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

/// Returns `true` if no site on the internet can have this name. A page whose address is an IP address was loaded from
/// this address.
fn is_private(host: &str) -> bool {
    !host.contains('.') || host.parse::<IpAddr>().is_ok() || PRIVATE.iter().any(|ending| host.ends_with(ending))
}

/// Returns `true` if the origin is the server itself or another server on this machine. An origin that is only a path
/// cannot come from a web page, because browsers always send a scheme and a host, or `null`.
fn is_same_site(origin: &str, host: &str) -> bool {
    let of = |origin: Uri| origin.authority().map(|authority| host_of(authority.as_str()));
    origin.starts_with('/') || origin.parse().ok().and_then(of).is_some_and(|site| site == host || is_loopback(&site))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_of_other_sites_are_refused() {
        for (host, origin, is_refused) in [
            ("127.0.0.1:8080", None, false),
            ("[::1]:8080", None, false),
            ("localhost", None, false),
            ("LOCALHOST.:8080", None, false),
            ("192.168.1.7:6443", None, false),
            ("apiserver:8080", None, false),
            ("host.docker.internal:8080", None, false),
            ("kubernetes.default.svc", None, false),
            ("kubernetes.default.svc.cluster.local", None, false),
            ("printer.local", None, true),
            ("", None, false),
            ("evil.example:8080", None, true),
            ("127.0.0.1.evil.example", None, true),
            ("localhost.evil.example", None, true),
            ("evil.example", Some("http://evil.example"), true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), false),
            ("127.0.0.1:8080", Some("http://localhost:3000"), false),
            ("192.168.1.7:80", Some("https://192.168.1.7"), false),
            ("192.168.1.7:80", Some("https://192.168.1.8"), true),
            ("127.0.0.1:8080", Some("/a"), false),
            ("127.0.0.1:8080", Some("https://evil.example"), true),
            ("127.0.0.1:8080", Some("https://localhost.evil.example"), true),
            ("127.0.0.1:8080", Some("null"), true),
            ("127.0.0.1:8080", Some("file://"), true),
            ("127.0.0.1:8080", Some(""), true),
        ] {
            let mut request = Request::get("/api").header(HOST, host);
            if let Some(origin) = origin {
                request = request.header(ORIGIN, origin);
            }
            let refused = refusal(&request.body(()).unwrap());
            assert_eq!(refused.is_some(), is_refused, "{host} {origin:?}");
        }
        let rebound = Request::get("http://evil.example/api").header(HOST, "127.0.0.1").body(()).unwrap();
        assert!(refusal(&rebound).is_some(), "over HTTP/2, the URI has the host");
    }
}
