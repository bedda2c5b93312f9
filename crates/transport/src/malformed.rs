//! Responses that violate HTTP/1.1.

use std::error::Error as StdError;

use thiserror::Error;

use crate::error::causes;

#[derive(Debug, Error)]
pub(crate) enum Malformed {
    /// The server closed the connection before it sent the response headers.
    #[error("the server closed the connection without a response")]
    Closed,
    /// The server closed the connection before the end of the response body.
    #[error("the server closed the connection before the end of the response")]
    Truncated,
    #[error("the server sent data before the request")]
    Unrequested,
    /// The headers are larger than this limit in bytes.
    #[error("the headers of the response are larger than {0} bytes")]
    HeadTooLarge(usize),
    #[error("the headers of the response are invalid: {0}")]
    Head(&'static str),
    #[error("the headers of the response are invalid: {0}")]
    Syntax(httparse::Error),
    #[error("a chunk of the response is invalid: {0}")]
    Chunk(&'static str),
}

/// Returns `true` if the cause of `error` is an invalid HTTP response, which means that the server has responded.
pub fn is_invalid_response(error: &(dyn StdError + 'static)) -> bool {
    let malformed = causes(error).find_map(|cause| cause.downcast_ref());
    matches!(
        malformed,
        Some(Malformed::HeadTooLarge(_) | Malformed::Head(_) | Malformed::Syntax(_) | Malformed::Chunk(_))
    )
}
