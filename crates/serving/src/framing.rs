//! Rejects HTTP/1.1 requests whose framing hyper accepts and kube-apiserver rejects. Without this check, clients
//! could smuggle requests past a proxy that interprets the framing differently.

use http::header::{CONNECTION, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};

use crate::body::{ResponseBody, full};

/// Returns an error response that closes the connection, or `None` if the framing of the request is valid.
pub fn refusal<B>(request: &Request<B>) -> Option<Response<ResponseBody>> {
    if request.version() != Version::HTTP_11 {
        return None;
    }
    let headers = request.headers();
    if !is_chunked_at_most(headers) {
        return Some(answer(StatusCode::NOT_IMPLEMENTED, "Unsupported transfer encoding".into()));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let why = match (hosts.next(), hosts.next()) {
        (None, _) if request.method() != Method::CONNECT => "missing required Host header",
        (Some(_), Some(_)) => "too many Host headers",
        (Some(host), None) if !host.as_bytes().iter().all(|byte| is_of_host(*byte)) => "malformed Host header",
        _ => return None,
    };
    Some(answer(StatusCode::BAD_REQUEST, format!("400 Bad Request: {why}")))
}

fn is_chunked_at_most(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = encodings.next();
    first.is_none_or(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"chunked")) && encodings.next().is_none()
}

fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

fn answer(status: StatusCode, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
