//! Validates names before requests are sent, because the API server would reject every request with an invalid name.

/// Returns `true` if `name` is a DNS subdomain. Most object names must be DNS subdomains.
pub(crate) fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        has_word_ends(label) && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Returns `true` if `name` is a domain-qualified name, such as `example.com/name`. For finalizers with other names,
/// API servers return an error for built-in kinds and a warning for custom resources.
pub(crate) fn is_finalizer(name: &str) -> bool {
    let Some((prefix, name)) = name.split_once('/') else { return false };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    is_subdomain(prefix) && name.len() <= 63 && has_word_ends(name) && name.bytes().all(is_allowed)
}

fn has_word_ends(text: &str) -> bool {
    let is_word = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    is_word(text.bytes().next()) && is_word(text.bytes().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_kubernetes() {
        for name in ["a", "website-controller", "a.b-c.1", &"a".repeat(253)] {
            assert!(is_subdomain(name) && !is_finalizer(name), "{name}");
        }
        for name in ["", "My Operator", "A", "a_b", "-a", "a-", "a..b", "a.", "a/b", &"a".repeat(254)] {
            assert!(!is_subdomain(name), "{name}");
        }
        for name in ["example.com/dns", "example.com/Dns_1"] {
            assert!(is_finalizer(name), "{name}");
        }
        for name in
            ["", "orphan", "a/not a finalizer!", "example.com/", "/dns", "a/b/c", "A.com/dns", &format!("a/{:064}", 0)]
        {
            assert!(!is_finalizer(name), "{name}");
        }
    }
}
