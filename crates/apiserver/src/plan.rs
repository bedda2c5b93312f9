//! Plans. A plan lets a controller run against a live cluster without changing the cluster. After the run, the plan reports the changes
//! that the controller would have made.

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

/// A dry run of a controller against a live cluster. A plan is an API server that reads objects from the cluster and never sends a write to
/// the cluster.
///
/// The controller runs unmodified. [`changes`](Self::changes) returns the changes that the controller would have made so far, like
/// `terraform plan` before `terraform apply`.
///
/// ```text
///  controller ──▶ the plan's server ──── reads, never a write ────▶ the cluster
///                  writes stay here: defaults, definitions' rules, server-side apply, finalizers, garbage collection
/// ```
///
/// Like every [`ApiServer`], the server of the plan listens on a loopback port. Controllers in any language can connect to the plan's
/// server with its [kubeconfig](ApiServer::kubeconfig). A controller in the same process can use it [without a
/// socket](ApiServer::in_process).
///
/// The plan reads the cluster with the credentials of the service that the caller passes to [`start`](Self::start). Every client that can
/// connect to the port reads the cluster with these credentials, as with `kubectl proxy`.
///
/// # Reads
///
/// - Each GET request reads the object from the cluster again, until the object is written in the plan or its collection is watched.
/// - The first list, watch or create in a collection makes the plan list this collection in the cluster. A collection consists of the
///   objects of one resource in one namespace, or in all namespaces. After the list, the plan watches the collection. Therefore, a list
///   returns the current objects of the cluster, except for the objects that were written in the plan. A create needs the permission to
///   list the collection in the cluster, because it also makes the plan list the collection.
/// - Until an object is written in the plan, it keeps its uid and its resourceVersion from the cluster. The resource versions of writes in
///   the plan are higher than the versions of the cluster.
/// - When the plan starts, it loads all custom resource definitions and then watches the definitions. Discovery documents come from the
///   cluster until a custom resource definition is written in the plan.
/// - The cluster answers requests for logs, access reviews, and resources that this server does not serve, such as metrics. Forwarded
///   requests do not appear in the server's audit, and the server's fault rules do not apply to them.
/// - Requests to the cluster time out after a minute. If a watch fails, it is started again after a second. With each further failure, the
///   pause grows, but it never exceeds one minute. Until the watch works again, the plan serves the last state that it received.
///
/// # Changes
///
/// After an object was written in the plan, the plan ignores later changes of this object in the cluster. [`PlannedChange::moved`] is true
/// if the object has changed in the cluster since it was first written in the plan. A change is the difference between two states of an
/// object. The first state is the object's state in the cluster at the time of the first write in the plan. The second state is the
/// object's state in the plan. Changes do not include Events. Changes also exclude the fields that servers set: the resource version, the
/// managed fields and the generation.
///
/// # Limits
///
/// - The cluster's admission webhooks, admission policies and conversion webhooks are not called. The plan reads each object from the
///   cluster in the version in which the cluster stores the object. If a request names another version, the plan returns the same object
///   without converting it. A quota applies only if the plan has read the ResourceQuota object. The plan does not check whether the cluster
///   would authorize the writes.
/// - The cluster's controllers do not observe the objects in the plan. For example, a Deployment does not create pods in the plan, and a
///   PersistentVolumeClaim is not bound.
/// - The garbage collector tracks only the objects that the plan has read. The collector does not find dependents in collections that the
///   plan has never listed. If a namespace is deleted, the plan deletes only those objects in the namespace that the plan has read.
/// - Requests for exec, attach and port forwarding do not reach the cluster. Proxy requests to pods, services and nodes do not reach the
///   cluster, either. The plan rejects these requests, or they fail as if the kubelet were unreachable. A GET request for an aggregated API
///   counts as a read and is forwarded, even if it has side effects.
/// - The plan signs service account tokens with its own key. The cluster does not accept tokens that the plan has signed. An impersonated
///   user has only the permissions of those roles that the plan has read. Forwarded requests, such as reviews, use the plan's credentials.
///   The cluster treats them as requests from the user of these credentials. If a forwarded request impersonates a user, the cluster treats
///   it as a request from this user. Therefore, the user of the plan's credentials needs the permission to impersonate this user.
/// - All state of the plan is lost when the plan ends. The plan keeps all requested collections in memory.
/// - The names, addresses and ports that the plan generates differ from the values that the cluster would choose.
/// - If the deployed controller holds a Lease in the cluster, it also holds this Lease in the plan. Disable leader election in the planned
///   controller, or make it use another Lease.
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
    /// Starts the server of a plan and loads the cluster's custom resource definitions.
    ///
    /// The service `live` sends requests to the cluster. The request paths begin at the root of the cluster's API server, and `live` must
    /// add the credentials. The plan sends only GET requests, HEAD requests, and POST requests for reviews. The plan's requests never
    /// change the cluster.
    ///
    /// `config` configures the plan's server. [`Controllers::roles`] is ignored, because the cluster has already aggregated its cluster
    /// roles. The resource versions of the plan are higher than the versions of the cluster. If there is a [token
    /// file](ApiServerConfig::token_auth_file), only requests from members of `system:masters` make the plan read the cluster. Other users
    /// can read only the objects that the plan has already loaded. These users also need permissions from the roles that the plan has
    /// loaded.
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
    /// Panics if it is called outside of a tokio runtime.
    pub async fn start<S, B>(live: S, config: ApiServerConfig) -> Result<Self, PlanError>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        // Do not aggregate cluster roles. The cluster itself has already aggregated its cluster roles, and this server has read only some
        // of them.
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

    /// Returns the API server to which the controller must connect. This server provides the URL, the kubeconfig, the audit and the fault
    /// rules.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the changes that the controller would make to the cluster. The changes include all consequences that the controller's writes
    /// have had so far. The changes are in the order in which their objects were first written.
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

    /// Shuts the server down and discards the plan. If the future is dropped, the server shuts down, too.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// The error that [`Plan::start`] returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The API server of the plan cannot start.
    #[error("the plan's server cannot start: {0}")]
    Server(#[source] StartError),
    /// The plan cannot read the custom resource definitions of the cluster.
    #[error("cannot read the cluster's definitions: {why}")]
    Cluster {
        /// The message of the error. The error comes from the cluster or from the connection to the cluster.
        why: String,
    },
}
