//! Answers that the server makes smaller.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response};

use crate::transport::AnswerBody;

/// Asks for gzip, as Go's transport does: unless the request says itself what it takes, or wants a part of the answer or its head alone.
/// Whether it did.
pub(crate) fn ask(method: &Method, headers: &mut HeaderMap) -> bool {
    let is_asked = *method != Method::HEAD && !headers.contains_key(ACCEPT_ENCODING) && !headers.contains_key(RANGE);
    if is_asked {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    is_asked
}

/// The answer as it was before the server made it smaller, if it did.
pub(crate) fn undo(mut answer: Response<AnswerBody>) -> Response<AnswerBody> {
    let is_gzip = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"gzip");
    if !answer.headers().get(CONTENT_ENCODING).is_some_and(is_gzip) {
        return answer;
    }
    // They are of what was sent.
    answer.headers_mut().remove(CONTENT_ENCODING);
    answer.headers_mut().remove(CONTENT_LENGTH);
    answer.map(AnswerBody::inflated)
}
