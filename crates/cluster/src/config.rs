//! Cluster configuration.

use std::sync::Arc;

use pintle_meta::ClientConfig;
use pintle_metrics::Provider;
use pintle_restreq::TransportLayer;

/// A [`Cluster`](crate::Cluster)'s connection settings, metrics provider and transport layer. A [`ClientConfig`] can be
/// converted to a `ClusterConfig`, which then has no metrics provider and no transport layer.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_cluster::{Cluster, ClusterConfig};
/// use pintle_meta::ClientConfig;
/// use pintle_metrics::{InMemoryProvider, Provider};
///
/// let memory = InMemoryProvider::new();
/// let client = Some(ClientConfig::new("https://10.0.0.1:6443"));
/// let metrics: Option<Arc<dyn Provider>> = Some(Arc::new(memory.clone()));
/// let cluster = Cluster::connect(ClusterConfig { client, metrics, ..ClusterConfig::default() })?;
/// # Ok::<(), pintle_cluster::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClusterConfig {
    /// The client configuration. By default (`None`), the cluster uses the kubeconfig from `KUBECONFIG` or the home directory. Without a
    /// kubeconfig, the cluster uses the pod's service account.
    pub client: Option<ClientConfig>,
    /// The metrics provider for all components that the cluster creates, or `None` (the default) to disable metrics. Dropping a component
    /// removes its metric series.
    ///
    /// | component | metrics |
    /// |---|---|
    /// | [clients](pintle_restreq::RestClientConfig::metrics), including the clients of electors | `rest_client_*` |
    /// | [informers](pintle_informer::InformerConfig::metrics) | `reflector_*`, `informer_*` |
    /// | [electors](pintle_leaderelect::LeaderElectionConfig::metrics), unless their configuration sets another provider | `leader_election_*` |
    /// | [the Event writer](pintle_events::BroadcasterConfig::metrics) | `event_broadcaster_*` |
    ///
    /// The cluster does not set the metrics provider of controllers. To set it, use the [controller
    /// configuration](pintle_controller::ControllerConfig::metrics). For an informer from the [factory](crate::Cluster::informers), set the
    /// metrics provider in the informer's configuration.
    pub metrics: Option<Arc<dyn Provider>>,
    /// A layer that wraps the transport of all clients, including the electors' clients. The default is `None`, which means no additional
    /// layer. With [`TransportLayer::in_place`], clients can reach an embedded server without a socket:
    ///
    /// ```
    /// # #[cfg(feature = "apiserver")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pintle_apiserver::{ApiServer, ApiServerConfig};
    /// use pintle_cluster::{Cluster, ClusterConfig};
    /// use pintle_restreq::TransportLayer;
    ///
    /// let server = ApiServer::start(ApiServerConfig::default()).await?;
    /// let transport = Some(TransportLayer::in_place(server.in_process()));
    /// let client = Some(server.client_config());
    /// let cluster = Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() })?;
    /// assert!(cluster.client().get().abs_path(["/readyz"]).send().await?.status().is_success());
    /// # cluster.shutdown().await;
    /// # server.shutdown().await;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "apiserver"))]
    /// # fn main() {}
    /// ```
    pub transport: Option<TransportLayer>,
}

impl From<ClientConfig> for ClusterConfig {
    fn from(client: ClientConfig) -> Self {
        Self { client: Some(client), ..Self::default() }
    }
}
