//! The controllers and their keys in `/debug.json`.

use pintle_controller::{ControllerStatus, Explanation as Explained, LastCall, WorkState};

use super::document::{self, Blocked, Call, Check, Event, Explanation, Key, KeyState, MOST, Queue, of_most};
use super::text::{seconds, shortened, time};

/// The maximum number of keys in a list.
const KEYS: usize = 10;
/// The maximum total number of keys in all lists of the same kind.
const KEYS_IN_ALL: usize = 200;
/// The maximum number of causes per key in a list. The explanation of a single key contains all its causes.
const CAUSES: usize = 3;

/// Returns the maximum number of keys per list, which bounds the size of the response.
pub(super) fn keys_per_list(controllers: usize) -> usize {
    (KEYS_IN_ALL / controllers.clamp(1, MOST)).min(KEYS)
}

pub(super) fn controller(controller: &ControllerStatus, keys: usize) -> document::Controller {
    let queue = controller.queue_counts();
    let list = |found: Vec<Explained<String>>| found.iter().map(|explained| key(explained, CAUSES)).collect();
    document::Controller {
        name: shortened(controller.name()),
        running: queue.is_some(),
        max_concurrent_reconciles: controller.max_concurrent_reconciles(),
        queue: queue.map(|counts| Queue {
            queued: counts.queued,
            in_flight: counts.in_flight,
            dirty_in_flight: counts.dirty_in_flight,
            delayed: counts.delayed,
            idle: counts.idle,
        }),
        blocked: blocked(controller, keys),
        sources: of_most(&controller.sources(), |(name, problem)| Check {
            name: shortened(name),
            problem: problem.as_deref().map(shortened),
        }),
        failing: list(controller.most_failing(keys)),
        slowest: list(controller.slowest(keys)),
        active: list(controller.most_active(keys)),
    }
}

pub(super) fn explanation(controller: &ControllerStatus, explained: &Explained<String>) -> Explanation {
    Explanation { controller: shortened(controller.name()), key: key(explained, usize::MAX) }
}

/// Returns the reconciliations that have blocked their threads, longest first.
fn blocked(controller: &ControllerStatus, keys: usize) -> Vec<Blocked> {
    let mut calls = controller.blocked_calls();
    calls.sort_by(|(_, one), (_, other)| other.cmp(one));
    let calls = calls.iter().take(keys);
    calls.map(|(key, lasts)| Blocked { key: shortened(key), seconds: seconds(*lasts) }).collect()
}

fn key(Explained { key, state, history, .. }: &Explained<String>, causes: usize) -> Key {
    let history = history.as_ref();
    let (state, due) = match *state {
        WorkState::InFlight { queued_again: false } => (KeyState::InFlight, None),
        WorkState::InFlight { queued_again: true } => (KeyState::InFlightDirty, None),
        WorkState::Queued => (KeyState::Queued, None),
        WorkState::RetryIn(due) => (KeyState::Retry, Some(due)),
        WorkState::RequeueIn(due) => (KeyState::Requeue, Some(due)),
        WorkState::Idle => (KeyState::Idle, None),
        WorkState::NotRunning => (KeyState::NotRunning, None),
    };
    let newest = history.into_iter().flat_map(|history| history.causes.iter().rev());
    let newest = newest.take(causes);
    Key {
        key: shortened(key),
        state,
        due_in_seconds: due.map(seconds),
        causes_total: history.map_or(0, |history| history.total),
        causes: newest.map(|cause| Event { at: time(cause.at), text: shortened(&cause.reason.to_string()) }).collect(),
        last_call: history.and_then(|history| history.last_call.as_ref()).map(call),
    }
}

fn call(LastCall { at, took, error, failures }: &LastCall) -> Call {
    Call { at: time(*at), seconds: seconds(*took), error: error.as_deref().map(shortened), failures: *failures }
}
