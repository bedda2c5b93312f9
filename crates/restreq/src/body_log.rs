//! Logs bodies without their secrets.

use std::sync::Arc;

use pintle_meta::RequestLine;
use serde_json::{Map, Value};

use crate::body::Body;
use crate::request::Request;

/// The maximum size of a JSON body that is parsed for logging, in bytes.
const MAX_PARSED: usize = 1 << 20;
const REDACTED: &str = "[redacted]";
/// The annotation that contains the entire object after a `kubectl apply`. The annotated object may be a Secret, so the
/// log never contains the annotation's value.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Words that identify secret fields. The log does not contain the value of a field whose name contains one of these
/// words, ignoring case, `-` and `_`.
const SECRET_NAMES: [&str; 9] =
    ["apikey", "authorization", "credential", "keydata", "passphrase", "passw", "privatekey", "secret", "token"];
/// The names of resources and subresources that contain secrets. A body is not logged if a segment of the request path
/// is one of these names.
const SECRET_PARTS: [&str; 4] = ["secrets", "token", "tokenrequests", "tokenreviews"];

impl Request {
    pub(crate) fn log_sent(&self, line: &Arc<RequestLine>) {
        if let (Some(max_bytes), Body::Bytes(body)) = (self.logged(), &self.parts.body) {
            let body = self.text_to_log(body, max_bytes);
            tracing::trace!(target: "pintle_restreq::body", request = %line, %body, "sent");
        }
    }

    pub(crate) fn log_received(&self, line: &Arc<RequestLine>, body: &[u8]) {
        if let Some(max_bytes) = self.logged() {
            let body = self.text_to_log(body, max_bytes);
            tracing::trace!(target: "pintle_restreq::body", request = %line, %body, "received");
        }
    }

    fn logged(&self) -> Option<usize> {
        self.parts
            .shared
            .logged_body
            .filter(|_| tracing::enabled!(target: "pintle_restreq::body", tracing::Level::TRACE))
    }

    fn text_to_log(&self, body: &[u8], max_bytes: usize) -> String {
        let is_secret = |part: &str| SECRET_PARTS.iter().any(|secret| part.eq_ignore_ascii_case(secret));
        // Check the path, because a body does not always show that the object is a Secret. A patch of a Secret, for
        // example, does not contain the kind.
        if self.path().split('/').any(is_secret) { size(body) } else { redacted_text(body, max_bytes) }
    }
}

fn size(body: &[u8]) -> String {
    format!("[{} bytes]", body.len())
}

/// Returns the text to log for a JSON body, which is at most `max_bytes` bytes long. If the body is very large or has
/// another format, the text is only the size of the body.
fn redacted_text(body: &[u8], max_bytes: usize) -> String {
    let parsed = (body.len() <= MAX_PARSED).then(|| serde_json::from_slice(body).ok()).flatten();
    let Some(mut value) = parsed else { return size(body) };
    if !matches!(value, Value::Object(_) | Value::Array(_)) {
        return size(body);
    }
    redact(&mut value);
    let mut text = value.to_string();
    let cut = text.floor_char_boundary(max_bytes);
    if cut < text.len() {
        let rest = text.len() - cut;
        text.truncate(cut);
        text.push_str(&format!(" [truncated {rest} bytes]"));
    }
    text
}

fn redact(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(redact),
        Value::Object(members) => redact_members(members),
        // Redact JSON web tokens in any field.
        Value::String(text) if text.starts_with("eyJ") => *value = REDACTED.into(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_members(members: &mut Map<String, Value>) {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_secret = text("kind") == "Secret";
    // The name of an environment variable, or the path of a JSON patch operation, can show that the field `value` is
    // secret.
    let is_value_secret = ["name", "key", "path"].iter().any(|name| may_be_secret(text(name)));
    if text("kind") == "SecretList" {
        members.insert("items".into(), REDACTED.into());
    }
    for (name, value) in members {
        let hides = match name.as_str() {
            "kind" | "apiVersion" => false,
            "value" if is_value_secret => true,
            name => is_secret || name == LAST_APPLIED || may_be_secret(name),
        };
        match value {
            // `null` and booleans are never secret.
            Value::Null | Value::Bool(_) => {}
            value if hides => *value = REDACTED.into(),
            value => redact(value),
        }
    }
}

fn may_be_secret(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|secret| plain.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_in_logged_bodies() {
        for (body, expected) in [
            (r#"{"kind":"ConfigMap","data":{"a":"b"}}"#, r#"{"data":{"a":"b"},"kind":"ConfigMap"}"#),
            (r#"{"kind":"Secret","data":{"a":"hush"}}"#, r#"{"data":"[redacted]","kind":"Secret"}"#),
            (r#"{"kind":"Secret","stringData":{"a":"hush"}}"#, r#"{"kind":"Secret","stringData":"[redacted]"}"#),
            (r#"{"kind":"SecretList","items":[{"data":"hush"}]}"#, r#"{"items":"[redacted]","kind":"SecretList"}"#),
            (r#"{"items":[{"kind":"Secret","data":1}]}"#, r#"{"items":[{"data":"[redacted]","kind":"Secret"}]}"#),
            (r#"{"status":{"token":"hush"}}"#, r#"{"status":{"token":"[redacted]"}}"#),
            (r#"{"DB_PASSWORD":"hush"}"#, r#"{"DB_PASSWORD":"[redacted]"}"#),
            (r#"{"tls.private-key":"hush"}"#, r#"{"tls.private-key":"[redacted]"}"#),
            (
                r#"{"env":[{"name":"API_KEY","value":"hush"},{"name":"A","value":"b"}]}"#,
                r#"{"env":[{"name":"API_KEY","value":"[redacted]"},{"name":"A","value":"b"}]}"#,
            ),
            (
                r#"[{"op":"add","path":"/data/password","value":"hush"}]"#,
                r#"[{"op":"add","path":"/data/password","value":"[redacted]"}]"#,
            ),
            (r#"{"automountServiceAccountToken":true}"#, r#"{"automountServiceAccountToken":true}"#),
            (r#"["eyJhbGciOi.hush.hush"]"#, r#"["[redacted]"]"#),
            (
                r#"{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hush"}}"#,
                r#"{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"[redacted]"}}"#,
            ),
            (r#"{"kind":"Secret","hush":[]}"#, r#"{"hush":"[redacted]","kind":"Secret"}"#),
            (r#""hush""#, "[6 bytes]"),
            ("token: hush", "[11 bytes]"),
            ("", "[0 bytes]"),
        ] {
            assert_eq!(redacted_text(body.as_bytes(), 1000), expected, "{body}");
        }
    }

    #[test]
    fn logged_body_is_cut_at_the_limit() {
        assert_eq!(redacted_text(r#"["aüb"]"#.as_bytes(), 4), r#"["a [truncated 5 bytes]"#);
        assert_eq!(redacted_text(br#"["a"]"#, 5), r#"["a"]"#);
        let large = format!("[{}1]", "1,".repeat(MAX_PARSED));
        assert_eq!(redacted_text(large.as_bytes(), 10), format!("[{} bytes]", large.len()));
    }
}
