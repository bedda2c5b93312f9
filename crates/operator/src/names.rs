//! Validates names before any request, because the API server would reject every request with an invalid name.

use pintle_meta::label_key_faults;

/// Returns `true` if `name` is a domain-qualified name, such as `example.com/name`. For a finalizer with another
/// name, API servers return an error for built-in kinds and a warning for custom resources.
pub(crate) fn is_finalizer(name: &str) -> bool {
    name.contains('/') && label_key_faults(name).is_empty()
}

#[cfg(test)]
mod tests {
    use pintle_meta::__private::is_dns_subdomain;

    use super::*;

    #[test]
    fn names_follow_the_rules_of_kubernetes() {
        for name in ["a", "website-controller", "a.b-c.1", &"a".repeat(253)] {
            assert!(is_dns_subdomain(name) && !is_finalizer(name), "{name}");
        }
        for name in ["", "My Operator", "A", "a_b", "-a", "a-", "a..b", "a.", "a/b", &"a".repeat(254)] {
            assert!(!is_dns_subdomain(name), "{name}");
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
