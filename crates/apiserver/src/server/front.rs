//! Who answers requests, whichever way they come.

use std::sync::Arc;

use http::{Request, Response};

use crate::http::{Deadline, Incoming, ResponseBody, Socket};
use crate::live::Live;
use crate::registry::Registry;

/// The server, or the server and the cluster that it is laid over.
#[derive(Clone, Debug)]
pub(super) struct Front {
    pub(super) registry: Arc<Registry>,
    pub(super) live: Option<Arc<Live>>,
}

impl Front {
    /// As [`respond`](crate::http::respond) does.
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
