//! A manager's webhooks. Each replica serves the webhooks and registers them in the cluster.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::{CustomResourceDefinition, PACKAGE_VERSION};
use pintle_meta::ApiError;
use pintle_webhook::{CertificateFiles, WebhookServer, WebhookServerError, Webhooks};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Manager;
use super::run::{Waits, set};
use crate::error::OperatorError;
use crate::install::{Installer, LIMIT, order_of};

/// How long in-flight webhook requests may take after the controllers have stopped.
const DRAIN: Duration = Duration::from_secs(5);

pub(super) struct Setup {
    address: SocketAddr,
    files: CertificateFiles,
    webhooks: Webhooks,
}

impl Setup {
    pub(super) fn use_free_port(&mut self) {
        self.address = (Ipv4Addr::LOCALHOST, 0).into();
    }
}

pub(super) struct Served {
    webhooks: Webhooks,
    files: CertificateFiles,
    ca_bundle: Vec<u8>,
    /// The definitions that have a conversion webhook, each with its cluster. The definitions contain the CA certificates.
    converted: Vec<(Cluster, CustomResourceDefinition)>,
    version: Option<String>,
    /// Why the readiness check fails. `None` if the webhooks are registered.
    problem: Waits,
    close: CancellationToken,
    server: AbortOnDropHandle<()>,
    /// A task that returns the time at which the stop began.
    stopped: AbortOnDropHandle<Instant>,
}

impl Manager {
    /// Serves `webhooks` over TLS on `address`. Each replica serves the webhooks, including standbys. `certificate` is
    /// the path of a directory with the files `tls.crt`, `tls.key` and `ca.crt`, such as a mounted cert-manager Secret,
    /// or a [`CertificateFiles`]. The manager reloads changed certificates.
    ///
    /// If the webhooks have an [endpoint](Webhooks::endpoint), the manager registers the webhooks. The manager applies
    /// a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration, both with the manager's name. The manager
    /// also adds the conversion webhooks to the CustomResourceDefinitions that it [installs](Self::install). When
    /// `ca.crt` changes, the manager applies the webhook configurations and the definitions again. From then on, the API
    /// server trusts only the new `ca.crt`, but the other replicas may still serve the old certificate. If the authority
    /// itself is replaced, let `ca.crt` contain the old and the new authority for some minutes. The manager never
    /// deletes a configuration from the cluster, even if the program no longer has any webhooks for the configuration.
    /// The service account needs the verbs `get`, `create` and `patch` for the webhook configurations and the
    /// definitions.
    ///
    /// Definitions in [other clusters](Self::install_in) get the same conversion webhook endpoint. If the endpoint is a
    /// Service, each other cluster needs a Service with the same name. Otherwise, the endpoint must be a URL.
    ///
    /// The configurations contain the program's version, which is the greatest version of the installed definitions. As
    /// for [definitions](Self::install), an older build keeps a newer build's configurations and updates only their
    /// certificates. An older build replaces the configurations only with
    /// [`replace_newer_definitions`](Self::replace_newer_definitions).
    ///
    /// The readiness probe fails until the webhooks are registered. Set `publishNotReadyAddresses: true` in the
    /// webhooks' Service. Without this setting, the manager could never become ready. A manager becomes ready after it
    /// has filled its caches, and filling the caches needs working conversion webhooks.
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
        self.webhooks = Some(Setup { address: address.into(), files: certificate.into(), webhooks });
        self
    }

    /// Starts the webhook server, and adds the conversion webhooks to the CustomResourceDefinitions.
    pub(super) async fn serve_webhooks(&mut self, stop: &CancellationToken) -> Result<Option<Served>, OperatorError> {
        let Some(Setup { address, files, webhooks }) = self.webhooks.take() else { return Ok(None) };
        let ca_bundle = match webhooks.has_endpoint() {
            true => files.read_authority().map_err(WebhookServerError::from)?,
            false => Vec::new(),
        };
        let server = WebhookServer::bind(address, files.clone(), webhooks.clone()).await?;
        let mut converted = Vec::new();
        let own = self.definitions.iter_mut().map(|definition| (&self.cluster, definition));
        let others = self.other_definitions.iter_mut().map(|(cluster, definition)| (&*cluster, definition));
        for (cluster, definition) in own.chain(others) {
            if webhooks.add_conversion(definition, &ca_bundle) {
                converted.push((cluster.clone(), definition.clone()));
            }
        }
        let version = self.package_version();
        let problem = Waits::default();
        set(&problem, Some("waits for the registration".into()));
        let shown = problem.clone();
        self.ready_checks.push((
            "webhooks".into(),
            Arc::new(move || match shown.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                Some(problem) => Err(problem),
                None => Ok(()),
            }),
        ));
        let (close, token) = (CancellationToken::new(), stop.clone());
        let closed = close.clone();
        let server = tokio::spawn(async move { server.run(&closed).await });
        let stopped = tokio::spawn(async move {
            token.cancelled().await;
            Instant::now()
        });
        let (server, stopped) = (AbortOnDropHandle::new(server), AbortOnDropHandle::new(stopped));
        Ok(Some(Served { webhooks, files, ca_bundle, converted, version, problem, close, server, stopped }))
    }
}

impl Manager {
    /// Returns the program's version, which is the greatest version of its definitions.
    fn package_version(&self) -> Option<String> {
        let others = self.other_definitions.iter().map(|(_, definition)| definition);
        let versions = self.definitions.iter().chain(others).filter_map(CustomResourceDefinition::package_version);
        versions.max_by(|one, other| order_of(Some(one), Some(other)).unwrap_or(Ordering::Equal)).map(str::to_owned)
    }
}

impl Served {
    /// Applies the webhook configurations. Returns `false` if a stop was requested, so that the manager must not
    /// continue.
    pub(super) async fn register(
        &self,
        cluster: &Cluster,
        installer: &Installer,
        waits: &Waits,
        stop: &CancellationToken,
    ) -> Result<bool, OperatorError> {
        let waiting = "waits for the registration of the webhooks";
        set(waits, Some(waiting.into()));
        let report = |error: &ApiError| set(waits, Some(format!("{waiting}: {error}")));
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(false),
            applied = apply(&self.webhooks, &self.ca_bundle, cluster, self.version.as_deref(), installer, &report) => applied?,
        }
        set(&self.problem, None);
        Ok(true)
    }

    /// Applies the configurations and definitions again whenever the CA certificates change. Each cluster has its own
    /// task, so an unreachable cluster does not delay the other clusters. Dropping the returned handles aborts the
    /// tasks.
    pub(super) fn keep_registered(&self, own: &Cluster, installer: &Installer) -> Vec<AbortOnDropHandle<()>> {
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
        let tasks = clusters.into_iter().enumerate().map(|(index, (cluster, definitions))| Registration {
            webhooks: self.webhooks.clone(),
            files: self.files.clone(),
            ca_bundle: self.ca_bundle.clone(),
            definitions,
            installer: Installer { awaits_permissions: index > 0, ..installer.clone() },
            is_own: index == 0,
            version: self.version.clone(),
            cluster,
        });
        tasks.map(|registration| AbortOnDropHandle::new(tokio::spawn(registration.keep()))).collect()
    }

    /// Stops the server. Requests in flight may take up to [`DRAIN`], but at most the remaining part of the shutdown
    /// timeout `limit`.
    pub(super) async fn finish(self, limit: Duration) {
        let since = if self.stopped.is_finished() { self.stopped.await.ok() } else { None };
        let left = since.map_or(DRAIN, |since| limit.saturating_sub(since.elapsed()).min(DRAIN));
        self.close.cancel();
        if timeout(left, self.server).await.is_err() {
            tracing::warn!("webhooks were still in flight at the end of the stop");
        }
    }
}

struct Registration {
    webhooks: Webhooks,
    files: CertificateFiles,
    cluster: Cluster,
    /// Whether this is the manager's own cluster. Only the own cluster has the webhook configurations.
    is_own: bool,
    version: Option<String>,
    /// The registered CA certificates.
    ca_bundle: Vec<u8>,
    definitions: Vec<CustomResourceDefinition>,
    installer: Installer,
}

impl Registration {
    async fn keep(mut self) {
        loop {
            sleep(self.files.period).await;
            let new = match self.files.read_authority() {
                Ok(new) if new != self.ca_bundle => new,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the authority of the webhooks; the old one stays registered");
                    continue;
                }
            };
            let server = self.cluster.config().server.clone();
            match timeout(LIMIT, self.register(&new)).await {
                Ok(Ok(())) => {
                    tracing::info!(server, "registered the new authority of the webhooks");
                    self.ca_bundle = new;
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
        match self.is_own {
            true => apply(webhooks, ca_bundle, cluster, version.as_deref(), installer, &|_| ()).await,
            false => Ok(()),
        }
    }
}

async fn apply(
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
