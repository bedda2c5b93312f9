//! Plans, which report the changes that a controller would make to a live cluster, without changing the cluster.

mod show;

use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
pub use pintle_apimachinery::object_diff::PlannedField;
pub use show::{PlanAction, PlannedChange, PlannedChanges};
use tower_service::Service;

use crate::config::{ApiServerConfig, Controllers};
use crate::live::Upstream;
use crate::server::{ApiServer, StartError};

/// A dry run of a controller against a live cluster. A plan is an API server that reads from the cluster and never
/// writes to it.
///
/// The controller runs without modifications. [`changes`](Self::changes) returns the changes that the controller would
/// have made so far, like `terraform plan` before `terraform apply`.
///
/// ```text
///  controller ──▶ the plan's server ──── reads, never a write ────▶ the cluster
///                  writes stay here: defaults, definitions' rules, server-side apply, finalizers, garbage collection
/// ```
///
/// Like every [`ApiServer`], the plan's server listens on a loopback port. Controllers in any language can connect to
/// the server with its [kubeconfig](ApiServer::kubeconfig). A controller in the same process can use the plan's server
/// [without a socket](ApiServer::in_process).
///
/// The plan reads the cluster with the credentials of the service passed to [`start`](Self::start). Every client that
/// can connect to the port reads the cluster with these credentials, as with `kubectl proxy`. The plan's server rejects
/// requests that may come from [web pages](crate::ApiServerConfig::token_auth_file).
///
/// # Reads
///
/// - Each GET request reads the object from the cluster again, until the object is written in the plan or its
///   collection is watched.
/// - A collection consists of a resource's objects in one namespace or in all namespaces. At the first list, watch or
///   create in a collection, the plan lists the collection in the cluster, and then watches it. Lists of a watched
///   collection return the current objects of the cluster, except for objects that were written in the plan. A create
///   request therefore needs permission to list the collection in the cluster.
/// - An object keeps its uid and resourceVersion from the cluster until it is written in the plan. Writes in the plan
///   get higher resource versions than all objects of the cluster.
/// - At startup, the plan loads and watches all custom resource definitions. Discovery
///   documents come from the cluster until a custom resource definition is written in the plan.
/// - The cluster answers requests for logs, access reviews, and resources that the plan's server does not serve, such
///   as metrics. Forwarded requests do not appear in the server's audit, and fault rules do not affect forwarded
///   requests.
/// - Requests to the cluster time out after a minute. A failed watch is restarted after a second. The pause before a
///   restart increases with each further failure, up to one minute. While a watch is broken, the plan serves the last
///   objects that it has received.
///
/// # Changes
///
/// After an object is first written in the plan, the plan ignores later changes to this object in the cluster.
/// [`PlannedChange::moved`] is `true` if the object has changed in the cluster since its first write in the plan. To
/// compute a change, the plan compares its object with the cluster's object at the time of the first write. Changes
/// exclude Events, and the fields that servers set: the resource version, the managed fields and the generation.
///
/// # Limits
///
/// - A plan does not call the cluster's admission webhooks, admission policies and conversion webhooks. The plan reads
///   each object in its storage version. Requests for other versions return the object without conversion. A quota
///   applies only if the plan has read its ResourceQuota. The plan does not check whether the cluster would authorize
///   the writes.
/// - The cluster's controllers do not observe the objects in the plan. For example, a Deployment does not create pods
///   in the plan, and a PersistentVolumeClaim is not bound.
/// - The garbage collector knows only the objects that the plan has read, so it misses dependents in collections that
///   the plan has never listed. When a namespace is deleted, the plan deletes only the objects that it has read.
/// - Requests for exec, attach and port forwarding, and proxy requests to pods, services and nodes, do not reach the
///   cluster. The plan either rejects these requests, or they fail as if the kubelet were unreachable. A GET request
///   for an aggregated API is forwarded as a read, even if the request has side effects.
/// - The plan signs service account tokens with its own key. The cluster does not accept tokens from the plan. An
///   impersonated user has only the permissions of the roles that the plan has read. Forwarded requests, such as access
///   reviews, use the credentials of the plan. Forwarding a request with impersonation requires that these credentials
///   allow the impersonation in the cluster.
/// - A plan keeps all objects of the requested collections in memory. Dropping the plan discards its objects and changes.
/// - The names, addresses and ports that a plan generates differ from the names, addresses and ports in the cluster.
/// - If the deployed controller is the leader, the copy of its Lease in the plan also names it as the leader. Disable
///   leader election in the planned controller, or configure it to use another Lease.
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
/// // This server represents a real cluster. `pintle::Cluster::plan` creates a plan for any cluster.
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
    /// Starts a plan's server and loads the cluster's custom resource definitions.
    ///
    /// The service `live` sends requests to the cluster. Request paths start at the root of the cluster's API server,
    /// and `live` must add the credentials. The plan never changes the cluster: it sends only GET and HEAD requests,
    /// and POST requests for reviews.
    ///
    /// `config` configures the plan's server. [`Controllers::roles`] is ignored, because the cluster has already
    /// aggregated its cluster roles. The plan's resource versions are higher than the resource versions of the cluster.
    /// If a [token file](ApiServerConfig::token_auth_file) is configured, only requests from members of
    /// `system:masters` make the plan read the cluster. Other users can read only objects that the plan has already
    /// loaded, with permissions from loaded roles.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot start, or if the cluster's custom resource definitions cannot be read.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all tasks of the server end.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub async fn start<S, B>(live: S, config: ApiServerConfig) -> Result<Self, PlanError>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        // Do not aggregate cluster roles, because the upstream cluster has already aggregated its roles, and this
        // server has read only some of them.
        let controllers = Controllers { roles: false, ..config.controllers };
        let config = ApiServerConfig { controllers, ..config };
        let server =
            ApiServer::start_with_upstream(config, Some(Upstream::new(live))).await.map_err(PlanError::Server)?;
        if let Some(live) = server.live() {
            live.load_definitions().await.map_err(|refusal| PlanError::Cluster { why: refusal.message() })?;
        }
        server.settle().await;
        Ok(Self { server })
    }

    /// Returns the plan's API server, with its URL, kubeconfig, audit and fault rules. The controller must connect to
    /// this server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the changes that the controller would make to the cluster, including all consequences of its writes so
    /// far. The changes are sorted by the time of the first write to their object.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not change the plan.
    pub async fn changes(&self) -> PlannedChanges {
        self.server.settle().await;
        let registry = &self.server.registry;
        let kinds = registry.kinds();
        registry.db.local_writes().iter().filter_map(|written| PlannedChange::of(&kinds, written)).collect()
    }

    /// Shuts down the server and discards the plan. Dropping the future also shuts down the server.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// The error type of [`Plan::start`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The plan's API server cannot start.
    #[error("the plan's server cannot start: {0}")]
    Server(#[source] StartError),
    /// The cluster's custom resource definitions cannot be read.
    #[error("cannot read the cluster's definitions: {why}")]
    Cluster {
        /// The error message, which comes from the cluster or from the connection to the cluster.
        why: String,
    },
}
