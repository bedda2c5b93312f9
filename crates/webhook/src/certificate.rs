//! Reads the server's certificate from files, and reloads it when the files change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_meta::__private::{Mutex, RwLock};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use zeroize::Zeroizing;

/// Returns the crypto provider that the program has installed as the default, or else ring.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

/// The files that contain the server's certificate and key, and the interval at which the server reads them.
///
/// # Examples
///
/// The files can come from a volume for a `kubernetes.io/tls` Secret, such as a Secret from cert-manager:
///
/// ```
/// use std::path::Path;
///
/// use pintle_webhook::CertificateFiles;
///
/// let files = CertificateFiles::from("/etc/webhook-certificate");
/// assert_eq!(files.certificate, Path::new("/etc/webhook-certificate/tls.crt"));
/// assert_eq!(files.authority.as_deref(), Some(Path::new("/etc/webhook-certificate/ca.crt")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The PEM file with the certificate and its intermediate certificates.
    pub certificate: PathBuf,
    /// The PEM file with the private key.
    pub key: PathBuf,
    /// The PEM file with the certificate authorities that the API server must trust. The registration of the webhooks
    /// contains these authorities as `caBundle`. If `authority` is `None`, the API server uses the root certificates of
    /// its system.
    pub authority: Option<PathBuf>,
    /// The interval at which the server reads the files. The default interval is 10 s. The kubelet updates a changed
    /// Secret in a volume after about a minute.
    pub period: Duration,
}

impl CertificateFiles {
    /// Creates a configuration for the files `tls.crt`, `tls.key` and `ca.crt` in a directory, such as a volume for a
    /// `kubernetes.io/tls` Secret.
    pub fn in_directory(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        Self {
            certificate: directory.join("tls.crt"),
            key: directory.join("tls.key"),
            authority: Some(directory.join("ca.crt")),
            period: Duration::from_secs(10),
        }
    }

    /// Reads the certificates of the authorities that the API server must trust, as PEM. The result contains only
    /// certificates, even if the file also contains a private key. Returns no certificates if
    /// [`authority`](Self::authority) is `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if the authority file cannot be read or contains no certificate.
    pub fn read_authority(&self) -> Result<Vec<u8>, CertificateError> {
        let Some(path) = &self.authority else { return Ok(Vec::new()) };
        // Keep only the certificates, because a private key in the file must not appear in public objects.
        Ok(chain(path, &read(path)?)?.iter().flat_map(|certificate| to_pem(certificate)).collect())
    }

    fn read(&self) -> Result<Pair, CertificateError> {
        Ok(Pair { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn certified_key(&self, pair: &Pair) -> Result<CertifiedKey, CertificateError> {
        let chain = chain(&self.certificate, &pair.certificate)?;
        // Omit the parser's error, which may contain parts of the private key.
        let key = PrivateKeyDer::from_pem_slice(&pair.key).map_err(|_| CertificateError::Content {
            path: self.key.clone(),
            problem: "it has no private key as PEM".into(),
        })?;
        let certified = CertifiedKey::from_der(chain, key, &provider());
        certified.map_err(|cause| CertificateError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            cause,
        })
    }
}

impl<P: AsRef<Path>> From<P> for CertificateFiles {
    /// Creates a configuration for the files in a directory. See [`in_directory`](Self::in_directory).
    fn from(directory: P) -> Self {
        Self::in_directory(directory)
    }
}

/// The reason why a certificate cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The operating system cannot read a file.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// The content of a certificate or key file is invalid.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// A description of the problem.
        problem: String,
    },
    /// The certificate and the key do not match, or the type of the key is unknown.
    #[error("{} and {} cannot be used together: {cause}", certificate.display(), key.display())]
    Pair {
        /// The path of the certificate file.
        certificate: PathBuf,
        /// The path of the key file.
        key: PathBuf,
        /// The rustls error.
        cause: rustls::Error,
    },
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, CertificateError> {
    let content = fs::read(path).map_err(|cause| CertificateError::Read { path: path.into(), cause })?;
    Ok(Zeroizing::new(content))
}

fn chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let content = |problem: String| CertificateError::Content { path: path.into(), problem };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|_| content("a certificate is no valid PEM".into()))?;
    if chain.is_empty() { Err(content("it has no certificate as PEM".into())) } else { Ok(chain) }
}

fn to_pem(certificate: &[u8]) -> Vec<u8> {
    const LINE: usize = 64;
    let mut pem = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for line in STANDARD.encode(certificate).as_bytes().chunks(LINE) {
        pem.extend_from_slice(line);
        pem.push(b'\n');
    }
    pem.extend_from_slice(b"-----END CERTIFICATE-----\n");
    pem
}

#[derive(PartialEq)]
struct Pair {
    certificate: Zeroizing<Vec<u8>>,
    key: Zeroizing<Vec<u8>>,
}

pub(crate) struct Current {
    files: CertificateFiles,
    key: RwLock<Arc<CertifiedKey>>,
    /// The file contents at the last read, so that an invalid pair of files is reported only once.
    seen: Mutex<Seen>,
}

#[derive(PartialEq)]
enum Seen {
    Pair(Pair),
    Unreadable,
}

impl Current {
    pub(crate) fn load(files: CertificateFiles) -> Result<Self, CertificateError> {
        let pair = files.read()?;
        let key = files.certified_key(&pair)?;
        Ok(Self { files, key: RwLock::new(Arc::new(key)), seen: Mutex::new(Seen::Pair(pair)) })
    }

    pub(crate) fn period(&self) -> Duration {
        self.files.period
    }

    /// Rereads the files, and returns `true` if new connections will use a new certificate.
    ///
    /// The certificate and the key do not match if Kubernetes replaces the files during the read. After such a
    /// mismatch, the next call of `reload` reads both files again.
    pub(crate) fn reload(&self) -> bool {
        let (loaded, seen) = match self.files.read() {
            Ok(pair) => (self.files.certified_key(&pair), Seen::Pair(pair)),
            Err(error) => (Err(error), Seen::Unreadable),
        };
        let mut last = self.seen.lock();
        if *last == seen {
            return false;
        }
        *last = seen;
        match loaded {
            Ok(key) => {
                let key = Arc::new(key);
                *self.key.write() = key;
                tracing::info!(certificate = %self.files.certificate.display(), "reloaded the certificate for webhooks");
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot reload the certificate for webhooks; the old one stays in use");
                false
            }
        }
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.read().clone())
    }
}

pintle_meta::debug_struct!(Current { files, .. });

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    fn write_pair(directory: &Path) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["a.b.svc".to_owned()]).unwrap().self_signed(&key).unwrap();
        fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
        fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    }

    #[test]
    fn old_certificate_stays_while_the_files_are_invalid() {
        let directory = TempDir::new().unwrap();
        let directory = directory.path();
        write_pair(directory);
        let current = Current::load(directory.into()).unwrap();
        let first = current.key.read().clone();
        let other_key = KeyPair::generate().unwrap().serialize_pem();
        for content in
            [&b""[..], b"\xff", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", other_key.as_bytes()]
        {
            fs::write(directory.join("tls.key"), content).unwrap();
            assert!(!current.reload());
            assert!(Arc::ptr_eq(&first, &current.key.read()));
        }
        fs::remove_file(directory.join("tls.key")).unwrap();
        assert!(!current.reload() && Arc::ptr_eq(&first, &current.key.read()));

        write_pair(directory);
        assert!(current.reload() && !Arc::ptr_eq(&first, &current.key.read()));
        assert!(!current.reload(), "nothing changed since");
    }

    #[test]
    fn secrets_are_not_shown() {
        let directory = TempDir::new().unwrap();
        write_pair(directory.path());
        let current = Current::load(directory.path().into()).unwrap();
        let key = fs::read_to_string(directory.path().join("tls.key")).unwrap();
        let line = key.lines().nth(1).unwrap();
        assert!(!format!("{current:?}").contains(line));
    }
}
