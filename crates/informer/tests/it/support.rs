//! Test pods, and helpers for a source that can be made to fail.

pub(crate) mod replicas;
pub(crate) mod reshaping;
pub(crate) mod rig;
pub(crate) mod scripted;

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_informer::{ResourceEvent, Subscription};
use pintle_meta::{ApiError, Object, ObjectKey, ObjectMeta, Reason, Status};
use pintle_testing::{Break, Collection, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) node: String,
}

pintle_meta::resource!(Pod, "v1", "Pod", "pods", Namespaced);

pub(crate) fn pod(name: &str, node: &str) -> Pod {
    Pod { metadata: ObjectMeta::new("ns", name), node: node.into() }
}

pub(crate) fn pods(names: &[&str]) -> Collection<Pod> {
    names.iter().map(|name| pod(name, "")).collect()
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

pub(crate) fn state_at(source: &Collection<Pod>, revision: u64) -> BTreeMap<ObjectKey, Pod> {
    source.objects_at(revision).into_iter().map(|pod| (pod.key(), pod)).collect()
}

/// Returns the requests since the last call, for example `LIST rv=0 limit=500` or `WATCH rv=7`.
pub(crate) fn requests(source: &Collection<Pod>) -> Vec<String> {
    source.take_requests().iter().map(ToString::to_string).collect()
}

pub(crate) fn empty() -> Outcome {
    Outcome::Breaks { after: 0, how: Break::End }
}

pub(crate) fn silent() -> Outcome {
    Outcome::Breaks { after: 0, how: Break::Silent }
}

pub(crate) fn event(error: ApiError) -> Outcome {
    Outcome::Breaks { after: 0, how: Break::Fails(error) }
}

pub(crate) fn pod_at(name: &str, revision: u64) -> Pod {
    let mut pod = pod(name, "");
    pod.metadata.resource_version = revision.to_string();
    pod.metadata.uid = format!("uid-{name}");
    pod
}

pub(crate) fn failure(code: u16, reason: Reason) -> ApiError {
    Status::failure(code, reason, "as the test wants it").into()
}

pub(crate) fn expired() -> ApiError {
    failure(410, Reason::Expired)
}

pub(crate) fn too_large() -> ApiError {
    Status::failure(504, Reason::Timeout, "Too large resource version: 99, current: 1").into()
}

pub(crate) fn too_many_requests() -> ApiError {
    failure(429, Reason::TooManyRequests)
}

pub(crate) fn refused() -> ApiError {
    ApiError::connection_refused("nobody is home")
}

pub(crate) fn cut() -> ApiError {
    ApiError::transport("the connection was cut")
}

/// Describes the event: `A name@1` is an addition, `A! name@1` an initial object, `U name@1..2` an update, `D name@2` a
/// deletion, and `D? name@1` a deletion that the watch missed.
pub(crate) fn shorthand(event: &ResourceEvent<Pod>) -> String {
    let (name, version) = (&event.object().metadata.name, &event.object().metadata.resource_version);
    match event {
        ResourceEvent::Added { is_initial: true, .. } => format!("A! {name}@{version}"),
        ResourceEvent::Added { .. } => format!("A {name}@{version}"),
        ResourceEvent::Updated { old, .. } => format!("U {name}@{}..{version}", old.metadata.resource_version),
        ResourceEvent::Deleted { final_state_known: true, .. } => format!("D {name}@{version}"),
        ResourceEvent::Deleted { .. } => format!("D? {name}@{version}"),
    }
}

/// Waits until the informer is idle and returns all queued events in order.
pub(crate) async fn drain(events: &mut Subscription<Pod>) -> Vec<String> {
    settle().await;
    std::iter::from_fn(|| events.try_next()).map(|event| shorthand(&event)).collect()
}

/// Like [`drain`], but sorts the events, because their order is undefined.
pub(crate) async fn drain_sorted(events: &mut Subscription<Pod>) -> Vec<String> {
    let mut drained = drain(events).await;
    drained.sort();
    drained
}

/// Runs all tasks until they wait, and waits for offloaded functions. If the clock is paused, it advances by only one
/// millisecond.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
