//! Requests that the other cluster answers.

use std::io;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, RETRY_AFTER, VARY};
use http::{HeaderName, Request, Response};
use http_body_util::{BodyExt, Full};

use super::Live;
use super::upstream::Refusal;
use crate::http::{Incoming, ResponseBody};

/// What is passed on of a request, besides as whom it acts: not who asks, since it is this server's client that asks there.
const ASKED: [HeaderName; 3] = [ACCEPT, CONTENT_TYPE, IF_NONE_MATCH];
const ANSWERED: [HeaderName; 6] = [CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER, VARY];

impl Live {
    /// Has the other cluster answer.
    pub(super) async fn forward(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let body = match self.registry.bodies.read(body).await {
            Ok(body) => body,
            Err(unread) => return Refusal::unread(&unread).into_response(),
        };
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut asked = Request::new(Full::new(body));
        *asked.method_mut() = head.method;
        match target.parse() {
            Ok(target) => *asked.uri_mut() = target,
            Err(error) => return Refusal::unreachable(&error).into_response(),
        }
        for name in ASKED {
            asked.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        // Who acts as somebody else is answered as that, if this server's client may act so there.
        let acting = head.headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
        asked.headers_mut().extend(acting.map(|(name, value)| (Some(name.clone()), value.clone())));
        let (head, body) = match self.upstream.send(asked).await {
            Ok(answer) => answer.into_parts(),
            Err(refusal) => return refusal.into_response(),
        };
        let mut answer = Response::new(body.map_err(io::Error::other).boxed_unsync());
        *answer.status_mut() = head.status;
        for name in ANSWERED {
            answer.headers_mut().extend(head.headers.get(&name).map(|value| (name, value.clone())));
        }
        answer
    }
}
