//! Integration with `tower`.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use pintle_meta::__private::Mutex;
use pintle_transport::{
    BoxError, ConnectionUse, ExchangeOptions, Failure, RequestBody, ResponseBody, Transport, causes,
};
use tower_layer::{Layer, layer_fn};
use tower_service::Service;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A `tower` layer that wraps the transport of a client, for example to limit, trace or sign requests.
///
/// The layer receives each attempt of a request, including the full URL, the credentials and all headers except
/// connection-level headers. The response of the layer is treated like a response of the server.
///
/// - If the transport returns an error, the layer can return it unchanged or as the source of another error. The client
///   reports the error of the transport in either case. All other errors of the layer are reported as
///   [`ErrorKind::Transport`](pintle_meta::ErrorKind::Transport), which means that the server may have processed the request.
/// - The layer must preserve the extensions of requests and responses. The extensions of a request mark watches and
///   streams, which use separate connections. The extensions of a response contain the connection of a WebSocket.
/// - For each attempt, the client clones the service, waits until the clone is ready, and calls it. The service is
///   cloned while a lock is held, so a `Clone` implementation that sends a request with the same client deadlocks.
///
/// # Examples
///
/// ```
/// use pintle_meta::ClientConfig;
/// use pintle_restreq::{RestClient, RestClientConfig, TransportLayer, TransportService};
///
/// // Or, for example, `tower::limit::ConcurrencyLimitLayer::new(5)`.
/// let layer = tower_layer::layer_fn(|transport: TransportService| transport);
/// let client = RestClient::new(RestClientConfig {
///     transport_layer: Some(TransportLayer::new(layer)),
///     ..ClientConfig::new("https://10.0.0.1:6443").into()
/// })?;
/// # Ok::<(), pintle_restreq::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct TransportLayer(Arc<dyn Fn(TransportService) -> Exchange + Send + Sync>);

/// The innermost service of a [`TransportLayer`]. The service sends requests over the connections of the client.
#[derive(Clone)]
pub struct TransportService(Arc<Transport>);

/// The body of a request or response in a [`TransportLayer`]. The `Debug` output does not include the data.
pub struct TransportBody(UnsyncBoxBody<Bytes, BoxError>);

type Exchange =
    Box<dyn Fn(Request<TransportBody>) -> BoxFuture<Result<Response<ResponseBody>, BoxError>> + Send + Sync>;

impl TransportLayer {
    /// Creates a layer from a `tower` layer. `layer` is called once, when the client is created.
    pub fn new<L, S, B>(layer: L) -> Self
    where
        L: Layer<TransportService, Service = S> + Send + Sync + 'static,
        S: Service<Request<TransportBody>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self(Arc::new(move |transport: TransportService| -> Exchange {
            let service = Mutex::new(layer.layer(transport));
            Box::new(move |request: Request<TransportBody>| {
                let mut service = service.lock().clone();
                Box::pin(async move {
                    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::<BoxError>::into)?;
                    let answer = service.call(request).await.map_err(Into::<BoxError>::into)?;
                    Ok(answer.map(ResponseBody::of_layer))
                })
            })
        }))
    }

    /// Creates a layer that sends all requests to `service`, which can be an in-process server. With this layer, the
    /// client opens no connections.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::future::{Ready, ready};
    /// use std::task::{Context, Poll};
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    /// use pintle_meta::ClientConfig;
    /// use pintle_restreq::{RestClient, RestClientConfig, TransportBody, TransportLayer};
    /// use tower_service::Service;
    ///
    /// #[derive(Clone)]
    /// struct Always;
    ///
    /// impl Service<Request<TransportBody>> for Always {
    ///     type Response = Response<Full<Bytes>>;
    ///     type Error = Infallible;
    ///     type Future = Ready<Result<Self::Response, Infallible>>;
    ///
    ///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
    ///         Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, _: Request<TransportBody>) -> Self::Future {
    ///         ready(Ok(Response::new(Full::from("ok"))))
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = RestClient::new(RestClientConfig {
    ///     transport_layer: Some(TransportLayer::in_place(Always)),
    ///     ..ClientConfig::new("http://nowhere.invalid").into()
    /// })?;
    /// assert_eq!(client.get().abs_path(["/readyz"]).send().await?.body(), "ok");
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_place<S, B>(service: S) -> Self
    where
        S: Service<Request<TransportBody>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + Sync + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self::new(layer_fn(move |_: TransportService| service.clone()))
    }

    pub(crate) fn around(&self, transport: Arc<Transport>) -> LayeredTransport {
        LayeredTransport { exchange: (self.0)(TransportService(transport.clone())), transport }
    }
}

pub(crate) struct LayeredTransport {
    transport: Arc<Transport>,
    exchange: Exchange,
}

impl LayeredTransport {
    /// Sends a request through the layer, and enforces the timeout for the response headers. A layer may replace the
    /// transport, which normally enforces this timeout.
    pub(crate) async fn round_trip(
        &self,
        request: &mut Request<RequestBody>,
        options: ExchangeOptions,
        connect: Duration,
    ) -> Result<Response<ResponseBody>, Failure> {
        let mut request = std::mem::take(request);
        self.transport.make_whole(&mut request);
        request.extensions_mut().insert(options);
        let last_chunk = request.body().last_chunk();
        let exchange = (self.exchange)(request.map(TransportBody::new));
        let answer = match options.headers {
            None => exchange.await,
            Some(headers) => {
                let limit = headers.saturating_add(connect);
                let answer = self.transport.timers().for_headers(limit, last_chunk, pin!(exchange)).await;
                answer.ok_or(Failure::HeadersTimeout(headers))?
            }
        };
        answer.map_err(|error| {
            let failure = causes(&*error).find_map(|cause| cause.downcast_ref::<Failure>()).cloned();
            failure.unwrap_or_else(|| Failure::Exchange { is_stale: false, source: error.into() })
        })
    }
}

impl Service<Request<TransportBody>> for TransportService {
    type Response = Response<TransportBody>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    /// Always returns ready, because the future returned by `call` waits for a connection.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<TransportBody>) -> Self::Future {
        let transport = self.0.clone();
        let options = request.extensions().get().copied();
        let options = options.unwrap_or(ExchangeOptions { usage: ConnectionUse::Short, headers: None });
        Box::pin(async move {
            let answer = transport
                .round_trip(&mut request.map(|TransportBody(body)| RequestBody::of_layer(body)), options)
                .await?;
            Ok(answer.map(TransportBody::new))
        })
    }
}

impl TransportBody {
    /// Creates a body from any type that implements [`http_body::Body`].
    pub fn new(body: impl Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static) -> Self {
        Self(UnsyncBoxBody::new(body.map_err(Into::into)))
    }
}

impl Body for TransportBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

pintle_meta::debug_struct!(TransportBody { .. });

impl fmt::Debug for TransportLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransportLayer")
    }
}

impl fmt::Debug for TransportService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransportService").field(&self.0).finish()
    }
}
