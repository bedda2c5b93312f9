//! In-process calls to a server, without a socket.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use pintle_meta::Secret;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower_service::Service;

use super::front::Front;
use super::thread::{OwnRuntime, server_ended};

/// A service that sends requests to an in-process [`ApiServer`](super::ApiServer), without a socket.
/// [`ApiServer::in_process`](super::ApiServer::in_process) returns this service.
///
/// `InProcess` implements [`tower_service::Service`] for [`http::Request`]s, so that kube's `Client::new` and other
/// clients accept it. All clones call the same server.
///
/// The server applies the same checks, faults and deadlines to a call as to a request over a connection. Only the path
/// and the query of the request's URI are used. The caller is an administrator, unless the request has an
/// `Authorization` header.
///
/// Because a call uses no connection, calls do not have the following features and limits:
///
/// - WebSockets and TLS
/// - the maximum number of concurrent requests per connection
/// - the timeout for clients that do not read the response
///
/// # Cancel safety
///
/// If the future of a call is dropped, each write of the request is either complete or has no effect.
///
/// # Panics
///
/// The server processes a call on the tokio runtime that polls the call's future, unless the server has [its own
/// thread](crate::ApiServerConfig::own_thread). The future panics if this runtime has no timers, or if the server calls
/// a webhook and the runtime has no I/O. [`enable_all`](tokio::runtime::Builder::enable_all) enables both.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bytes::Bytes;
/// use http::Request;
/// use http_body_util::{BodyExt, Full};
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
/// use tower_service::Service;
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// let mut service = server.in_process();
/// let request = Request::get("/api/v1/namespaces/default").body(Full::new(Bytes::new()))?;
/// let answer = service.call(request).await?;
/// assert_eq!(answer.status(), 200);
/// let namespace = answer.into_body().collect().await?.to_bytes();
/// assert!(String::from_utf8_lossy(&namespace).contains("\"phase\":\"Active\""));
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InProcess {
    front: Front,
    token: Option<Secret>,
    stop: CancellationToken,
    own_runtime: Option<OwnRuntime>,
}

impl InProcess {
    pub(super) fn new(
        front: Front,
        token: Option<Secret>,
        stop: CancellationToken,
        own_runtime: Option<OwnRuntime>,
    ) -> Self {
        Self { front, token, stop, own_runtime }
    }
}

pintle_meta::debug_struct!(InProcess |self| { ended = self.stop.is_cancelled(), .. });

impl<B> Service<Request<B>> for InProcess
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<InProcessBody>;
    /// The error for a call to a stopped server. The error kind is
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) if the server stopped before the call, and
    /// [`ConnectionAborted`](io::ErrorKind::ConnectionAborted) if the server stopped during the call.
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    /// Always returns `Ready`, because the server accepts calls at any time.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { front, token, stop, own_runtime } = self.clone();
        let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let has_body = request.method() != Method::HEAD;
        Box::pin(async move {
            if stop.is_cancelled() {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the API server has ended"));
            }
            if let Some(token) = token
                && !request.headers().contains_key(AUTHORIZATION)
            {
                let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose())).map_err(io::Error::other)?;
                request.headers_mut().insert(AUTHORIZATION, bearer);
            }
            // Drop the socket of an upgrade, because only requests over a connection can be upgraded to a WebSocket.
            let answered = async {
                match own_runtime {
                    Some(runtime) => runtime.respond(front, request).await,
                    None => Some(front.respond(request, |_| ()).await.0),
                }
            };
            let answer = tokio::select! {
                () = stop.cancelled() => return Err(server_ended()),
                answered = answered => answered.ok_or_else(server_ended)?,
            };
            Ok(answer.map(|body| InProcessBody {
                body: has_body.then_some(body),
                stopped: Box::pin(stop.cancelled_owned()),
            }))
        })
    }
}

/// The response body of an [`InProcess`] call. Dropping the body of a watch ends the watch. Reading a body fails if a
/// scripted fault cuts the body off, or if the server stops before the body is complete.
pub struct InProcessBody {
    /// The content of the body, or `None` for a HEAD request.
    body: Option<pintle_serving::body::ResponseBody>,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

pintle_meta::debug_struct!(InProcessBody { .. });

impl Body for InProcessBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if polled.is_pending() && self.stopped.as_mut().poll(context).is_ready() {
            self.body = None;
            return Poll::Ready(Some(Err(server_ended())));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
