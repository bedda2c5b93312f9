//! Tests of the warnings and their texts.

use super::*;

#[test]
fn non_canonical_addresses_cause_warnings() {
    for (text, warning) in [
        ("10.0.0.1", None),
        ("2001:db8::1", None),
        ("no address", None),
        ("010.0.000.1", Some("non-standard IP address \"010.0.000.1\" is invalid: use \"10.0.0.1\"")),
        ("::ffff:1.2.3.4", Some("non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\"")),
        ("2001:DB8::1", Some("IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")")),
    ] {
        assert_eq!(ip(text, "f"), warning.map(|warning| format!("f: {warning}")), "{text}");
    }
}

#[test]
fn non_canonical_cidr_blocks_cause_warnings() {
    for (text, warning) in [
        ("10.0.0.0/8", None),
        ("0.0.0.0/0", None),
        ("2001:db8::/32", None),
        ("10.0.0.0/33", None),
        (
            "10.1.2.3/8",
            Some(
                "CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)",
            ),
        ),
        ("010.0.0.0/8", Some("non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\"")),
        ("::ffff:1.2.3.0/120", Some("non-standard CIDR value \"::ffff:1.2.3.0/120\" is invalid: use \"1.2.3.0/24\"")),
        (
            "2001:DB8::/32",
            Some("IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")"),
        ),
    ] {
        assert_eq!(block(text, "f"), Vec::from_iter(warning.map(|warning| format!("f: {warning}"))), "{text}");
    }
}
