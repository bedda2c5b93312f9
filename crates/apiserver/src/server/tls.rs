//! A certificate of the server's own making.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// An acceptor for `127.0.0.1`, `localhost` and the address that is listened on, and the PEM text of the authority that vouches for it.
pub(super) fn acceptor(bound: IpAddr) -> Result<(TlsAcceptor, String), Box<dyn Error + Send + Sync>> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "pintle-apiserver");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
    let bound = (!bound.is_loopback()).then(|| bound.to_string());
    let mut server = CertificateParams::new(names.into_iter().chain(bound).collect::<Vec<_>>())?;
    server.distinguished_name.push(DnType::CommonName, "127.0.0.1");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &authority)?;

    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
