//! URLs, which are parsed as in Go.

use std::collections::HashMap;
use std::sync::Arc;

use super::ip;
use crate::go_text::quoted;

/// A URL. Reading a part of the URL other than the query does not copy the part.
#[derive(Debug)]
pub struct Url {
    text: Box<str>,
    pub(crate) scheme: Arc<str>,
    /// The percent-decoded host name and port.
    pub(crate) host: Arc<str>,
    pub(crate) hostname: Arc<str>,
    pub(crate) port: Arc<str>,
    /// The path in Go's encoding. A path that is already escaped correctly is unchanged.
    pub(crate) escaped_path: Arc<str>,
    pub(crate) query: Box<str>,
}

impl Url {
    fn new(text: &str, parts: Parts<'_>) -> Self {
        let (hostname, port) = host_and_port(&parts.host);
        Self {
            text: text.into(),
            scheme: parts.scheme.into(),
            hostname: hostname.into(),
            port: port.into(),
            escaped_path: escaped_path(parts.path).into(),
            query: parts.query.into(),
            host: parts.host.into(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the values of each query parameter, ordered by the first occurrence of the parameter. Skips invalid
    /// parameters.
    pub(crate) fn query_values(&self) -> Vec<(String, Vec<String>)> {
        let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
        let mut places = HashMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(name), Ok(value)) = (unescape(name, Mode::Query), unescape(value, Mode::Query)) else { continue };
            let at = *places.entry(name.clone()).or_insert(pairs.len());
            match pairs.get_mut(at) {
                Some((_, values)) => values.push(value),
                None => pairs.push((name, vec![value])),
            }
        }
        pairs
    }
}

/// The parts of a URL, borrowed from its text.
#[derive(Default)]
pub(crate) struct Parts<'t> {
    scheme: String,
    host: String,
    path: &'t str,
    query: &'t str,
}

fn host_and_port(host: &str) -> (&str, &str) {
    let port = match host.rfind(']') {
        Some(end) => host[end..].find(':').map(|index| end + index),
        None => host.rfind(':'),
    };
    let (name, port) = match port {
        Some(at) if is_port(&host[at..]) => (&host[..at], &host[at + 1..]),
        _ => (host, ""),
    };
    (name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name), port)
}

/// Returns Go's error message for an invalid URL.
pub(crate) fn refusal(text: &str, reason: &str) -> String {
    format!("parse {}: {reason}", quoted(text))
}

pub(crate) fn parse_request(text: &str) -> Result<Parts<'_>, String> {
    parse(text, true)
}

pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    parse_request(text)?;
    let (before, fragment) = text.split_once('#').map_or((text, ""), |(before, fragment)| (before, fragment));
    unescape(fragment, Mode::Other)?;
    Ok(Url::new(text, parse(before, false)?))
}

fn parse(text: &str, request: bool) -> Result<Parts<'_>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() && request {
        return Err("empty url".into());
    }
    let mut url = Parts::default();
    if text == "*" {
        url.path = "*";
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query;
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".into());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    if let Some(authority) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !request && !rest.starts_with("///"))
    {
        let end = authority.find('/').unwrap_or(authority.len());
        url.host = host(&url.scheme, &authority[..end])?;
        rest = &authority[end..];
    }
    unescape(rest, Mode::Other)?;
    url.path = rest;
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return Err("missing protocol scheme".into()),
            ':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn host(scheme: &str, authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if let Some(user) = user {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(valid) {
            return Err("net/url: invalid userinfo".into());
        }
        unescape(user, Mode::Other)?;
    }
    match host.rfind('[') {
        Some(0) => {
            let end = host.rfind(']').ok_or("missing ']' in host")?;
            let (literal, port) = (&host[1..end], &host[end + 1..]);
            check_port(port)?;
            let literal = match literal.split_once("%25") {
                Some((address, zone)) => format!("{}%{}", unescape(address, Mode::Host)?, unescape(zone, Mode::Zone)?),
                None => unescape(literal, Mode::Host)?,
            };
            let (address, _) = ip::parse_zoned(&literal).map_err(|reason| format!("invalid host: {reason}"))?;
            if address.is_ipv4() {
                return Err("invalid IP-literal".into());
            }
            Ok(format!("[{literal}]{port}"))
        }
        Some(_) => Err("invalid IP-literal".into()),
        None => {
            // Only the hosts of other schemes may contain more than one colon.
            let is_http = matches!(scheme, "http" | "https");
            let colon = if is_http { host.find(':') } else { host.rfind(':') };
            check_port(colon.map_or("", |at| &host[at..]))?;
            unescape(host, Mode::Host)
        }
    }
}

fn check_port(port: &str) -> Result<(), String> {
    if is_port(port) { Ok(()) } else { Err(format!("invalid port {} after host", quoted(port))) }
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Host,
    Zone,
    Query,
    Other,
}

fn unescape(text: &str, mode: Mode) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let allowed = value.filter(|value| mode != Mode::Host || *value >= 0x80 || *value == b'%');
                let Some(value) = allowed else {
                    let shown: String = String::from_utf8_lossy(&after[..after.len().min(2)]).into();
                    return Err(format!("invalid URL escape {}", quoted(&format!("%{shown}"))));
                };
                bytes.push(value);
                rest = &after[2..];
            }
            b'+' if mode == Mode::Query => bytes.push(b' '),
            byte if matches!(mode, Mode::Host | Mode::Zone) && byte.is_ascii() && !is_host_byte(*byte) => {
                return Err(format!("invalid character {} in host name", quoted(&char::from(*byte).to_string())));
            }
            byte => bytes.push(*byte),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into())
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

fn escaped_path(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    if path == "*" || path.bytes().all(|byte| plain(byte) || b"!'()*[]%".contains(&byte)) {
        return path.into();
    }
    let path = unescape(path, Mode::Other).unwrap_or_else(|_| path.into());
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if plain(byte) {
            escaped.push(char::from(byte));
        } else {
            let digits = [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            escaped.push('%');
            escaped.extend(digits);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_checked_as_in_go() {
        for (text, expected) in [
            ("ftp://a:1:2", Ok("a:1:2")),
            ("http://a:1:2", Err("invalid port \":1:2\" after host")),
            ("http://a[::1]", Err("invalid IP-literal")),
            ("http://[1.2.3.4]", Err("invalid IP-literal")),
            ("http://[::1", Err("missing ']' in host")),
            ("http://[fe80::1%25en0]:80", Ok("[fe80::1%en0]:80")),
            ("http://[fe80::1%25]", Err("invalid host: ParseAddr(\"fe80::1%\"): zone must be a non-empty string")),
        ] {
            let host = parse_request(text).map(|parts| parts.host);
            assert_eq!(host.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
