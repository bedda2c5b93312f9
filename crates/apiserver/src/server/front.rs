//! Passes requests from all transports to the server or to the upstream cluster.

use std::sync::Arc;

use http::{Request, Response};
use pintle_serving::body::ResponseBody;

use crate::http::{Deadline, Incoming, Socket};
use crate::live::Live;
use crate::registry::Registry;

/// The server that receives requests. `live` is the upstream cluster of a [`Plan`](crate::Plan).
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) registry: Arc<Registry>,
    pub(super) live: Option<Arc<Live>>,
}

impl Front {
    /// Serves a request, like [`respond`](crate::http::respond).
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
