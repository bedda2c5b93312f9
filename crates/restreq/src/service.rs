//! A `tower` service that sends requests with the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, Uri};
use pintle_meta::{ApiError, redacted_url};
use tower_service::Service;

use crate::client::RestClient;
use crate::error::InvalidRequest;
use crate::path;
use crate::request::is_secret;
use crate::stream::ByteStream;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sends an `http::Request` with the credentials, retries and metrics of the client. Only the path and the query of the
/// URI are used. The client decodes and normalizes them, so a path with `.`, `..` or an encoded slash as a segment is
/// an error, because a proxy that checked the path before would have seen another path. Headers with credentials or
/// cookies are marked as sensitive. If the response has an error status, it is returned as an error with its status. The
/// response body is streamed.
///
/// [`ClientConfig::timeout`](pintle_meta::ClientConfig::timeout) applies to the request and its response body, except for
/// requests that Kubernetes treats as long-running: watches, and requests to the subresources `attach`, `exec`, `log`,
/// `portforward` and `proxy`.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use pintle_meta::ApiError;
/// use pintle_restreq::RestClient;
/// use tower_service::Service;
///
/// async fn is_ready(mut client: RestClient) -> Result<bool, ApiError> {
///     let mut request = http::Request::new(Bytes::new());
///     *request.uri_mut() = http::Uri::from_static("/readyz");
///     Ok(client.call(request).await?.status().is_success())
/// }
/// ```
impl Service<Request<Bytes>> for RestClient {
    type Response = Response<ByteStream>;
    type Error = ApiError;
    type Future = BoxFuture<Result<Response<ByteStream>, ApiError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut request = self.verb(head.method).request_uri(target);
        if is_long_running(&head.uri) {
            request.parts.timeout = None;
        }
        if head.uri.path().split('/').any(path::is_dots) {
            let message = "the path contains the segment \".\" or \"..\"".into();
            request = request.keep(InvalidRequest::Uri { uri: redacted_url(target), message });
        }
        request.parts.headers = head.headers;
        for (_, value) in request.parts.headers.iter_mut().filter(|(name, _)| is_secret(name)) {
            value.set_sensitive(true);
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        Box::pin(async move { request.respond().await })
    }
}

/// Returns `true` for a watch or a request to a subresource that streams data. Also returns `true` for an object with
/// the name of such a subresource, because a timeout that is missing does less harm than a stream that ends early.
fn is_long_running(uri: &Uri) -> bool {
    let is_streamed = |segment| matches!(segment, "attach" | "exec" | "log" | "portforward" | "proxy" | "watch");
    let mut parameters = uri.query().unwrap_or_default().split('&');
    uri.path().split('/').any(is_streamed)
        || parameters.any(|parameter| match parameter.split_once('=').unwrap_or((parameter, "")) {
            ("watch", value) => !matches!(value, "0" | "false"),
            _ => false,
        })
}
