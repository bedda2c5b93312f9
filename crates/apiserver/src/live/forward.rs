//! Requests that the other cluster answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, RETRY_AFTER, VARY};
use http::{HeaderName, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, Sleep};

use super::upstream::Refusal;
use super::{Live, TimeoutScope};
use crate::http::{Incoming, ResponseBody};

/// What is passed on of a request, besides as whom it acts: not who asks, since it is this server's client that asks there.
const ASKED: [HeaderName; 3] = [ACCEPT, CONTENT_TYPE, IF_NONE_MATCH];
const ANSWERED: [HeaderName; 6] = [CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER, VARY];

impl Live {
    /// Has the other cluster answer: until the end, if there is one, in all.
    pub(super) async fn forward(
        &self,
        request: Request<Incoming>,
        timeout_scope: TimeoutScope,
        end: Option<Instant>,
    ) -> Response<ResponseBody> {
        let asked = self.pass_on(request, timeout_scope);
        let answer = match end {
            Some(end) => tokio::time::timeout_at(end, asked).await.unwrap_or_else(|_| Err(Refusal::late())),
            None => asked.await,
        };
        match (answer, end) {
            (Err(refusal), _) => refusal.into_response(),
            (Ok(answer), None) => answer,
            (Ok(answer), Some(end)) => {
                answer.map(|body| BodyInTime { body, end: Box::pin(tokio::time::sleep_until(end)) }.boxed_unsync())
            }
        }
    }

    async fn pass_on(
        &self,
        request: Request<Incoming>,
        timeout_scope: TimeoutScope,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let (head, body) = request.into_parts();
        // The body of a read says nothing, and who sends one may never end it.
        let body = match head.method {
            Method::GET | Method::HEAD => Bytes::new(),
            _ => self.registry.bodies.read(body).await.map_err(|unread| Refusal::unread(&unread))?,
        };
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut asked = Request::new(Full::new(body));
        *asked.method_mut() = head.method;
        match target.parse() {
            Ok(target) => *asked.uri_mut() = target,
            Err(error) => return Err(Refusal::unreachable(&error)),
        }
        for name in ASKED {
            asked.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        // Who acts as somebody else is answered as that, if this server's client may act so there.
        let acting = head.headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
        asked.headers_mut().extend(acting.map(|(name, value)| (Some(name.clone()), value.clone())));
        let answer = match timeout_scope {
            TimeoutScope::Nothing => self.upstream.send(asked).await?,
            TimeoutScope::Whole | TimeoutScope::Head => self.upstream.send_in_time(asked).await?,
        };
        let (head, body) = answer.into_parts();
        let mut answer = Response::new(body.map_err(io::Error::other).boxed_unsync());
        *answer.status_mut() = head.status;
        for name in ANSWERED {
            answer.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        Ok(answer)
    }
}

/// The body of an answer that fails if it does not come to its end in time, whoever reads it.
struct BodyInTime {
    body: ResponseBody,
    end: Pin<Box<Sleep>>,
}

impl Body for BodyInTime {
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
