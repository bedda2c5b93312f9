//! Keeps the webhooks of a manager registered with the current CA certificates.

use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::{CustomResourceDefinition, PACKAGE_VERSION};
use pintle_meta::ApiError;
use pintle_webhook::{CertificateFiles, Webhooks};
use tokio::time::{sleep, timeout};

use crate::error::OperatorError;
use crate::install::{Installer, LIMIT};

/// The minimum interval between two reads of the file.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// The webhooks of a manager in one cluster, after the installation.
pub(super) struct Registered {
    pub(super) webhooks: Webhooks,
    pub(super) authority: Authority,
    pub(super) cluster: Cluster,
    /// Whether the cluster is the manager's own cluster. Only the manager's own cluster contains its webhook
    /// configurations.
    pub(super) is_own: bool,
    pub(super) version: Option<String>,
    pub(super) definitions: Vec<CustomResourceDefinition>,
    pub(super) installer: Installer,
}

impl Registered {
    /// Registers the webhooks again after each change of the CA certificates, and never returns.
    pub(super) async fn keep(mut self) {
        loop {
            let new = self.authority.changed().await;
            let server = self.cluster.config().server.clone();
            match timeout(LIMIT, self.register(&new)).await {
                Ok(Ok(())) => {
                    tracing::info!(server, "registered the new authority of the webhooks");
                    self.authority.registered = new;
                }
                Err(_) => {
                    tracing::warn!(server, within = ?LIMIT, "cannot register the new authority of the webhooks; retrying")
                }
                Ok(Err(error)) => {
                    tracing::warn!(server, %error, "cannot register the new authority of the webhooks; retrying")
                }
            }
        }
    }

    async fn register(&mut self, ca_bundle: &[u8]) -> Result<(), OperatorError> {
        for definition in &mut self.definitions {
            self.webhooks.add_conversion(definition, ca_bundle);
            self.installer.install(&self.cluster, definition, |_| ()).await?;
        }
        let Self { webhooks, cluster, version, installer, .. } = self;
        if self.is_own {
            apply(webhooks, ca_bundle, cluster, version.as_deref(), installer, &|_| ()).await
        } else {
            Ok(())
        }
    }
}

pub(super) struct Authority {
    files: CertificateFiles,
    registered: Vec<u8>,
    problem: Option<String>,
}

impl Authority {
    pub(super) fn new(files: CertificateFiles, registered: Vec<u8>) -> Self {
        Self { files, registered, problem: None }
    }

    /// Waits until the file contains other certificates than the registered ones, and returns them.
    async fn changed(&mut self) -> Vec<u8> {
        loop {
            sleep(self.files.period.max(MIN_PERIOD)).await;
            let files = self.files.clone();
            // Read the file in a blocking task, because file system accesses can block.
            let read = tokio::task::spawn_blocking(move || files.read_authority().map_err(|error| error.to_string()));
            match read.await.unwrap_or_else(|panic| Err(panic.to_string())) {
                Ok(new) => {
                    self.problem = None;
                    if new != self.registered {
                        return new;
                    }
                }
                Err(error) => self.warn(error),
            }
        }
    }

    /// Logs a problem unless the last read had the same problem.
    fn warn(&mut self, error: String) {
        if self.problem.as_ref() != Some(&error) {
            tracing::warn!(error, "cannot read the authority of the webhooks; the old one stays registered");
            self.problem = Some(error);
        }
    }
}

pub(super) async fn apply(
    webhooks: &Webhooks,
    ca_bundle: &[u8],
    cluster: &Cluster,
    version: Option<&str>,
    installer: &Installer,
    report: &(impl Fn(&ApiError) + Sync),
) -> Result<(), OperatorError> {
    let name = &installer.field_manager;
    let annotation = version.map(|version| (PACKAGE_VERSION.into(), version.to_owned()));
    if let Some(mut configuration) = webhooks.mutating_configuration(name, ca_bundle) {
        configuration.metadata.annotations.extend(annotation.clone());
        installer.configure(cluster, &configuration, report).await?;
    }
    if let Some(mut configuration) = webhooks.validating_configuration(name, ca_bundle) {
        configuration.metadata.annotations.extend(annotation);
        installer.configure(cluster, &configuration, report).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tempfile::TempDir;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    struct Count(Arc<AtomicUsize>);

    impl Subscriber for Count {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().ends_with("manager::registered")
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// The paused clock advances only while all tasks are idle. If the task read the file in a loop without a delay, the
    /// test would never end.
    #[tokio::test(start_paused = true)]
    async fn unreadable_authority_is_reported_once() {
        let warnings = Arc::new(AtomicUsize::new(0));
        let _guard = tracing::subscriber::set_default(Count(warnings.clone()));
        let directory = TempDir::new().unwrap();
        let files = CertificateFiles { period: Duration::ZERO, ..CertificateFiles::in_directory(directory.path()) };
        let mut authority = Authority::new(files, Vec::new());
        let changed = tokio::spawn(async move { authority.changed().await });
        sleep(50 * MIN_PERIOD).await;
        assert_eq!(warnings.load(Ordering::Relaxed), 1);
        let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().cert.pem();
        fs::write(directory.path().join("ca.crt"), &certificate).unwrap();
        assert_eq!(changed.await.unwrap().iter().filter(|byte| **byte == b'-').count(), 20);
    }
}
