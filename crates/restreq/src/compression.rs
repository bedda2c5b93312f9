//! Compressed responses.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response};
use pintle_transport::ResponseBody;

/// Adds a header that asks for a gzip response, as Go's transport does. Returns whether it added the header. The
/// function adds no header if the request already has an `Accept-Encoding` header, asks for a range, or asks only for
/// the headers.
pub(crate) fn ask(method: &Method, headers: &mut HeaderMap) -> bool {
    let is_asked = *method != Method::HEAD && !headers.contains_key(ACCEPT_ENCODING) && !headers.contains_key(RANGE);
    if is_asked {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    is_asked
}

/// Decompresses the response if it is compressed.
pub(crate) fn undo(mut answer: Response<ResponseBody>) -> Response<ResponseBody> {
    let is_gzip = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"gzip");
    if !answer.headers().get(CONTENT_ENCODING).is_some_and(is_gzip) {
        return answer;
    }
    // The removed headers describe the compressed body and do not match the decompressed body.
    answer.headers_mut().remove(CONTENT_ENCODING);
    answer.headers_mut().remove(CONTENT_LENGTH);
    answer.map(ResponseBody::inflated)
}
