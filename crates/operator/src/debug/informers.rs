//! The informers in `/debug.json`.

use std::time::SystemTime;

use pintle_informer::{InformerState, InformerStatus, LastFailure, ListProgress};

use super::document::{self, Event, Informer};
use super::text::{shortened, time_of};

pub(super) fn informer(informer: &InformerStatus, now: SystemTime) -> Informer {
    use document::InformerState::{Degraded, Listing, Starting, Stopped, Streaming, Synced, Unknown};
    let InformerStatus { name, resource, state, since, objects, undecodable, first_undecodable, last_failure, .. } =
        informer;
    let (shown, received, problem) = match state {
        InformerState::Starting => (Starting, None, None),
        InformerState::Listing { progress } => (Listing, Some(progress), None),
        InformerState::Streaming { progress } => (Streaming, Some(progress), None),
        InformerState::Synced { .. } => (Synced, None, None),
        InformerState::Degraded { cause, .. } => (Degraded, None, Some(cause.to_string())),
        InformerState::Stopped { cause } => (Stopped, None, Some(cause.to_string())),
        _ => (Unknown, None, None),
    };
    let event =
        |LastFailure { at, error }: &LastFailure| Event { at: time_of(*at, now), text: shortened(&error.to_string()) };
    Informer {
        name: shortened(name),
        resource: shortened(&format!("{} {}", resource.group_version, resource.plural)),
        state: shown,
        since: since.map(|since| time_of(since, now)),
        objects: *objects,
        received: received.map(|ListProgress { received, .. }| *received),
        problem: problem.as_deref().map(shortened),
        undecodable: *undecodable,
        first_undecodable: first_undecodable.as_ref().map(|object| shortened(&object.to_string())),
        last_failure: last_failure.as_ref().map(event),
    }
}
