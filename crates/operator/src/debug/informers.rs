//! The informers in `/debug.json`.

use std::time::SystemTime;

use pintle_informer::{InformerState, InformerStatus};
use serde_json::{Value, json};

use super::parts::event;
use super::text::{shortened, time_of};

pub(super) fn informer(informer: &InformerStatus, now: SystemTime) -> Value {
    let InformerStatus { name, resource, state, since, objects, undecodable, first_undecodable, last_failure, .. } =
        informer;
    let (state, progress, problem) = match state {
        InformerState::Starting => ("starting", None, None),
        InformerState::Listing { progress } => ("listing", Some(progress), None),
        InformerState::Streaming { progress } => ("streaming", Some(progress), None),
        InformerState::Synced { .. } => ("synced", None, None),
        InformerState::Degraded { cause, .. } => ("degraded", None, Some(cause.to_string())),
        InformerState::Stopped { cause } => ("stopped", None, Some(cause.to_string())),
        _ => ("unknown", None, None),
    };
    let last_failure = last_failure.as_ref();
    json!({
        "name": shortened(name),
        "resource": shortened(&format!("{} {}", resource.group_version, resource.plural)),
        "state": state,
        "since": since.map(|since| time_of(since, now)),
        "objects": objects,
        // The number of objects received so far by the list in progress.
        "received": progress.map(|progress| progress.received),
        "problem": problem.as_deref().map(shortened),
        "undecodable": undecodable,
        "first_undecodable": first_undecodable.as_ref().map(|object| shortened(&object.to_string())),
        "last_failure": last_failure.map(|failure| event(&time_of(failure.at, now), &failure.error.to_string())),
    })
}
