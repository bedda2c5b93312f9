//! Bodies: those that come and those that go.

use std::error::Error;
use std::io;

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use pintle_meta::{Reason, StatusDetails};

use super::Call;
use crate::failure::{Failure, Outcome};
use crate::kinds::RBAC_GROUP;
use crate::offload;
use crate::registry::{LARGEST_BODY, Unread};
use crate::watch::{Frame as Sent, Watcher};

/// The body of a request, whichever way it came.
pub(crate) type Incoming = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The body of an answer. An error in it breaks the connection off.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// Longer bodies are sent in chunks, as Go does, and do not say how long they are.
const LONGEST_WITH_LENGTH: usize = 2048;

/// A body that is known in full.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    let bytes = bytes.into();
    if bytes.len() > LONGEST_WITH_LENGTH {
        return StreamBody::new(stream::iter([Ok(Frame::data(bytes))])).boxed_unsync();
    }
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The frames of a watch, as they come, those that are there together in one piece. Dropping the body ends the watch.
pub(super) fn frames(watcher: Watcher) -> ResponseBody {
    let frames = stream::unfold(watcher, |mut watcher| async {
        let frame = watcher.next_piece().await?;
        let frame = frame.map(|Sent { bytes, torn }| {
            let end = if torn { bytes.len() / 2 } else { bytes.len() };
            Frame::data(bytes.slice(..end))
        });
        let frame = frame.map_err(|cut| {
            tracing::debug!(%cut, "a watch was cut");
            io::Error::new(io::ErrorKind::ConnectionAborted, cut)
        });
        Some((frame, watcher))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The body of a request: one that is still coming, or one that had to be read before its turn.
pub(super) enum Delivery {
    Coming(Incoming),
    Come(Bytes),
}

/// Reads a request's body in full, and waits until it can be worked on; if it, the object that it is for or its
/// schema is large, what is done with it is done apart.
pub(super) async fn read(call: &Call, delivery: Delivery) -> Outcome<Bytes> {
    let bytes = match delivery {
        Delivery::Coming(incoming) => take(call, incoming).await?,
        Delivery::Come(bytes) => bytes,
    };
    let bytes = call.bodies.turn(bytes).await;
    let weight = bytes.len().max(call.weight).max(call.schema_weight);
    offload::work_on(if multiplies(call) { offload::ALWAYS } else { weight }).await;
    Ok(bytes)
}

/// Whether what follows from a body may be out of proportion to it: aliases of YAML and operations of a patch copy, rights multiply, and the
/// labels of a namespace are held against its pods.
fn multiplies(call: &Call) -> bool {
    let media = call.header(CONTENT_TYPE);
    let target = &call.target;
    media.contains("yaml")
        || media.contains("json-patch")
        || target.group == RBAC_GROUP
        || target.resource == "namespaces"
}

/// Reads a request's body in full. It can be kept so, and not be worked on.
pub(super) async fn take(call: &Call, incoming: Incoming) -> Outcome<Bytes> {
    call.bodies.read(incoming).await.map_err(|unread| match unread {
        Unread::Broken(why) => Failure::bad_request(format!("the body broke off: {why}")),
        Unread::TooLarge => {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            Failure::new(413, Reason::RequestEntityTooLarge, message)
        }
        Unread::OutOfBudget => too_many(),
    })
}

/// As a server that has enough to do says it. Clients try again.
fn too_many() -> Failure {
    let details = StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() };
    Failure::new(429, Reason::TooManyRequests, "Too many requests, please try again later.").with(details)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::offload::Offload;
    use crate::registry::Registry;
    use crate::request::path::Target;

    const CORE: &str = "/api/v1/namespaces/default/configmaps/a";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

    /// Whether what follows from a small body is done on another thread.
    async fn is_apart(path: &str, media: &str, weights: [usize; 2]) -> bool {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let nothing: Incoming = full(Bytes::new()).map_err(Into::into).boxed_unsync();
        let request = Request::post(path).header(CONTENT_TYPE, media).body(nothing).expect("a request");
        let (mut call, _) = Call::new(&registry, request);
        if let Target::Resource(target) = Target::parse(path) {
            call.target = target;
        }
        [call.weight, call.schema_weight] = weights;
        let here = std::thread::current().id();
        let work = Offload::new(&registry.offload_permits, async move {
            let read = read(&call, Delivery::Come(Bytes::from_static(b"{}"))).await;
            (read, std::thread::current().id())
        });
        let (read, there) = work.await;
        assert!(read.is_ok_and(|bytes| bytes == "{}"));
        there != here
    }

    #[tokio::test]
    async fn of_small_bodies_those_are_worked_on_apart_that_may_ask_for_much() {
        let (json, merge) = ("application/json", "application/merge-patch+json");
        let large = 1 << 20;
        for (path, media, weights, expected) in [
            (CORE, json, [0, 0], false),
            (CORE, merge, [0, 0], false),
            (CORE, "application/strategic-merge-patch+json", [0, 0], false),
            ("/apis/apps/v1/namespaces/default/deployments", json, [0, 0], false),
            (CORE, "application/yaml", [0, 0], true),
            (CORE, "application/apply-patch+yaml", [0, 0], true),
            (CORE, "application/json-patch+json", [0, 0], true),
            (ROLES, json, [0, 0], true),
            ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", merge, [0, 0], true),
            ("/api/v1/namespaces/default", merge, [0, 0], true),
            (CORE, merge, [large, 0], true),
            (CORE, json, [0, large], true),
        ] {
            assert_eq!(is_apart(path, media, weights).await, expected, "{path} {media} {weights:?}");
        }
    }
}
