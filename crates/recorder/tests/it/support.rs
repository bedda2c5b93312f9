//! Test pods, and a source of pods that can be made to fail.

#[path = "../../../informer/tests/it/support/scripted.rs"]
#[allow(dead_code, reason = "the tests of informers use all of it")]
pub(crate) mod scripted;

use pintle_informer::ResourceEvent;
use pintle_meta::{ApiError, ObjectKey, ObjectMeta, Reason, Status};
use pintle_testing::Collection;
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

/// Returns a source of pods, whose first revision is 1.
pub(crate) fn pods(names: &[&str]) -> Collection<Pod> {
    names.iter().map(|name| pod(name, "")).collect()
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

pub(crate) fn failure(code: u16, reason: Reason) -> ApiError {
    Status::failure(code, reason, "as the test wants it").into()
}

pub(crate) fn refused() -> ApiError {
    ApiError::connection_refused("nobody is home")
}

pub(crate) fn cut() -> ApiError {
    ApiError::transport("the connection was cut")
}

/// Describes a resource event in short form, where `name@1` is the name and the revision of the object. `A name@1`
/// is an addition, `A! name@1` an initial object, `U name@2` an update, and `D name@2` a deletion. `D? name@1` is
/// a deletion that the watch missed.
pub(crate) fn shorthand(event: &ResourceEvent<Pod>) -> String {
    let (name, version) = (&event.object().metadata.name, &event.object().metadata.resource_version);
    let kind = match event {
        ResourceEvent::Added { is_initial: true, .. } => "A!",
        ResourceEvent::Added { .. } => "A",
        ResourceEvent::Updated { .. } => "U",
        ResourceEvent::Deleted { final_state_known: true, .. } => "D",
        ResourceEvent::Deleted { .. } => "D?",
    };
    format!("{kind} {name}@{version}")
}
