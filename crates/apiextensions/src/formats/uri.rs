//! URIs as Go's `url.ParseRequestURI` accepts them: absolute URIs and absolute paths.
//! Fragments are not supported, because `#` is treated as an ordinary character.

use std::net::Ipv6Addr;

pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) else { return is_escaped(rest) };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    is_authority(scheme, authority) && is_escaped(path)
}

/// Splits a URI into a scheme, which may be empty, and the remaining text, or returns `None` if it begins with a colon.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let without_scheme = Some(("", text));
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => return without_scheme,
        }
    }
    without_scheme
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let is_user_char = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    user.chars().all(is_user_char) && is_escaped(user) && is_host(scheme, host)
}

fn is_host(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => {
            let Some(end) = host.rfind(']') else { return false };
            is_port(&host[end + 1..]) && is_ipv6(&host[1..end])
        }
        Some(_) => false,
        None => {
            let strict = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
            let colon = if strict { host.find(':') } else { host.rfind(':') };
            is_port(colon.map_or("", |at| &host[at..])) && is_host_text(host)
        }
    }
}

/// Returns `true` for an IPv6 address, with an optional zone after `%25`.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = match text.split_once("%25") {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    address.parse::<Ipv6Addr>().is_ok()
        && zone.is_none_or(|zone| !zone.is_empty() && is_escaped(zone) && zone.chars().all(may_be_in_host))
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns `true` if a host may contain all of these characters. Only percent signs and non-ASCII bytes may be
/// percent-encoded.
fn is_host_text(host: &str) -> bool {
    let is_allowed = |escape: &str| escape.starts_with("25") || escape.starts_with(|c: char| c > '7');
    host.chars().all(may_be_in_host) && is_escaped(host) && host.split('%').skip(1).all(is_allowed)
}

fn may_be_in_host(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c)
}

/// Returns `true` if two hexadecimal digits follow each percent sign.
fn is_escaped(text: &str) -> bool {
    let has_hex_digits = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    text.split('%').skip(1).all(has_hex_digits)
}
