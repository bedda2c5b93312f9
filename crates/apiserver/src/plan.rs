//! Plans. A plan lets a controller run against a live cluster without changing the cluster. The plan reports the changes that the
//! controller would make.

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

/// A dry run of a controller against a live cluster. A plan is an API server that reads from the cluster and never sends a write to it.
///
/// The controller runs unmodified. [`changes`](Self::changes) then lists the changes that the controller would make, like `terraform plan`
/// before `terraform apply`.
///
/// ```text
///  controller ──▶ the plan's server ──── reads, never a write ────▶ the cluster
///                  writes stay here: defaults, definitions' rules, server-side apply, finalizers, garbage collection
/// ```
///
/// The server listens on a loopback port, like every [`ApiServer`]. Controllers in any language can use its
/// [kubeconfig](ApiServer::kubeconfig). Controllers in this process can use it [without a socket](ApiServer::in_process).
///
/// The plan reads the cluster with the credentials of the service that was passed to [`start`](Self::start). As with `kubectl proxy`, every
/// client that can connect to the port reads with these credentials.
///
/// # Reads
///
/// - Each GET reads the object from the cluster, until the object is written in the plan or its collection is watched.
/// - The first list, watch or create in a collection lists this collection in the cluster. A collection is one namespace, or all
///   namespaces. After the list, the plan watches the collection. Therefore, a list shows the current state of the cluster, except for the
///   objects written in the plan. A create needs the permission to list, because it also lists the collection.
/// - Objects keep their uid and resourceVersion from the cluster until they are written in the plan. The resource versions of writes in the
///   plan continue from the versions of the cluster.
/// - The plan loads custom resource definitions at the start and watches them. Discovery documents come from the cluster until a definition
///   is written in the plan.
/// - Requests for logs, access reviews, and resources that this server does not serve, such as metrics, are answered by the cluster. The
///   server's audit does not contain these requests, and the server's fault rules do not apply to them.
/// - A request to the cluster times out after a minute. A watch that fails is retried after a second, and later with growing pauses of at
///   most a minute. Until the watch works again, the plan shows the last known state.
///
/// # Changes
///
/// After an object was written in the plan, it no longer follows the cluster. [`PlannedChange::moved`] is true if the cluster's object has
/// changed since the object was first written in the plan. A change is the difference between two states of an object: its state in the
/// cluster at the time of the first write in the plan, and its state in the plan. Changes do not include Events. Changes also do not
/// include fields that servers set: resource versions, managed fields and the generation.
///
/// # Limits
///
/// - Admission webhooks, admission policies and conversion webhooks of the cluster are not called. The plan reads objects in their storage
///   version. If a request names another version, the plan returns the same object without a conversion. Quotas have an effect only if the
///   plan has read them. The plan does not check whether the writer is authorized to write.
/// - The cluster's controllers do not see the plan. For example, a Deployment creates no pods in the plan, and a PersistentVolumeClaim is
///   not bound.
/// - The garbage collector only sees objects that the plan has read. The garbage collector does not find dependents in collections that
///   were never listed. If a namespace is deleted, the plan deletes only objects in this namespace that the plan has read.
/// - Exec, attach, port forwarding, and proxies of pods, services and nodes do not reach the cluster. The plan rejects these requests, or
///   they fail as if the kubelet were unreachable. A GET of an aggregated API is considered a read and forwarded, even if it has side
///   effects there.
/// - The plan signs the tokens of service accounts with a separate key, and the cluster does not accept these tokens. An impersonated user
///   has only the permissions of roles that the plan has read. The cluster answers forwarded requests, such as reviews, for the user of the
///   plan's client. If a forwarded request impersonates a user, the cluster answers for this user if the plan's client may impersonate.
/// - All state of the plan is lost when the plan ends. All requested collections are kept in memory.
/// - Generated names, allocated addresses and allocated ports differ from the values that the cluster would choose.
/// - If the deployed controller holds a Lease in the cluster, the Lease is also held in the plan. Disable leader election in the planned
///   controller, or use another lease.
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
/// // This server has the role of a real cluster. `pintle::Cluster::plan` creates a plan for any cluster.
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
    /// Starts a server for the plan and loads the cluster's custom resource definitions.
    ///
    /// The service `live` sends requests to the cluster. The paths of the requests begin at the root of the cluster's server, and `live`
    /// must add credentials. The plan sends only GET and HEAD requests, and POST requests for reviews. None of these requests changes
    /// anything.
    ///
    /// `config` configures the plan's server. [`Controllers::roles`] is ignored, because the cluster itself aggregates its cluster roles.
    /// Resource versions continue from the versions of the cluster. With a [token file](ApiServerConfig::token_auth_file), the plan reads
    /// the cluster only for members of `system:masters`. Other users see only objects that the plan has already loaded and that the loaded
    /// roles permit them to read.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not start, or if the cluster's definitions cannot be read.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all tasks of the server stop.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn start<S, B>(live: S, config: ApiServerConfig) -> Result<Self, PlanError>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        // Do not aggregate cluster roles. The cluster has already aggregated its cluster roles, and this server has not read all of them.
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

    /// Returns the API server to which the controller must connect. The server provides the URL, the kubeconfig, the audit and the fault
    /// rules.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the changes that the controller would make to the cluster. The changes include all consequences that its writes have had so
    /// far. The changes are in the order of the first write to each object.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn changes(&self) -> PlannedChanges {
        self.server.settle().await;
        let registry = self.server.registry();
        let kinds = registry.kinds();
        registry.db.local_writes().iter().filter_map(|written| PlannedChange::of(&kinds, written)).collect()
    }

    /// Shuts the server down and discards the plan. The server also shuts down if the future is dropped.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// An error that prevents the start of a plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The API server of the plan cannot start.
    #[error("the plan's server cannot start: {0}")]
    Server(#[source] StartError),
    /// The plan cannot read the custom resource definitions of the cluster.
    #[error("cannot read the cluster's definitions: {why}")]
    Cluster {
        /// The error message from the cluster, or from the connection to the cluster.
        why: String,
    },
}
