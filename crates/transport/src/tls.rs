//! TLS settings from certificate and key files that may change over time.

mod listed;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use pintle_meta::{PemSource, TlsClientConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use self::listed::ListedVerifier;
use crate::error::ConfigError;
use crate::files::{self, FileReader};

pub(super) struct TlsSettings {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: Option<String>,
}

impl TlsSettings {
    pub(super) fn without_http2(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![HTTP1.to_vec()];
        Self { config: Arc::new(config), server_name: self.server_name.clone() }
    }
}

const HTTP1: &[u8] = b"http/1.1";

/// The certificates and keys of a configuration, which may be inline or in files.
///
/// Requests check the files for changes at most once every 10 s. New contents are used only if all files are valid and
/// match. Therefore, a certificate is never combined with the wrong key, and an incomplete certificate or key file has
/// no effect. If a CA bundle is incomplete, the complete certificates in it are used until the next check.
pub(super) struct TlsSource {
    config: TlsClientConfig,
    offers_http2: bool,
    /// The reader of the files, or `None` if the configuration contains no files.
    files: Option<FileReader<Result<Arc<Material>, ConfigError>>>,
    looked_at: StdMutex<Instant>,
    /// The number of the credential plugin run that returned the current client certificate.
    run: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// The configured certificates and keys, with the contents of the files at the time of the last check.
    configured: Arc<Material>,
    /// The client certificate from a credential plugin, which takes precedence over the configured certificate.
    pair: Option<ClientPair>,
}

/// The client certificate that a run of a credential plugin returned.
#[derive(Clone, Copy)]
pub struct PluginCertificate<'a> {
    /// The number of the plugin run, starting at 1.
    pub run: u64,
    /// The certificate and its key, or `None` if the plugin returned no certificate.
    pub pair: Option<&'a ClientPair>,
}

/// A certificate chain and its private key as PEM text.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientPair {
    /// The certificate chain. The certificate of the client comes first.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Zeroizing<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Material {
    ca: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Zeroizing<Vec<u8>>>,
}

impl ClientPair {
    /// Returns an error if the certificate or the key cannot be used, or if they do not match.
    pub fn check(&self) -> Result<(), ConfigError> {
        let chain = certificates(CERTIFICATE, &self.certificate)?;
        let certified = CertifiedKey::from_der(chain, private_key(&self.key)?, &provider());
        certified.map(drop).map_err(|error| ConfigError::Value { field: CERTIFICATE, why: error.to_string() })
    }
}

/// Returns the crypto provider that the program has installed as the default, or else ring. `ring` is chosen explicitly,
/// because a program that links several providers has no default.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()))
}

const CHECK_PERIOD: Duration = Duration::from_secs(10);

impl TlsSource {
    pub(super) fn open(config: TlsClientConfig, offers_http2: bool) -> Result<(Self, Arc<TlsSettings>), ConfigError> {
        if config.ca.is_some() && config.insecure_skip_verify {
            return Err(ConfigError::Conflict { first: "tls.ca", second: "tls.insecure_skip_verify" });
        }
        let material = Material::read(&config)?;
        let settings = material.settings(&config, offers_http2)?;
        let is_file = |source: &Option<PemSource>| matches!(source, Some(PemSource::File(_)));
        let has_files = is_file(&config.ca) || is_file(&config.certificate) || is_file(&config.key);
        let files = has_files.then(|| FileReader::new("the files of certificates and keys"));
        let run = AtomicU64::new(0);
        let state = Mutex::new(State { configured: Arc::new(material), pair: None });
        Ok((Self { config, offers_http2, files, looked_at: StdMutex::new(Instant::now()), run, state }, settings))
    }

    /// Calls `replace` with the new settings if the files have changed. Only one caller at a time checks the files, and
    /// the others continue with the current settings.
    ///
    /// Like [`show`](Self::show), this method calls `replace` under the certificate lock. Another call with newer
    /// settings therefore waits until `replace` returns.
    pub(super) async fn look(&self, replace: impl FnOnce(Arc<TlsSettings>)) {
        if let Some(files) = self.files.as_ref().filter(|_| self.is_due()) {
            Box::pin(self.reload(files, replace)).await;
        }
    }

    async fn reload(
        &self,
        files: &FileReader<Result<Arc<Material>, ConfigError>>,
        replace: impl FnOnce(Arc<TlsSettings>),
    ) {
        let config = self.config.clone();
        let Ok(read) = files.read(move || Material::read(&config).map(Arc::new)).await else { return };
        let mut state = self.state.lock().await;
        let fresh = read.and_then(|material| {
            let is_other = material != state.configured;
            let settings = is_other
                .then(|| material.with(state.pair.as_ref()).settings(&self.config, self.offers_http2))
                .transpose()?;
            Ok(settings.map(|settings| (material, settings)))
        });
        match fresh {
            Ok(None) => {}
            Ok(Some((material, settings))) => {
                tracing::info!("certificates changed; new connections use the new ones");
                state.configured = material;
                replace(settings);
            }
            Err(error) => tracing::warn!("the changed certificates cannot be used; the old ones stay in use: {error}"),
        }
    }

    /// Returns `true` if the caller must check the files now. In each check period, only one caller gets `true`.
    fn is_due(&self) -> bool {
        let Ok(mut looked_at) = self.looked_at.try_lock() else { return false };
        let is_due = looked_at.elapsed() >= CHECK_PERIOD;
        if is_due {
            *looked_at = Instant::now();
        }
        is_due
    }

    pub(super) async fn show(
        &self,
        shown: PluginCertificate<'_>,
        replace: impl FnOnce(Arc<TlsSettings>),
    ) -> Result<(), ConfigError> {
        // Ignore a certificate from an earlier plugin run than the current certificate, so that a slow request does not
        // restore it.
        if self.run.load(Ordering::Acquire) >= shown.run {
            return Ok(());
        }
        let mut state = self.state.lock().await;
        if self.run.load(Ordering::Acquire) >= shown.run {
            return Ok(());
        }
        let is_other = state.pair.as_ref() != shown.pair;
        let settings = is_other
            .then(|| state.configured.with(shown.pair).settings(&self.config, self.offers_http2))
            .transpose()?;
        state.pair = shown.pair.cloned();
        if let Some(settings) = settings {
            replace(settings);
        }
        // Store the run's number last, because the new settings must be in use when a request reads this number.
        self.run.store(shown.run, Ordering::Release);
        Ok(())
    }
}

impl Material {
    fn with(&self, pair: Option<&ClientPair>) -> Self {
        let mut material = self.clone();
        if let Some(pair) = pair {
            material.certificate = Some(pair.certificate.clone());
            material.key = Some(pair.key.clone());
        }
        material
    }

    fn read(config: &TlsClientConfig) -> Result<Self, ConfigError> {
        let read = |field, source: &Option<PemSource>| match source {
            None => Ok(None),
            Some(source) => pem(field, source).map(Some),
        };
        let plain = |mut text: Zeroizing<Vec<u8>>| std::mem::take(&mut *text);
        Ok(Self {
            ca: read(CA, &config.ca)?.map(plain),
            certificate: read(CERTIFICATE, &config.certificate)?.map(plain),
            key: read(KEY, &config.key)?,
        })
    }

    fn settings(&self, config: &TlsClientConfig, offers_http2: bool) -> Result<Arc<TlsSettings>, ConfigError> {
        let provider = provider();
        let fault = |field| move |error: rustls::Error| ConfigError::Value { field, why: error.to_string() };
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(fault("tls"))?;
        let builder = match (&self.ca, config.insecure_skip_verify) {
            (_, true) => builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider))),
            (Some(pem), false) => {
                let (roots, listed) = roots(pem)?;
                let authorities = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
                let fault = |error: VerifierBuilderError| ConfigError::Value { field: CA, why: error.to_string() };
                let verifier = ListedVerifier { authorities: authorities.map_err(fault)?, listed };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            (None, false) => {
                let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(fault(CA))?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut built = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let (key, chain) = (private_key(key)?, certificates(CERTIFICATE, certificate)?);
                builder.with_client_auth_cert(chain, key).map_err(fault(CERTIFICATE))?
            }
            (Some(_), None) => return Err(ConfigError::Missing { present: CERTIFICATE, missing: KEY }),
            (None, Some(_)) => return Err(ConfigError::Missing { present: KEY, missing: CERTIFICATE }),
        };
        let protocols: &[&[u8]] = if offers_http2 { &[b"h2", HTTP1] } else { &[HTTP1] };
        built.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(TlsSettings { config: Arc::new(built), server_name: config.server_name.clone() }))
    }
}

const CA: &str = "tls.ca";
const CERTIFICATE: &str = "tls.certificate";
const KEY: &str = "tls.key";

/// Returns the CA certificates in `tls.ca` as PEM text, which may be inline or in a file.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub fn ca_pem(source: &PemSource) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
    pem(CA, source)
}

fn pem(field: &'static str, source: &PemSource) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
    match source {
        PemSource::Inline(text) => Ok(Zeroizing::new(text.clone())),
        PemSource::File(path) => files::read(path).map_err(|source| ConfigError::File {
            field,
            path: PathBuf::from(path),
            source: Arc::new(source),
        }),
    }
}

/// The error message for an invalid PEM text. The parser's message would quote a line of the file, which would be the
/// entire key if the key's line breaks are missing.
const PEM: &str = "it needs a BEGIN line, lines of base64, and an END line";

/// Parses a PEM text both as certificates and as keys, and returns the errors.
#[cfg(any(test, fuzzing))]
pub(crate) fn pem_faults(pem: &[u8]) -> Vec<ConfigError> {
    let pair = ClientPair { certificate: pem.to_vec(), key: Zeroizing::new(pem.to_vec()) };
    let faults = [roots(pem).err(), pair.check().err(), private_key(pem).err()];
    faults.into_iter().flatten().collect()
}

/// Parses CA certificates, and skips unusable certificates, like Go.
fn roots(pem: &[u8]) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), ConfigError> {
    let (mut roots, mut listed) = (RootCertStore::empty(), Vec::new());
    let (mut broken, mut fault) = (0, "it contains no PEM certificate".to_owned());
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let added = match certificate {
            Ok(certificate) => {
                listed.push(certificate.clone());
                roots.add(certificate).map_err(|error| format!("not a certificate authority: {error}"))
            }
            Err(_) => Err(format!("broken PEM: {PEM}")),
        };
        if let Err(why) = added {
            (broken, fault) = (broken + 1, why);
        }
    }
    if roots.is_empty() {
        return Err(ConfigError::Value { field: CA, why: fault });
    }
    if broken > 0 {
        tracing::warn!(
            "{broken} certificates in {CA} cannot be used, the other {} are used; the last error: {fault}",
            roots.len()
        );
    }
    Ok((roots, listed))
}

fn certificates(field: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(ConfigError::Value { field, why: "it contains no PEM certificate".into() })
        }
        Ok(certificates) => Ok(certificates),
        Err(_) => Err(ConfigError::Value { field, why: format!("broken PEM: {PEM}") }),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, ConfigError> {
    let key = PrivateKeyDer::from_pem_slice(pem);
    key.map_err(|_| ConfigError::Value { field: KEY, why: format!("no PEM key: {PEM}") })
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// Accepts any certificate, for `insecure-skip-tls-verify`. Signatures of the handshake are not checked, because they
/// prove nothing without a trusted certificate. In addition, rustls cannot check the signatures of some certificates
/// that Go accepts.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
