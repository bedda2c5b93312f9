//! Request and response bodies.

use std::io;

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_kinds::RBAC_GROUP;
use pintle_meta::{Reason, StatusDetails};
use pintle_serving::body::ResponseBody;
use pintle_serving::body_budget::{LARGEST_BODY, Unread};
use pintle_serving::offload;

use super::call::{Call, Incoming};
use crate::registry::Registry;
use crate::watch::{Frame as WatchFrame, Watcher};

/// Returns a body that streams a watch's frames. If several frames are ready, the body sends them in a single write.
/// Dropping the body ends the watch.
pub(super) fn frames(watcher: Watcher) -> ResponseBody {
    let frames = stream::unfold(watcher, |mut watcher| async {
        let frame = watcher.next_piece().await?;
        let frame = frame.map(|WatchFrame { bytes, torn }| {
            let end = if torn { bytes.len() / 2 } else { bytes.len() };
            Frame::data(bytes.slice(..end))
        });
        let frame = frame.map_err(|cut| {
            tracing::debug!(%cut, "watch was cut");
            io::Error::new(io::ErrorKind::ConnectionAborted, cut)
        });
        Some((frame, watcher))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// A request body that is either still arriving or complete. A body is already complete if a fault rule needed the
/// object name in the body.
pub(super) enum RequestBody {
    Incoming(Incoming),
    Received(Bytes),
}

/// Reads the whole request body and waits for a permit to process it. The requester keeps the permit, except while it
/// waits for a webhook. The body counts towards the body budget until the request ends, because the server keeps the
/// decoded object until then.
///
/// If the body, the stored object or the schema is large, the code up to the next `.await` is offloaded to another
/// thread.
pub(super) async fn read(registry: &Registry, call: &mut Call, request_body: RequestBody) -> Outcome<Bytes> {
    let bytes = match request_body {
        RequestBody::Incoming(incoming) => receive(call, incoming).await?,
        RequestBody::Received(bytes) => bytes,
    };
    call.body = bytes.clone();
    let permit = call.bodies.turn(bytes.len()).await;
    call.requester.keep_permit(permit);
    // Prepare admission only now, because a client may have registered a webhook while the body arrived.
    call.prepare_admission(registry);
    let weight = bytes.len().max(call.costs.stored).max(call.costs.validation);
    offload::work_on(if is_costly(call) { offload::ALWAYS } else { weight }).await;
    Ok(bytes)
}

/// Returns `true` if a request with a small body can be expensive. YAML aliases and JSON patch operations can expand a
/// small body to a large object. RBAC rules can expand to many combinations of verbs and resources. A change to the
/// labels of a namespace can trigger a check of all pods in the namespace. The selectors of devices are CEL expressions.
fn is_costly(call: &Call) -> bool {
    let media = call.head.header(CONTENT_TYPE);
    let target = call.info.target.resource();
    media.contains("yaml")
        || media.contains("json-patch")
        || target.group == RBAC_GROUP
        || target.group == "resource.k8s.io"
        || target.resource == "namespaces"
}

/// Reads the whole request body without waiting for a permit to process it.
pub(super) async fn receive(call: &Call, incoming: Incoming) -> Outcome<Bytes> {
    call.bodies.read(incoming).await.map_err(|unread| match unread {
        Unread::Broken(why) => Failure::bad_request(format!("the request body ended early: {why}")),
        Unread::TooLarge => {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            Failure::new(413, Reason::RequestEntityTooLarge, message)
        }
        Unread::OutOfBudget => too_many(),
    })
}

/// Returns kube-apiserver's error for an overloaded server. Clients retry requests after a "too many requests" error.
fn too_many() -> Failure {
    let details = StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() };
    Failure::new(429, Reason::TooManyRequests, "Too many requests, please try again later.").with(details)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;
    use pintle_serving::body::full;
    use pintle_serving::offload::Offload;

    use super::*;
    use crate::config::ApiServerConfig;

    const CORE: &str = "/api/v1/namespaces/default/configmaps/a";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

    async fn is_offloaded(path: &str, media: &str, weights: [usize; 2]) -> bool {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let nothing: Incoming = full(Bytes::new()).map_err(Into::into).boxed_unsync();
        let request = Request::post(path).header(CONTENT_TYPE, media).body(nothing).expect("a request");
        let (mut call, _) = Call::new(&registry, request);
        [call.costs.stored, call.costs.validation] = weights;
        let here = std::thread::current().id();
        let reading = registry.clone();
        let work = Offload::new(&registry.offload_permits, async move {
            let read = read(&reading, &mut call, RequestBody::Received(Bytes::from_static(b"{}"))).await;
            (read, std::thread::current().id())
        });
        let (read, there) = work.await;
        assert!(read.is_ok_and(|bytes| bytes == "{}"));
        there != here
    }

    #[tokio::test]
    async fn costly_small_bodies_are_offloaded() {
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
            ("/apis/resource.k8s.io/v1/deviceclasses", json, [0, 0], true),
            (CORE, merge, [large, 0], true),
            (CORE, json, [0, large], true),
        ] {
            assert_eq!(is_offloaded(path, media, weights).await, expected, "{path} {media} {weights:?}");
        }
    }
}
