//! Creates a responder's certificates.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;

/// Creates a certificate authority, which signs a certificate for `127.0.0.1` and `localhost`. Returns the authority's
/// certificate as PEM, and a TLS configuration with the signed certificate.
pub(super) fn issue(name: &str) -> anyhow::Result<(String, Arc<ServerConfig>)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((authority.pem(), Arc::new(config.with_single_cert(vec![certificate.der().clone()], key)?)))
}
