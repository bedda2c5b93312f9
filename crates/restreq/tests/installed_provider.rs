//! Installs a crypto provider for the whole process. Therefore, this test has a process of its own.

use pintle_meta::ClientConfig;
use pintle_restreq::RestClient;
use rustls::crypto::{CryptoProvider, ring};

#[test]
fn client_uses_the_installed_crypto_provider() {
    let without_ciphers = CryptoProvider { cipher_suites: Vec::new(), ..ring::default_provider() };
    without_ciphers.install_default().unwrap();
    let error = RestClient::new(ClientConfig::new("https://127.0.0.1")).unwrap_err().to_string();
    assert!(error.contains("cipher suites"), "{error}");
}
