//! Warnings about the certificate and key of a TLS Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// What is wrong with the certificate and the key of a Secret of type `kubernetes.io/tls`, in the words of Go's TLS library.
/// What stands in the certificate, and whether the key belongs to it, is not looked at.
pub(in crate::kinds) fn key_pair(secret: &Value) -> Option<String> {
    let kinds_in = |key: &str| {
        let text = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default();
        blocks(&STANDARD.decode(text).unwrap_or_default())
    };
    let (certificates, keys) = (kinds_in("tls.crt"), kinds_in("tls.key"));
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

/// The types of the PEM blocks in a text.
fn blocks(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut kinds) = (&*text, Vec::new());
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let Some((kind, body)) = after.split_once("-----\n").or_else(|| after.split_once("-----\r\n")) else {
            continue;
        };
        if let Some((inner, tail)) = body.split_once(&format!("-----END {kind}-----"))
            && is_base64(inner)
        {
            kinds.push(kind.to_owned());
            rest = tail;
        }
    }
    kinds
}

fn is_base64(text: &str) -> bool {
    // Headers such as `Proc-Type: 4,ENCRYPTED` stand before the body.
    let lines = text.lines().filter(|line| !line.contains(':'));
    STANDARD.decode(lines.map(str::trim).collect::<String>()).is_ok()
}
