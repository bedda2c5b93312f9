//! The server without sockets: a request is a call.

use std::error::Error;
use std::fmt;
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
use super::thread::{Home, cut};

/// Reaches an [`ApiServer`](super::ApiServer) of the same process without a socket, from
/// [`ApiServer::in_process`](super::ApiServer::in_process).
///
/// It is a [`tower_service::Service`] of [`http::Request`]s, which is what kube's `Client::new` takes, and what a client of another
/// make can be put on. Each clone reaches the same server.
///
/// A request is answered as one that came over a connection: it goes through the same checks, faults and deadlines, of its URI path and
/// query count, and dropping the call leaves each write whole or undone. What differs is what belongs to connections: there are no
/// WebSockets, no TLS, no limit on how many requests are open, and no close of those that are not read. It asks as an administrator, unless
/// the request has a header `Authorization` of its own.
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
    /// Where the server works, if that is not on the caller's runtime.
    own: Option<Home>,
}

impl InProcess {
    pub(super) fn new(front: Front, token: Option<Secret>, stop: CancellationToken, own: Option<Home>) -> Self {
        Self { front, token, stop, own }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("ended", &self.stop.is_cancelled()).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for InProcess
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<InProcessBody>;
    /// The server has ended: [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) before the call,
    /// [`ConnectionAborted`](io::ErrorKind::ConnectionAborted) while it was served.
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    /// Always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { front, token, stop, own } = self.clone();
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
            // A connection would end that goes on as something else; without one, none of it is asked for.
            let answered = async {
                match own {
                    Some(home) => home.answer(front, request).await,
                    None => Some(front.respond(request, |_| ()).await.0),
                }
            };
            let answer = tokio::select! {
                () = stop.cancelled() => return Err(cut()),
                answered = answered => answered.ok_or_else(cut)?,
            };
            Ok(answer.map(|body| InProcessBody {
                body: has_body.then_some(body),
                stopped: Box::pin(stop.cancelled_owned()),
            }))
        })
    }
}

/// The body of an answer of [`InProcess`]. Dropping it ends a watch. It fails where a scripted fault cuts it off, and where the server
/// ends before it does.
pub struct InProcessBody {
    /// An answer to HEAD has none.
    body: Option<crate::http::ResponseBody>,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl fmt::Debug for InProcessBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessBody").finish_non_exhaustive()
    }
}

impl Body for InProcessBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if polled.is_pending() && self.stopped.as_mut().poll(context).is_ready() {
            self.body = None;
            return Poll::Ready(Some(Err(cut())));
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
