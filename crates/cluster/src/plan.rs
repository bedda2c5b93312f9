//! Plans: an embedded API server in front of a live cluster, which it only reads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use pintle_apiserver::{ApiServerConfig, Plan};
use pintle_restreq::{Error, RestClient, TransportBody};
use tower_service::Service;

use crate::Cluster;

impl Cluster {
    /// Starts an API server for a dry run of a controller in front of this cluster. Reads go to the cluster through
    /// this client. Writes stay in the plan, which [lists](Plan::changes) them; the cluster never receives them.
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
    /// The cluster's custom resource definitions cannot be read, or the server cannot listen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future starts nothing that lasts.
    pub async fn plan(&self) -> Result<Plan, crate::Error> {
        Plan::start(Reading(self.client().clone()), ApiServerConfig::default()).await.map_err(crate::Error::Plan)
    }
}

/// Sends what a plan asks. What the server refuses is an answer, too.
#[derive(Clone)]
struct Reading(RestClient);

impl Service<Request<Full<Bytes>>> for Reading {
    type Response = Response<TransportBody>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
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

/// The answer behind an error, if there is one.
fn refusal(error: Error) -> Result<Response<TransportBody>, Error> {
    let Error::Status { status, body, .. } = &error else { return Err(error) };
    let content_type = if body.starts_with(b"{") { "application/json" } else { "text/plain; charset=utf-8" };
    let answer = Response::builder().status(status.code).header(CONTENT_TYPE, content_type);
    answer.body(TransportBody::new(Full::new(body.clone()))).map_err(|_| error)
}
