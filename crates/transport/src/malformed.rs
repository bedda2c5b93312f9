//! Responses that violate HTTP/1.1.

use std::error::Error as StdError;
use std::fmt;

use crate::error::causes;

/// A server's violation of HTTP/1.1.
#[derive(Debug)]
pub(crate) enum Malformed {
    /// The server closed the connection before it sent the response headers.
    Closed,
    /// The server closed the connection before the end of the response body.
    Truncated,
    /// The server sent data although no request was in flight.
    Unrequested,
    /// The headers exceed this limit in bytes.
    HeadTooLarge(usize),
    Head(&'static str),
    Syntax(httparse::Error),
    Chunk(&'static str),
}

/// Returns `true` if `error` was caused by a response that is invalid HTTP. An invalid response proves that the
/// response was not lost.
pub fn is_invalid_response(error: &(dyn StdError + 'static)) -> bool {
    let malformed = causes(error).find_map(|cause| cause.downcast_ref());
    matches!(
        malformed,
        Some(Malformed::HeadTooLarge(_) | Malformed::Head(_) | Malformed::Syntax(_) | Malformed::Chunk(_))
    )
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the server closed the connection without a response"),
            Self::Truncated => f.write_str("the server closed the connection before the end of the response"),
            Self::Unrequested => f.write_str("the server sent data before the request"),
            Self::HeadTooLarge(most) => write!(f, "the headers of the response are larger than {most} bytes"),
            Self::Head(why) => write!(f, "the headers of the response are invalid: {why}"),
            Self::Syntax(error) => write!(f, "the headers of the response are invalid: {error}"),
            Self::Chunk(why) => write!(f, "a chunk of the response is invalid: {why}"),
        }
    }
}

impl StdError for Malformed {}
