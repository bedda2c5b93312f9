//! Resolves the `Location` of a redirect.

use http::Uri;

/// Resolves `location` relative to the URL of the request, as in RFC 3986, section 5.2. The result has no fragment,
/// because clients do not send fragments.
pub(super) fn resolve(from: &Uri, location: &str) -> Result<Uri, String> {
    let location = location.split_once('#').map_or(location, |(location, _)| location);
    let scheme = scheme(location);
    if let Some(scheme) = scheme.filter(|scheme| !scheme.eq_ignore_ascii_case("https")) {
        return Err(format!("unsupported protocol scheme {scheme:?}"));
    }
    let rest = scheme.map_or(location, |scheme| &location[scheme.len() + 1..]);
    let (hierarchy, query) = match rest.split_once('?') {
        Some((hierarchy, query)) => (hierarchy, Some(query)),
        None => (rest, None),
    };
    let base = from.authority().map_or("", |authority| authority.as_str());
    let (authority, path, query) = match hierarchy.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (authority, without_dots(path), query)
        }
        None if scheme.is_some() => return Err("http: no Host in request URL".into()),
        None if hierarchy.is_empty() => (base, from.path().to_owned(), query.or(from.query())),
        None if hierarchy.starts_with('/') => (base, without_dots(hierarchy), query),
        None => {
            let (directory, _) = from.path().rsplit_once('/').unwrap_or_default();
            (base, without_dots(&format!("{directory}/{hierarchy}")), query)
        }
    };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    super::parse(&format!("https://{authority}{path}{query}"))
}

/// Returns the scheme of a URL, or `None` for a relative reference.
fn scheme(location: &str) -> Option<&str> {
    let (scheme, _) = location.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

/// Removes the segments `.` and `..` from an absolute path.
fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
        // A path that ends with a dot segment refers to a directory.
        if is_last && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(from: &str, location: &str) -> Result<String, String> {
        resolve(&from.parse().unwrap(), location).map(|uri| uri.to_string())
    }

    /// The first rows are the examples in RFC 3986, section 5.4.
    #[test]
    fn location_is_relative_to_the_request() {
        for (location, expected) in [
            ("g", "https://a:1/b/c/g"),
            ("./g", "https://a:1/b/c/g"),
            ("g/", "https://a:1/b/c/g/"),
            ("/g", "https://a:1/g"),
            ("//g", "https://g/"),
            ("?y", "https://a:1/b/c/d;p?y"),
            ("g?y", "https://a:1/b/c/g?y"),
            ("#s", "https://a:1/b/c/d;p?q"),
            ("g#s", "https://a:1/b/c/g"),
            ("g?y#s", "https://a:1/b/c/g?y"),
            (";x", "https://a:1/b/c/;x"),
            (".", "https://a:1/b/c/"),
            ("./", "https://a:1/b/c/"),
            ("..", "https://a:1/b/"),
            ("../g", "https://a:1/b/g"),
            ("../..", "https://a:1/"),
            ("../../../g", "https://a:1/g"),
            ("/./g", "https://a:1/g"),
            ("/../g", "https://a:1/g"),
            ("g.", "https://a:1/b/c/g."),
            ("..g", "https://a:1/b/c/..g"),
            ("./../g", "https://a:1/b/g"),
            ("g/./h", "https://a:1/b/c/g/h"),
            ("g/../h", "https://a:1/b/c/h"),
            ("g?y/../x", "https://a:1/b/c/g?y/../x"),
            ("//other:8443/path?x=1", "https://other:8443/path?x=1"),
            ("/x?next=https://y", "https://a:1/x?next=https://y"),
            ("x?next=https://y", "https://a:1/b/c/x?next=https://y"),
            ("https://other/x/../y#s", "https://other/y"),
            ("HTTPS://other", "https://other/"),
        ] {
            assert_eq!(resolved("https://a:1/b/c/d;p?q", location).as_deref(), Ok(expected), "{location}");
        }
        assert_eq!(resolved("https://a", "g").as_deref(), Ok("https://a/g"), "the request has no path");
    }

    #[test]
    fn location_with_another_scheme_is_rejected() {
        for (location, scheme) in [("http://other/", "http"), ("mailto:a@b", "mailto"), ("g:h", "g")] {
            let expected = Err(format!("unsupported protocol scheme {scheme:?}"));
            assert_eq!(resolved("https://a/b", location), expected, "{location}");
        }
    }

    #[test]
    fn invalid_location_is_an_error() {
        for location in ["/a b", "https:", "https:///x", "//"] {
            assert!(resolved("https://a/b", location).is_err(), "{location}");
        }
    }
}
