//! Requests and decodes compressed responses.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response};
use pintle_transport::ResponseBody;

/// Adds a header that requests a gzip response, like Go's transport. Returns `true` if the header was added. The method
/// does not add the header to HEAD requests, or to requests with a `Range` or `Accept-Encoding` header.
pub(crate) fn ask(method: &Method, headers: &mut HeaderMap) -> bool {
    let is_asked = *method != Method::HEAD && !headers.contains_key(ACCEPT_ENCODING) && !headers.contains_key(RANGE);
    if is_asked {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    is_asked
}

pub(crate) fn undo(mut answer: Response<ResponseBody>) -> Response<ResponseBody> {
    let is_gzip = |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"gzip");
    if !answer.headers().get(CONTENT_ENCODING).is_some_and(is_gzip) {
        return answer;
    }
    // Remove `Content-Encoding` and `Content-Length`, which describe the compressed body.
    answer.headers_mut().remove(CONTENT_ENCODING);
    answer.headers_mut().remove(CONTENT_LENGTH);
    answer.map(ResponseBody::inflated)
}
