//! The HTML page of the debug page: a single file without external resources.

use http::header::CONTENT_SECURITY_POLICY;
use http::{HeaderMap, HeaderValue};

pub(super) const HTML: &str = include_str!("page.html");

/// The content security policy. The policy allows only the page's script and style, identified by their digests, and
/// requests to the page's origin. Even if a name or an error text were inserted as markup, the browser would run or
/// load nothing else.
const POLICY: &str = "default-src 'none'; \
    script-src 'sha256-4uVN8OS0jWMtf4OVj3yogAbYyLQ/LAwj8wn2c4wg8AU='; \
    style-src 'sha256-OpN0YFr5y3ZLwUo1BejUpcrEwm+mVC4ZBBn70zZjn04='; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn add_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    /// Returns the content of the only element with the given tag name.
    fn content(element: &str) -> &'static str {
        let (start, end) = (format!("<{element}>"), format!("</{element}>"));
        assert_eq!((HTML.matches(&start).count(), HTML.matches(&end).count()), (1, 1), "{element}");
        HTML.split_once(&start).unwrap().1.split_once(&end).unwrap().0
    }

    #[test]
    fn policy_has_the_digests_of_script_and_style() {
        for element in ["script", "style"] {
            let digest = STANDARD.encode(Sha256::digest(content(element)));
            assert!(POLICY.contains(&format!("{element}-src 'sha256-{digest}'")), "{element}: set the digest {digest}");
        }
    }

    #[test]
    fn page_loads_nothing_from_elsewhere() {
        for external in ["://", "src=", "@import", "url(", "<iframe", "<object", "<embed", "import("] {
            assert!(!HTML.contains(external), "the page has {external:?}");
        }
        let links: Vec<_> = HTML.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(links, ["data:,", "debug.json"]);
        for inline in [" style=", " onclick=", " onload=", "javascript:"] {
            assert!(!HTML.contains(inline), "the policy does not allow {inline:?}");
        }
    }

    #[test]
    fn script_inserts_no_markup() {
        let script = content("script");
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "Function(",
            "srcdoc",
        ];
        for way in ways {
            assert!(!script.contains(way), "the script uses {way:?}");
        }
        assert!(script.contains("node.textContent = shown"));
    }

    #[test]
    fn every_element_that_the_script_reads_exists() {
        let script = content("script");
        let named = |call: &str| -> Vec<&str> {
            script.split(call).skip(1).map(|rest| rest.split('\'').next().unwrap()).collect()
        };
        let ids = named("by('");
        assert!(ids.len() > 30);
        for id in ids {
            assert!(HTML.contains(&format!("id=\"{id}\"")), "no element has the id {id:?}");
        }
        for at in ["node, '", "cell, '"].iter().flat_map(|of| named(&format!("at({of}"))) {
            assert!(HTML.contains(&format!("data-at=\"{at}\"")), "no element is at {at:?}");
        }
    }
}
