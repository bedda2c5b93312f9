//! Passes requests from all transports to the server or to the upstream cluster.

use std::sync::Arc;

use http::{Request, Response};
use pintle_serving::body::ResponseBody;

use crate::http::{Deadline, Incoming, Socket};
use crate::live::Live;
use crate::registry::Registry;

use super::sites;

#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) registry: Arc<Registry>,
    pub(super) live: Option<Arc<Live>>,
}

impl Front {
    /// Returns an error response if the request may come from a web page of another site. The caller must not execute a
    /// request that gets such an error response.
    pub(super) fn refusal<B>(&self, request: &Request<B>) -> Option<Response<ResponseBody>> {
        if self.registry.authenticator.has_users() { None } else { sites::refusal(request, &self.registry.config) }
    }

    pub(super) async fn respond(
        self,
        request: Request<Incoming>,
        deadline: impl FnOnce(Deadline),
    ) -> (Response<ResponseBody>, Option<Socket>) {
        match self.live {
            Some(live) => live.respond(request, deadline).await,
            None => crate::http::respond(self.registry, request, deadline).await,
        }
    }
}
