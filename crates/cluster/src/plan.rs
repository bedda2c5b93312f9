//! Plans, which are dry runs against a live cluster. A plan is an embedded API server that reads from the live cluster but
//! never writes to it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::{ApiServerConfig, Plan};
use pintle_meta::ApiError;
use pintle_restreq::{RestClient, TransportBody};
use tower_service::Service;

use crate::cluster::Cluster;

impl Cluster {
    /// Starts an embedded API server for a controller's dry run. The embedded server reads from the live cluster with this
    /// `Cluster`'s client, and does not write to the live cluster. The returned [`Plan`] keeps the controller's writes in
    /// memory, and [`Plan::changes`] returns them.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::{Cluster, ClusterConfig};
    /// use pintle_restreq::TransportLayer;
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let live = Cluster::embedded().await?; // or `Cluster::infer()?`
    ///     let plan = live.plan().await?;
    ///
    ///     // The controller runs unchanged on this cluster. A controller in another process uses `plan.server().kubeconfig()`.
    ///     let client = Some(plan.server().client_config());
    ///     let transport = Some(TransportLayer::in_place(plan.server().in_process()));
    ///     let cluster = Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() })?;
    ///     assert!(cluster.client().delete().abs_path(["/api/v1/namespaces/default"]).send().await.is_err());
    ///
    ///     println!("{}", plan.changes().await);
    ///     plan.shutdown().await;
    ///     live.shutdown().await;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the live cluster's custom resource definitions cannot be read, or if the server cannot listen on a
    /// port.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the server and its tasks.
    pub async fn plan(&self) -> Result<Plan, crate::error::Error> {
        Plan::start(Reading(self.client().clone()), ApiServerConfig::default()).await.map_err(crate::error::Error::Plan)
    }
}

/// Forwards the embedded server's read requests to the live cluster. An error status from the cluster is returned as a response
/// instead of an `ApiError`.
#[derive(Clone)]
struct Reading(RestClient);

impl Service<Request<Full<Bytes>>> for Reading {
    type Response = Response<TransportBody>;
    type Error = ApiError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ApiError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let mut client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            match client.call(Request::from_parts(head, body.to_bytes())).await {
                Ok(answer) => Ok(answer.map(TransportBody::new)),
                Err(error) => refusal(error),
            }
        })
    }
}

/// Converts a client error back to the live cluster's error response.
fn refusal(error: ApiError) -> Result<Response<TransportBody>, ApiError> {
    let (Some(status), Some(response)) = (error.status(), &error.response) else { return Err(error) };
    let body = &response.body;
    let content_type = if body.starts_with(b"{") { "application/json" } else { "text/plain; charset=utf-8" };
    let answer = Response::builder().status(status.code).header(CONTENT_TYPE, content_type);
    answer.body(TransportBody::new(Full::new(body.clone()))).map_err(|_| error)
}
