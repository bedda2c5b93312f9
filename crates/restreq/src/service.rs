//! A `tower` service that sends requests with the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use pintle_meta::redacted_url;
use tower_service::Service;

use crate::client::RestClient;
use crate::error::{Error, InvalidRequest};
use crate::path;
use crate::request::is_secret;
use crate::stream::ByteStream;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sends an `http::Request` with the credentials, retries and metrics of the client. Only the path and the query of the
/// URI are used. The client decodes and normalizes them, so a path with `.`, `..` or an encoded slash as a segment is
/// an error, because a proxy that checked the path before would have seen another path. Headers with credentials or
/// cookies are marked as sensitive. If the response has an error status, it is returned as [`Error::Status`]. The
/// response body is streamed.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use pintle_restreq::{Error, RestClient};
/// use tower_service::Service;
///
/// async fn is_ready(mut client: RestClient) -> Result<bool, Error> {
///     let mut request = http::Request::new(Bytes::new());
///     *request.uri_mut() = http::Uri::from_static("/readyz");
///     Ok(client.call(request).await?.status().is_success())
/// }
/// ```
impl Service<Request<Bytes>> for RestClient {
    type Response = Response<ByteStream>;
    type Error = Error;
    type Future = BoxFuture<Result<Response<ByteStream>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut request = self.verb(head.method).request_uri(target);
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
