//! The TLS configuration of webhook calls.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;

/// Returns the TLS configuration for a webhook whose certificate an authority in the PEM bundle has issued. If the
/// bundle is empty, the client trusts the authorities of the operating system.
pub(super) fn config(ca_bundle: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    if ca_bundle.is_empty() {
        let builder = builder.with_platform_verifier().map_err(|error| error.to_string())?;
        return Ok(Arc::new(builder.with_no_client_auth()));
    }
    let listed: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle).filter_map(Result::ok).collect();
    if listed.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".into());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
    let authorities = authorities.build().map_err(|error| format!("unable to load root certificates: {error}"))?;
    let verifier = Arc::new(BundleVerifier { authorities, listed });
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// Returns the crypto provider that the program has installed as the default, or else ring.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

/// Accepts certificates from the authorities in the bundle. Like Go, also accepts a server certificate that is itself
/// in the bundle. In both cases, it checks names and validity periods.
#[derive(Debug)]
struct BundleVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let refused = match self.authorities.verify_server_cert(own, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(refused)) if self.listed.iter().any(|listed| listed == own) => refused,
            verdict => return verdict,
        };
        let only_issuer = match &refused {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => true,
            // rustls has no variant for a server that uses the certificate of a certificate authority.
            CertificateError::Other(other) => other.0.to_string() == "CaUsedAsEndEntity",
            _ => false,
        };
        if !only_issuer {
            return Err(refused.into());
        }
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Returns Go's message for a failed handshake with the server `name`.
pub(super) fn words(error: &io::Error, name: &str) -> String {
    let Some(Error::InvalidCertificate(why)) = error.get_ref().and_then(|inner| inner.downcast_ref()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".into(),
            _ => format!("tls: {error}"),
        };
    };
    let why = match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("certificate is not valid for any names, but wanted to match {name}")
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => "certificate has expired or is not yet valid".to_owned(),
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}
