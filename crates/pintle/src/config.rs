//! How a cluster is configured.

use std::sync::Arc;

use pintle_meta::ClientConfig;
use pintle_metrics::Provider;
use pintle_restreq::TransportLayer;

/// How a [`Cluster`](crate::Cluster) is reached, and who is told of the work of what it makes. A [`ClientConfig`] is one that
/// tells nobody.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle::metrics::InMemoryProvider;
/// use pintle::prelude::*;
///
/// let memory = InMemoryProvider::new();
/// let client = Some(ClientConfig::new("https://10.0.0.1:6443"));
/// let metrics: Option<Arc<dyn Provider>> = Some(Arc::new(memory.clone()));
/// let cluster = Cluster::connect(ClusterConfig { client, metrics, ..ClusterConfig::default() })?;
/// # Ok::<(), pintle::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClusterConfig {
    /// How to reach it. None, the default: as the surroundings say, by the kubeconfig of `KUBECONFIG` or the home directory, or
    /// else by the service account of the pod that the program runs in.
    pub client: Option<ClientConfig>,
    /// Who is told of the work of all that the cluster makes, for as long as each of it is there. None, the default: nobody.
    ///
    /// | what | names |
    /// |---|---|
    /// | [clients](pintle_restreq::RestClientConfig::metrics), those of electors included | `rest_client_*` |
    /// | [informers](pintle_informer::InformerConfig::metrics) | `reflector_*`, `informer_*` |
    /// | [electors](pintle_leaderelect::LeaderElectionConfig::metrics), unless their configuration names another provider | `leader_election_*` |
    /// | [the writer of Events](pintle_events::BroadcasterConfig::metrics) | `event_broadcaster_*` |
    ///
    /// A controller is made without a cluster, and so its [own configuration](pintle_controller::ControllerConfig::metrics) says
    /// who is told; so it is for an informer that is made by hand with the [factory](crate::Cluster::informers).
    pub metrics: Option<Arc<dyn Provider>>,
    /// What all clients, those of electors included, send their requests through. None, the default: nothing but the connections. An
    /// embedded server needs [no socket](TransportLayer::in_place):
    ///
    /// ```
    /// # #[cfg(feature = "apiserver")]
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use pintle::apiserver::{ApiServer, ApiServerConfig};
    /// use pintle::prelude::*;
    /// use pintle::restreq::TransportLayer;
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
