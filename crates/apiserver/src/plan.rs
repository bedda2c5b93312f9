//! What a controller would do to a cluster, without doing it.

mod diff;
mod show;

use std::error::Error;

use bytes::Bytes;
pub use diff::PlannedField;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
pub use show::{PlanAction, PlannedChange, PlannedChanges};
use tower_service::Service;

use crate::config::{ApiServerConfig, Controllers};
use crate::live::Upstream;
use crate::server::{ApiServer, StartError};

/// A server laid over a live cluster: who reads from it reads the cluster, and what is written stays in it. So a controller can run as
/// it is, and [what it would do](Self::changes) be shown before it does: like a plan before an apply.
///
/// ```text
///  controller ──▶ the plan's server ──── reads, never a write ────▶ the cluster
///                  writes stay here: defaults, definitions' rules, server-side apply, finalizers, garbage collection
/// ```
///
/// It listens on a port of loopback as any [`ApiServer`] does, so that controllers in any language can be pointed to it by its
/// [kubeconfig](ApiServer::kubeconfig), and those of this process [without a socket](ApiServer::in_process). What is in the cluster is
/// reached with the rights of the service that it was started with; whoever reaches the port reads with those, as with `kubectl proxy`.
///
/// # What is read
///
/// - An object is read from the cluster each time it is asked for, until it is written here.
/// - A collection is listed the first time that somebody lists, watches or creates in it (in that namespace, or in all of them), and
///   followed by a watch from then on. So a list shows the cluster as it is, but for what was written here. Creating takes the right to
///   list.
/// - Objects keep the uids and resource versions of the cluster until they are written here; their versions here go on from those.
/// - Custom resource definitions are taken over at the start, and followed. Discovery is the cluster's own, until definitions are
///   written here. Logs, reviews of who may do what, and resources that this server does not know, such as metrics, the cluster answers;
///   of that the server's audit and faults know nothing.
/// - A question of the cluster waits a minute for its answer. What cannot be followed is asked for again after a second, and then less and
///   less often, once a minute at least; until then it is shown as it was.
///
/// # What is planned
///
/// An object that was written here is from then on what it is here, whatever becomes of it in the cluster; a change says
/// [if anything did](PlannedChange::moved). What is told is the difference between the object in the cluster at the time of the first
/// write and the object here, without what servers fill in (versions, managed fields, generation), and without Events.
///
/// # What a plan does not know
///
/// - Admission webhooks and admission policies of the cluster are not asked, conversion webhooks neither: objects are read in the version
///   in which they are stored, and shown in others as they are. Quotas count only where somebody has read them. That the writer may write
///   is not asked.
/// - No other controller reacts: a Deployment makes no pods here, a claim binds no volume.
/// - The garbage collector follows owner references as far as objects have been read: what nobody has listed is not known to depend on
///   what is deleted. A namespace that is deleted is emptied of what has been read from it.
/// - What acts on the cluster in other ways than by objects is refused, or answered as by nodes without a kubelet: exec, attach, port
///   forwarding, proxies of pods, services and nodes. A GET of an aggregated API is taken for a read, whatever it does there.
/// - Tokens of service accounts are signed by the plan, and nobody in the cluster knows them. Who acts as somebody else is held to the roles
///   that were read. What the cluster answers itself, such as reviews, it answers as to the client that the plan was started with; to one
///   that acts as somebody else, as to that, if the cluster lets the plan's client act so.
/// - It forgets all when it ends, and holds in memory each collection that was asked for.
/// - Names that are generated, and addresses and ports that are allocated, are the plan's own: the cluster gives others.
/// - A Lease that the real controller holds in the cluster is held here, too: the controller to be planned for has to do without leader
///   election, or use another lease.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bytes::Bytes;
/// use http::Request;
/// use http_body_util::Full;
/// use pintle_apiserver::{ApiServer, ApiServerConfig, Plan, PlanAction};
/// use tower_service::Service;
///
/// // In the place of a real one; `pintle::Cluster::plan` makes a plan for any cluster.
/// let live = ApiServer::start(ApiServerConfig::default()).await?;
/// live.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}")?;
///
/// let plan = Plan::start(live.in_process(), ApiServerConfig::default()).await?;
/// let patch = Request::patch("/api/v1/namespaces/default/configmaps/settings")
///     .header("content-type", "application/merge-patch+json")
///     .body(Full::new(Bytes::from(r#"{"data": {"colour": "green"}}"#)))?;
/// assert!(plan.server().in_process().call(patch).await?.status().is_success());
///
/// let changes = plan.changes().await;
/// assert_eq!(changes.iter().next().map(|change| change.action), Some(PlanAction::Update));
/// assert_eq!(
///     changes.to_string(),
///     "~ v1 ConfigMap default/settings\n    ~ data.colour: \"blue\" -> \"green\"\n0 to create, 1 to change, 0 to delete\n"
/// );
/// assert!(live.audit().writes().is_empty());
/// # plan.shutdown().await;
/// # live.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Plan {
    server: ApiServer,
}

impl Plan {
    /// Lays a server over a cluster, and takes its definitions over. `live` sends requests to the cluster, whose paths begin at its root;
    /// credentials are for it to add. Nothing but GET and HEAD is sent, and the POST of reviews, which change nothing.
    ///
    /// `config` is that of the server. Cluster roles are aggregated by the cluster whatever it says, and versions go on from those of the
    /// cluster. With a [file of tokens](ApiServerConfig::token_auth_file), the cluster is read for members of `system:masters` alone;
    /// others are shown what is here already, as far as roles that are here let them.
    ///
    /// # Errors
    ///
    /// The server does not start, or the definitions of the cluster cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future starts nothing that lasts.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn start<S, B>(live: S, config: ApiServerConfig) -> Result<Self, PlanError>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        // Roles are aggregated there, from all of them.
        let controllers = Controllers { roles: false, ..config.controllers };
        let config = ApiServerConfig { controllers, ..config };
        let server =
            ApiServer::start_with_upstream(config, Some(Upstream::new(live))).await.map_err(PlanError::Server)?;
        if let Some(live) = server.live() {
            live.begin().await.map_err(|refusal| PlanError::Cluster { why: refusal.message() })?;
        }
        server.settle().await;
        Ok(Self { server })
    }

    /// The server that the controller is to use: its URL, its kubeconfig, its audit, its faults.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// What would be done to the cluster, by what was written so far and what follows from it, in the order in which it was begun.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn changes(&self) -> PlannedChanges {
        self.server.settle().await;
        let registry = self.server.registry();
        let kinds = registry.kinds();
        registry.db.local_writes().iter().filter_map(|written| PlannedChange::of(&kinds, written)).collect()
    }

    /// Ends the server. What was planned is gone with it. If the future is dropped, the server ends all the same.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The plan's own server does not start.
    #[error("the plan's server does not start: {0}")]
    Server(#[source] StartError),
    /// The cluster's custom resource definitions cannot be read.
    #[error("the cluster's definitions cannot be read: {why}")]
    Cluster {
        /// What the cluster, or the way to it, says.
        why: String,
    },
}
