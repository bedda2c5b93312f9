//! Creates the server's certificate.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ED25519,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;

/// Returns a TLS acceptor, and the certificate authority that clients must trust, as PEM. The certificate is valid for
/// `127.0.0.1`, `localhost` and the address of the server. With a seed, the keys and certificates depend only on the
/// seed and the address.
pub fn acceptor(bound: IpAddr, seed: Option<u64>) -> Result<(TlsAcceptor, String), Box<dyn Error + Send + Sync>> {
    let key = |of: &str| seed.map_or_else(KeyPair::generate, |seed| seeded_key(seed, of));
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "pintle-apiserver");
    let authority = CertifiedIssuer::self_signed(authority, key("authority")?)?;

    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
    let bound = (!bound.is_loopback()).then(|| bound.to_string());
    let mut server = CertificateParams::new(names.into_iter().chain(bound).collect::<Vec<_>>())?;
    server.distinguished_name.push(DnType::CommonName, "127.0.0.1");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = key("server")?;
    let certificate = server.signed_by(&key, &authority)?;

    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}

/// Returns the private key derived from a seed. Any 32 bytes are a valid Ed25519 key, and Ed25519 signatures are
/// deterministic.
fn seeded_key(seed: u64, of: &str) -> Result<KeyPair, rcgen::Error> {
    // The header of a key file according to RFC 8410, section 7: the version, the algorithm and the length of the key.
    const HEAD: [u8; 16] =
        [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    let secret = Sha256::digest(format!("key of TLS of the {of} {seed}"));
    let document = PrivatePkcs8KeyDer::from([&HEAD[..], &secret[..]].concat());
    KeyPair::from_pkcs8_der_and_sign_algo(&document, &PKCS_ED25519)
}
