//! Formats paths and queries like the Go packages `path` and `net/url`. This module does no I/O.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pintle_meta::__private::go_duration;

/// Joins all non-empty strings with slashes and normalizes the result, like Go's `path.Join`. Only the root path ends
/// with a slash.
pub(crate) fn join<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut parts = parts.into_iter().filter(|part| !part.is_empty()).peekable();
    let is_rooted = parts.peek().is_some_and(|first| first.starts_with('/'));
    let mut joined = String::with_capacity(128);
    for segment in parts.flat_map(|part| part.split('/')) {
        let last = joined.rfind('/').map_or(0, |slash| slash + 1);
        match segment {
            "" | "." => {}
            ".." if !matches!(&joined[last..], "" | "..") => joined.truncate(last.saturating_sub(1)),
            // At the root path, `..` has no effect.
            ".." if is_rooted => {}
            segment => {
                if is_rooted || !joined.is_empty() {
                    joined.push('/');
                }
                joined.push_str(segment);
            }
        }
    }
    if is_rooted && joined.is_empty() {
        joined.push('/');
    }
    joined
}

/// Decodes and normalizes the path of a URI, and keeps a trailing slash. Returns why the path cannot be used if a segment
/// is not UTF-8, or if decoding a segment would change the meaning of the path.
pub(crate) fn decode(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Ok(String::new());
    }
    let mut decoded = String::with_capacity(path.len() + 1);
    for raw in path.split('/') {
        let segment = percent_encoding::percent_decode_str(raw).decode_utf8().map_err(|error| error.to_string())?;
        if raw.contains('%') && (is_dots(&segment) || segment.contains('/')) {
            return Err(format!("the segment {raw:?} contains an encoded slash, \".\" or \"..\""));
        }
        decoded.push('/');
        decoded.push_str(&segment);
    }
    let mut clean = join([decoded.as_str()]);
    if decoded.ends_with('/') && !clean.ends_with('/') {
        clean.push('/');
    }
    Ok(clean)
}

/// Returns `true` if the segment refers to its own or to the parent directory.
pub(crate) fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

pub(crate) fn encode_path(path: String) -> String {
    const PATH: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~')
        .remove(b'!')
        .remove(b'$')
        .remove(b'&')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')')
        .remove(b'*')
        .remove(b'+')
        .remove(b',')
        .remove(b';')
        .remove(b'=')
        .remove(b':')
        .remove(b'@');
    match Cow::from(utf8_percent_encode(&path, PATH)) {
        Cow::Borrowed(_) => path,
        Cow::Owned(escaped) => escaped,
    }
}

/// Encodes the parameters of a query and preserves their order.
pub(crate) fn encode_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    let mut query = String::new();
    for (key, value) in pairs {
        if !query.is_empty() {
            query.push('&');
        }
        query.extend(utf8_percent_encode(key, QUERY));
        query.push('=');
        query.extend(utf8_percent_encode(value, QUERY));
    }
    query
}

/// Decodes the keys and values of a query and preserves their order. A key without `=` gets an empty value.
pub(crate) fn decode_query(query: &str) -> Vec<(String, String)> {
    let unescape = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (unescape(k), unescape(v))).collect()
}

/// Formats a duration like Go, for example as `1s`, `1.5s`, `500ms`, `1m0s` or `1h0m0s`.
pub(crate) fn duration_text(duration: Duration) -> String {
    // Servers reject durations longer than Go's maximum, so limit the duration to it.
    go_duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_paths_are_clean() {
        for (parts, expected) in [
            (&["", "/", ""][..], "/"),
            (&["/", "/api/", "v1"], "/api/v1"),
            (&["/a//b", "./c", "../d"], "/a/b/d"),
            (&["/", "../.."], "/"),
            (&["a", "../../b"], "../b"),
            (&["", ""], ""),
            (&["foo/bar", "baz"], "foo/bar/baz"),
        ] {
            assert_eq!(join(parts.iter().copied()), expected, "{parts:?}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (500_000_000, "500ms"),
            (1_000_000_000, "1s"),
            (1_500_000_000, "1.5s"),
            (1_000_000_001, "1.000000001s"),
            (60_000_000_000, "1m0s"),
            (90_500_000_000, "1m30.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_000_000_000, "25h1m1s"),
        ] {
            assert_eq!(duration_text(Duration::from_nanos(nanos)), expected);
        }
        assert_eq!(duration_text(Duration::MAX), "2562047h47m16.854775807s", "Go's maximum");
    }

    #[test]
    fn query_round_trips() {
        let pairs = [("labelSelector", "app in (a, b),x=ü"), ("a", "1&2=3+4%"), ("empty", "")];
        let read = decode_query(&encode_query(pairs));
        assert_eq!(read, pairs.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn invalid_path_characters_are_escaped() {
        assert_eq!(
            encode_path("/apis/rbac/clusterroles/system:node a?#%ü".into()),
            "/apis/rbac/clusterroles/system:node%20a%3F%23%25%C3%BC"
        );
    }
}
