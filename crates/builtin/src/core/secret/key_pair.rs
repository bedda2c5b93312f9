//! Warnings about the certificate and key of a TLS Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_json::Json;

use crate::pem;

/// Checks the PEM data of a `kubernetes.io/tls` Secret, and returns the error message of Go's TLS library. Does not
/// parse the certificate or compare it with the private key.
pub(super) fn key_pair(secret: &Json) -> Option<String> {
    let kinds_at = |pointer: &str| -> Vec<String> {
        let text = STANDARD.decode(secret.text(pointer)).unwrap_or_default();
        pem::blocks(&text).into_iter().map(|block| block.label).collect()
    };
    let (certificates, keys) = (kinds_at("/data/tls.crt"), kinds_at("/data/tls.key"));
    if !certificates.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match &certificates[..] {
            [] => "tls: failed to find any PEM data in certificate input".into(),
            [kind] if kind.ends_with("PRIVATE KEY") => {
                let but = "but did find a private key; PEM inputs may have been switched";
                format!("tls: failed to find certificate PEM data in certificate input, {but}")
            }
            kinds => skipped("\"CERTIFICATE\" PEM block in certificate input", kinds),
        });
    }
    if !keys.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return Some(match &keys[..] {
            [] => "tls: failed to find any PEM data in key input".into(),
            [kind] if kind == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key".into()
            }
            kinds => skipped("PEM block with type ending in \"PRIVATE KEY\" in key input", kinds),
        });
    }
    None
}

fn skipped(wanted: &str, kinds: &[String]) -> String {
    let kinds = kinds.join(" ");
    format!("tls: failed to find {wanted} after skipping PEM blocks of the following types: [{kinds}]")
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn missing_certificate_or_key_causes_a_warning() {
        let pem = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
        let warning = |certificate: &str, key: &str| {
            let encode = |text: &str| STANDARD.encode(text);
            key_pair(&json!({"data": {"tls.crt": encode(certificate), "tls.key": encode(key)}})).unwrap_or_default()
        };
        let (certificate, key) = (pem("CERTIFICATE"), pem("RSA PRIVATE KEY"));
        assert_eq!(warning(&certificate, &key), "");
        assert_eq!(warning("x", &key), "tls: failed to find any PEM data in certificate input");
        assert_eq!(warning(&certificate, ""), "tls: failed to find any PEM data in key input");
        assert!(warning(&key, &certificate).ends_with("PEM inputs may have been switched"));
        assert!(warning(&pem("FOO"), &key).ends_with("blocks of the following types: [FOO]"));
    }
}
