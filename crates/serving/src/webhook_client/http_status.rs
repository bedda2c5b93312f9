//! The error messages for unsuccessful webhook responses.

use http::StatusCode;
use serde_json::Value;

/// Returns client-go's error message for a response, or `None` for a successful response with a nonempty body.
pub(super) fn error(status: StatusCode, content_type: &str, body: &str) -> Option<String> {
    let code = status.as_u16();
    if (200..=206).contains(&code) {
        return match body {
            "" => Some(format!("0-length response with status code: {code} and content type: {content_type}")),
            _ => None,
        };
    }
    let sent: Value = serde_json::from_str(body).unwrap_or_default();
    if sent["kind"] == "Status" && sent["apiVersion"] == "v1" {
        let message = sent["message"].as_str().unwrap_or_default();
        return Some(if message.is_empty() { "unknown".into() } else { message.to_owned() });
    }
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    Some(generic(code, if is_text { shortened(body.trim()) } else { "" }))
}

/// Returns the beginning of a response body, in the form of client-go's error messages.
fn shortened(body: &str) -> &str {
    &body[..body.floor_char_boundary(2048)]
}

fn generic(code: u16, body: &str) -> String {
    const BUSY: &str = "the server has received too many requests and has asked us to try again later";
    let text = match code {
        409 => "the server reported a conflict",
        404 => "the server could not find the requested resource",
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 if body.is_empty() => "unknown",
        403 => body,
        405 => "the server does not allow this method on the requested resource",
        406 => "the server was unable to respond with a content type that the client supports",
        415 => "the server was unable to accept the content type of the request",
        422 => "the server rejected our request due to an error in our request",
        429 => BUSY,
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            let shown = if body.is_empty() { "unknown" } else { body };
            return format!("an error on the server ({shown:?}) has prevented the request from succeeding");
        }
        _ => return format!("the server responded with the status code {code} but did not return more information"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_response_has_the_text_of_client_go() {
        let of = |code: u16, body: &str| error(StatusCode::from_u16(code).expect("a status"), "text/plain", body);
        assert_eq!(of(200, "{}"), None);
        assert_eq!(of(201, "{}"), None);
        assert_eq!(
            of(204, "").as_deref(),
            Some("0-length response with status code: 204 and content type: text/plain")
        );
        assert_eq!(of(404, "no").as_deref(), Some("the server could not find the requested resource"));
        assert_eq!(
            of(500, "boom").as_deref(),
            Some("an error on the server (\"boom\") has prevented the request from succeeding")
        );
        let status = r#"{"kind": "Status", "apiVersion": "v1", "message": "keep out"}"#;
        assert_eq!(of(403, status).as_deref(), Some("keep out"));
    }
}
