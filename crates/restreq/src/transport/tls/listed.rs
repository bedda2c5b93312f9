//! Servers whose own certificate is among the trusted ones.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Trusts whom an authority vouches for, and as Go does, a server that shows one of the trusted certificates itself: one that it has
/// signed for itself, or that comes from an authority nobody knows here. Its name and its time are looked at all the same.
#[derive(Debug)]
pub(super) struct ListedVerifier {
    pub(super) authorities: Arc<WebPkiServerVerifier>,
    /// What the configuration trusts, authority or not.
    pub(super) listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for ListedVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let refused = match self.authorities.verify_server_cert(shown, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(refused)) if lacks_no_more_than_an_authority(&refused) => refused,
            outcome => return outcome,
        };
        if !self.listed.iter().any(|listed| listed == shown) {
            return Err(refused.into());
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, shown, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether all that is wrong with a certificate is who has signed it: nobody who is known, not who is known by that name, or, of one
/// that may sign others, itself. Its time has been looked at before any of these is said.
fn lacks_no_more_than_an_authority(refused: &CertificateError) -> bool {
    match refused {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => true,
        // rustls has no variant for it.
        CertificateError::Other(other) => other.0.to_string() == "CaUsedAsEndEntity",
        _ => false,
    }
}
