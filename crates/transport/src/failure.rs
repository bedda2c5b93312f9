//! The reasons for which a request gets no response, and whether the server may have processed the request.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::error::{BoxError, causes};
use crate::malformed::is_invalid_response;

/// The reason why a request received no response.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The client could not connect, and did not send the request.
    Connect {
        /// Whether the peer refused the connection.
        refused: bool,
        /// The underlying error.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The client could not connect in time, and did not send the request.
    ConnectTimeout,
    /// The client sent the request, but did not receive the response headers within this timeout.
    HeadersTimeout(Duration),
    /// The server has not processed the request and will not process it.
    Unprocessed(Arc<dyn StdError + Send + Sync>),
    /// The exchange failed. The client does not know whether the server has processed the request.
    Exchange {
        /// Whether the connection was reused. A reused connection has most likely been closed while it was idle.
        is_stale: bool,
        /// The underlying error.
        source: Arc<dyn StdError + Send + Sync>,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectTimeout => f.write_str("connecting took too long"),
            Self::HeadersTimeout(_) => f.write_str("no response headers in time"),
            Self::Connect { source, .. } | Self::Unprocessed(source) | Self::Exchange { source, .. } => source.fmt(f),
        }
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::ConnectTimeout | Self::HeadersTimeout(_) => None,
            // The message of the failure already includes the message of this source, so skip it.
            Self::Connect { source, .. } | Self::Unprocessed(source) | Self::Exchange { source, .. } => source.source(),
        }
    }
}

impl Failure {
    pub(crate) fn connecting(error: BoxError) -> Self {
        let source: Arc<dyn StdError + Send + Sync> = error.into();
        let is_refusal = |io: &io::Error| io.kind() == io::ErrorKind::ConnectionRefused;
        let refused = causes(&*source).any(|cause| cause.downcast_ref().is_some_and(is_refusal));
        Self::Connect { refused, source }
    }

    pub(crate) fn of_exchange(error: BoxError, is_unsent: bool, is_fresh: bool) -> Self {
        let source: Arc<dyn StdError + Send + Sync> = error.into();
        let is_unprocessed = is_unsent || causes(&*source).any(|cause| cause.downcast_ref().is_some_and(is_refused));
        // In TLS 1.3, the server can reject the client certificate after the client has completed the handshake. If
        // the connection was reused, or after any other TLS error, the server may have processed the request.
        let is_turned_away = is_fresh && causes(&*source).any(is_refused_handshake);
        if is_turned_away {
            Self::Connect { refused: false, source }
        } else if is_unprocessed {
            Self::Unprocessed(source)
        } else {
            let is_stale = !is_fresh && !is_invalid_response(&*source);
            Self::Exchange { is_stale, source }
        }
    }

    /// Returns the error for a dial whose task was dropped.
    pub(crate) fn interrupted() -> Self {
        Self::Connect { refused: false, source: Arc::new(Interrupted) }
    }
}

#[derive(Debug, Error)]
#[error("connecting was interrupted: the runtime that it ran on has ended")]
struct Interrupted;

/// Returns `true` if the server reported that it has not processed the stream and will not process it (RFC 9113,
/// sections 6.8 and 8.7). h2 returns a GOAWAY only to streams with an ID above the last stream ID in the GOAWAY.
fn is_refused(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

pub(crate) fn is_of_stream(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(h2::Error::is_reset))
}

/// Returns `true` if the peer rejected the TLS handshake. The function searches the error message, because an
/// HTTP/2 error contains its cause only as text.
fn is_refused_handshake(error: &(dyn StdError + 'static)) -> bool {
    let text = error.to_string();
    let alert = text.split_once(ALERT).map(|(_, alert)| alert).unwrap_or_default();
    REFUSALS.iter().any(|refusal| alert.starts_with(refusal))
}

const ALERT: &str = "received fatal alert: ";

/// The TLS alerts that are only sent during a handshake (RFC 8446, section 6.2, and older TLS versions). After any
/// other alert, such as an internal error, the server may have processed the request.
const REFUSALS: [&str; 18] = [
    "AccessDenied",
    "BadCertificate",
    "CertificateExpired",
    "CertificateRequired",
    "CertificateRevoked",
    "CertificateUnknown",
    "CertificateUnobtainable",
    "DecryptError",
    "HandshakeFailure",
    "InappropriateFallback",
    "InsufficientSecurity",
    "MissingExtension",
    "NoApplicationProtocol",
    "NoCertificate",
    "ProtocolVersion",
    "UnknownCA",
    "UnrecognisedName",
    "UnsupportedCertificate",
];

#[cfg(test)]
mod tests {
    use rustls::AlertDescription as Alert;

    use super::*;

    #[test]
    fn only_handshake_alerts_prove_that_nothing_was_processed() {
        for (alert, is_proof) in [
            (Alert::BadCertificate, true),
            (Alert::CertificateRequired, true),
            (Alert::CertificateUnknown, true),
            (Alert::HandshakeFailure, true),
            (Alert::UnknownCA, true),
            (Alert::AccessDenied, true),
            (Alert::CertificateExpired, true),
            (Alert::NoApplicationProtocol, true),
            (Alert::InternalError, false),
            (Alert::BadRecordMac, false),
            (Alert::DecodeError, false),
            (Alert::IllegalParameter, false),
            (Alert::RecordOverflow, false),
            (Alert::UnexpectedMessage, false),
            (Alert::UserCanceled, false),
            (Alert::Unknown(200), false),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
            assert_eq!(is_refused_handshake(&error), is_proof, "{error}");
        }
        assert!(!is_refused_handshake(&io::Error::other("reset")));
    }
}
