//! Forwards requests to the upstream cluster.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, RETRY_AFTER, VARY};
use http::{HeaderName, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use pintle_serving::body::ResponseBody;
use tokio::time::{Instant, Sleep};

use super::upstream::Refusal;
use super::{Live, TimeoutScope};
use crate::http::Incoming;

/// The request headers that are forwarded, in addition to the impersonation headers. The upstream client adds its own
/// credentials to forwarded requests.
const REQUEST_HEADERS: [HeaderName; 3] = [ACCEPT, CONTENT_TYPE, IF_NONE_MATCH];
const RESPONSE_HEADERS: [HeaderName; 6] = [CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER, VARY];

impl Live {
    /// Forwards a request and returns the response. If `end` is set, the whole response must arrive before this
    /// deadline.
    pub(super) async fn forward(
        &self,
        request: Request<Incoming>,
        timeout_scope: TimeoutScope,
        end: Option<Instant>,
    ) -> Response<ResponseBody> {
        let response = self.send_upstream(request, timeout_scope);
        let response = match end {
            Some(end) => tokio::time::timeout_at(end, response).await.unwrap_or_else(|_| Err(Refusal::timeout())),
            None => response.await,
        };
        match (response, end) {
            (Err(refusal), _) => refusal.into_response(),
            (Ok(response), None) => response,
            (Ok(response), Some(end)) => {
                response.map(|body| TimeoutBody { body, end: Box::pin(tokio::time::sleep_until(end)) }.boxed_unsync())
            }
        }
    }

    async fn send_upstream(
        &self,
        request: Request<Incoming>,
        timeout_scope: TimeoutScope,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let (head, body) = request.into_parts();
        // Do not forward the body of a read request, because it has no meaning and may never arrive completely.
        let body = match head.method {
            Method::GET | Method::HEAD => Bytes::new(),
            _ => self.registry.body_budget.read(body).await.map_err(|unread| Refusal::unreadable_body(&unread))?,
        };
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut forwarded = Request::new(Full::new(body));
        *forwarded.method_mut() = head.method;
        match target.parse() {
            Ok(target) => *forwarded.uri_mut() = target,
            Err(error) => return Err(Refusal::unreachable(&error)),
        }
        for name in REQUEST_HEADERS {
            forwarded.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        // Forward the impersonation headers, because the upstream server checks whether the upstream client may
        // impersonate the user.
        let impersonation = head.headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
        forwarded.headers_mut().extend(impersonation.map(|(name, value)| (Some(name.clone()), value.clone())));
        let response = match timeout_scope {
            TimeoutScope::Nothing => self.upstream.send(forwarded).await?,
            TimeoutScope::Whole | TimeoutScope::Head => self.upstream.send_with_timeout(forwarded).await?,
        };
        let (head, body) = response.into_parts();
        let mut response = Response::new(body.map_err(io::Error::other).boxed_unsync());
        *response.status_mut() = head.status;
        for name in RESPONSE_HEADERS {
            response.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        Ok(response)
    }
}

struct TimeoutBody {
    body: ResponseBody,
    end: Pin<Box<Sleep>>,
}

impl Body for TimeoutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending if self.end.as_mut().poll(context).is_ready() => {
                Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
