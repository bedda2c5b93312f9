//! The webhooks of a manager, which each replica serves and registers in the cluster.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::ApiError;
use pintle_webhook::{CertificateFiles, WebhookServer, WebhookServerError, Webhooks};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Manager;
use super::definitions::{Installations, Progress, Registration, Reporter};
use super::registered::{Authority, Registered, apply};
use super::waits::{Waits, set};
use crate::error::OperatorError;
use crate::install::{Installer, order_of};

/// The timeout for in-flight webhook requests after the controllers have stopped.
const DRAIN: Duration = Duration::from_secs(5);

pub(super) struct Setup {
    /// The address on which the manager serves the webhooks. `None` in the test kit, which needs no server.
    address: Option<SocketAddr>,
    files: CertificateFiles,
    webhooks: Webhooks,
    /// The reason why the readiness check fails, or `None` after the webhooks are registered.
    problem: Waits,
}

impl Setup {
    pub(super) fn use_free_port(&mut self) {
        self.address = Some((Ipv4Addr::LOCALHOST, 0).into());
    }
}

pub(super) struct Served {
    webhooks: Webhooks,
    files: CertificateFiles,
    ca_bundle: Vec<u8>,
    /// The definitions with a conversion webhook, and their clusters. The CA certificates are part of the definitions.
    converted: Vec<(Cluster, CustomResourceDefinition)>,
    version: Option<String>,
    problem: Waits,
    close: CancellationToken,
    server: AbortOnDropHandle<()>,
    /// Returns the time of the stop request.
    stopped: AbortOnDropHandle<Instant>,
}

impl Manager {
    /// Serves `webhooks` over TLS on `address`. Every replica, including a standby, serves the webhooks. `certificate`
    /// is a [`CertificateFiles`] or the path of a directory with the files `tls.crt`, `tls.key` and `ca.crt`, such as a
    /// mounted cert-manager Secret. The manager reloads changed certificates.
    ///
    /// If the webhooks have an [endpoint](Webhooks::endpoint), the manager registers them. The manager applies a
    /// ValidatingWebhookConfiguration and a MutatingWebhookConfiguration, both with the manager's name. The manager
    /// also adds conversion webhooks to the CustomResourceDefinitions that it [installs](Self::install). When `ca.crt`
    /// changes, the manager reapplies the webhook configurations and the definitions. The API server then trusts only
    /// the new `ca.crt`, although other replicas may still use the old certificate. To replace the certificate
    /// authority, let `ca.crt` contain both the old and the new authority for a few minutes. The manager never deletes
    /// a configuration, even if the program no longer contains webhooks for it. The service account needs the verbs
    /// `get`, `create` and `patch` for webhook configurations and definitions.
    ///
    /// Definitions that the manager installs in [other clusters](Self::install_in) use the same conversion webhook. If the endpoint is
    /// a Service, a Service with the same name must exist in each other cluster. If the endpoint is a URL, no Service
    /// is required.
    ///
    /// The configurations contain the program's version, which is the highest version of its definitions. As with
    /// [definitions](Self::install), an older build keeps the configurations of a newer build and only updates their
    /// certificates if both builds have the same endpoint. To let an older build replace the configurations, use
    /// [`replace_newer_definitions`](Self::replace_newer_definitions).
    ///
    /// The readiness probe fails until the webhooks are registered. Set `publishNotReadyAddresses: true` in the Service
    /// of the webhooks. Without `publishNotReadyAddresses`, the manager could never become ready. The manager becomes
    /// ready after its caches are filled, and filling the caches requires working conversion webhooks.
    ///
    /// In a `Kit` of `pintle-testkit`, the embedded server calls the webhooks without a socket. The manager then ignores
    /// `address` and `certificate`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::ObjectMeta;
    /// use pintle_operator::Manager;
    /// use pintle_webhook::{Admission, Denial, Endpoint, Webhook, Webhooks};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Website {
    ///     metadata: ObjectMeta,
    ///     domain: String,
    /// }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// async fn lower_case(request: Admission<Website>) -> Result<Website, Denial> {
    ///     let mut site = request.object;
    ///     site.domain.make_ascii_lowercase();
    ///     Ok(site)
    /// }
    ///
    /// fn with_webhooks(manager: Manager) -> Manager {
    ///     let endpoint = Endpoint::service("website-system", "website-controller");
    ///     let webhooks = Webhooks::new().add(Webhook::mutate(lower_case)).endpoint(endpoint);
    ///     manager.webhooks(([0, 0, 0, 0], 9443), "/etc/webhook-certificate", webhooks)
    /// }
    /// ```
    pub fn webhooks(
        mut self,
        address: impl Into<SocketAddr>,
        certificate: impl Into<CertificateFiles>,
        webhooks: Webhooks,
    ) -> Self {
        let problem = Waits::default();
        set(&problem, Some("waits for the registration".into()));
        self.webhooks = Some(Setup { address: Some(address.into()), files: certificate.into(), webhooks, problem });
        self
    }

    /// Returns the webhooks, and a function that returns whether they are registered. The manager then registers the
    /// webhooks without serving them, and reads no certificate. For the test kit.
    #[doc(hidden)]
    pub fn unserved_webhooks(&mut self) -> Option<(Webhooks, impl Fn() -> bool + Send + Sync + use<>)> {
        let setup = self.webhooks.as_mut()?;
        (setup.address, setup.files.authority) = (None, None);
        let problem = setup.problem.clone();
        Some((setup.webhooks.clone(), move || problem.lock().is_none()))
    }

    /// Starts the webhook server and adds the conversion webhooks to the CustomResourceDefinitions.
    pub(super) async fn serve_webhooks(&mut self, stop: &CancellationToken) -> Result<Option<Served>, OperatorError> {
        let Some(Setup { address, files, webhooks, problem }) = self.webhooks.take() else { return Ok(None) };
        let ca_bundle = if webhooks.has_endpoint() {
            files.read_authority().map_err(WebhookServerError::from)?
        } else {
            Vec::new()
        };
        let server = match address {
            Some(address) => Some(WebhookServer::bind(address, files.clone(), webhooks.clone()).await?),
            None => None,
        };
        let mut converted = Vec::new();
        let own = self.definitions.iter_mut().map(|definition| (&self.cluster, definition));
        let others = self.other_definitions.iter_mut().map(|(cluster, definition)| (&*cluster, definition));
        for (cluster, definition) in own.chain(others) {
            if webhooks.add_conversion(definition, &ca_bundle) {
                converted.push((cluster.clone(), definition.clone()));
            }
        }
        let version = self.package_version();
        let shown = problem.clone();
        self.ready_checks.push((
            "webhooks".into(),
            Arc::new(move || match shown.lock().clone() {
                Some(problem) => Err(problem),
                None => Ok(()),
            }),
        ));
        let (close, token) = (CancellationToken::new(), stop.clone());
        let closed = close.clone();
        let server = tokio::spawn(async move {
            match server {
                Some(server) => server.run(&closed).await,
                None => closed.cancelled().await,
            }
        });
        let stopped = tokio::spawn(async move {
            token.cancelled().await;
            Instant::now()
        });
        let (server, stopped) = (AbortOnDropHandle::new(server), AbortOnDropHandle::new(stopped));
        Ok(Some(Served { webhooks, files, ca_bundle, converted, version, problem, close, server, stopped }))
    }
}

impl Manager {
    /// Returns the program's version, which is the highest version of its definitions.
    fn package_version(&self) -> Option<String> {
        let others = self.other_definitions.iter().map(|(_, definition)| definition);
        let versions = self.definitions.iter().chain(others).filter_map(CustomResourceDefinition::package_version);
        versions.max_by(|one, other| order_of(Some(one), Some(other)).unwrap_or(Ordering::Equal)).map(str::to_owned)
    }
}

impl Served {
    /// Returns the step that applies the webhook configurations.
    pub(super) fn registration(&self, cluster: &Cluster, installer: &Installer) -> Registration {
        let waiting = "waits for the registration of the webhooks";
        let (webhooks, ca_bundle, version) = (self.webhooks.clone(), self.ca_bundle.clone(), self.version.clone());
        let (cluster, installer, problem) = (cluster.clone(), installer.clone(), self.problem.clone());
        let run = move |reporter: Reporter| async move {
            let report = |error: &ApiError| reporter.set(Progress::Fails(format!("{waiting}: {error}")));
            apply(&webhooks, &ca_bundle, &cluster, version.as_deref(), &installer, &report).await?;
            set(&problem, None);
            Ok(())
        };
        Registration { waiting: waiting.into(), run: Box::new(|reporter| Box::pin(run(reporter))) }
    }

    /// Reapplies the configurations and definitions when the CA certificates change. Each cluster has a separate task,
    /// so that an unreachable cluster does not delay the other clusters. A task starts after the installation in its
    /// cluster, which could otherwise restore the old certificates. Dropping the returned handles aborts the tasks.
    pub(super) fn keep_registered(
        &self,
        own: &Cluster,
        installer: &Installer,
        installations: &Installations,
    ) -> Vec<AbortOnDropHandle<()>> {
        if !self.webhooks.has_endpoint() || self.files.authority.is_none() {
            return Vec::new();
        }
        let mut clusters = vec![(own.clone(), Vec::new())];
        for (cluster, definition) in &self.converted {
            match clusters.iter_mut().find(|(known, _)| known.is_same(cluster)) {
                Some((_, definitions)) => definitions.push(definition.clone()),
                None => clusters.push((cluster.clone(), vec![definition.clone()])),
            }
        }
        let tasks = clusters.into_iter().enumerate().map(|(index, (cluster, definitions))| {
            let installed = installations.done(&cluster);
            let registered = Registered {
                webhooks: self.webhooks.clone(),
                authority: Authority::new(self.files.clone(), self.ca_bundle.clone()),
                definitions,
                installer: Installer { awaits_permissions: index > 0, ..installer.clone() },
                is_own: index == 0,
                version: self.version.clone(),
                cluster,
            };
            AbortOnDropHandle::new(tokio::spawn(async move {
                installed.await;
                registered.keep().await;
            }))
        });
        tasks.collect()
    }

    /// Stops the server. In-flight requests may take up to [`DRAIN`], but at most the remaining shutdown timeout.
    /// `limit` is the full shutdown timeout.
    pub(super) async fn finish(self, limit: Duration) {
        let since = if self.stopped.is_finished() { self.stopped.await.ok() } else { None };
        let left = since.map_or(DRAIN, |since| limit.saturating_sub(since.elapsed()).min(DRAIN));
        self.close.cancel();
        if timeout(left, self.server).await.is_err() {
            tracing::warn!("webhooks were still in flight at the end of the stop");
        }
    }
}
