//! Accepts server certificates that are in the CA bundle.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies a server certificate with the CA certificates. Like Go, also accepts a self-signed certificate, or one with
/// an unknown issuer, if the CA bundle contains this certificate. The verifier always checks the server name and the
/// validity period.
#[derive(Debug)]
pub(super) struct ListedVerifier {
    pub(super) authorities: Arc<WebPkiServerVerifier>,
    /// All certificates in the CA bundle, including server certificates.
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
            Err(Error::InvalidCertificate(refused)) if fails_only_for_its_issuer(&refused) => refused,
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

/// Returns `true` if a certificate was rejected only because of its issuer. There are three such errors: the issuer is
/// unknown, the CA with the issuer's name did not sign the certificate, or the server uses the certificate of a CA.
/// Before webpki reports one of these errors, it has checked the validity period.
fn fails_only_for_its_issuer(refused: &CertificateError) -> bool {
    match refused {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => true,
        // rustls has no variant for webpki's `CaUsedAsEndEntity` error.
        CertificateError::Other(other) => other.0.to_string() == "CaUsedAsEndEntity",
        _ => false,
    }
}
