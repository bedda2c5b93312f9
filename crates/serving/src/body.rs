//! Response bodies.

use std::io;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};

/// The body of a response. If the body returns an error, the server closes the connection.
pub type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// The maximum length in bytes of a response body that is sent with a `Content-Length` header. Like Go, the
/// server sends longer bodies in chunks.
const MAX_WITH_LENGTH: usize = 2048;

/// Returns a body that consists of `bytes`.
pub fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    let bytes = bytes.into();
    if bytes.len() > MAX_WITH_LENGTH {
        return StreamBody::new(stream::iter([Ok(Frame::data(bytes))])).boxed_unsync();
    }
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
