//! The controllers and their keys in `/debug.json`.

use pintle_controller::{ControllerStatus, Explanation, LastCall, WorkState};
use serde_json::{Value, json};

use super::parts::{MOST, check, event, of_most};
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

pub(super) fn controller(controller: &ControllerStatus, keys: usize) -> Value {
    let queue = controller.queue_counts();
    let list = |found: Vec<Explanation<String>>| -> Vec<_> { found.iter().map(|found| key(found, CAUSES)).collect() };
    json!({
        "name": shortened(controller.name()),
        "running": queue.is_some(),
        "max_concurrent_reconciles": controller.max_concurrent_reconciles(),
        "queue": queue.map(|counts| json!({
            "queued": counts.queued,
            "in_flight": counts.in_flight,
            "dirty_in_flight": counts.dirty_in_flight,
            "delayed": counts.delayed,
            "idle": counts.idle,
        })),
        "blocked": blocked(controller, keys),
        "sources": of_most(&controller.sources(), |(name, problem)| check(name, problem.as_deref())),
        "failing": list(controller.most_failing(keys)),
        "slowest": list(controller.slowest(keys)),
        "active": list(controller.most_active(keys)),
    })
}

pub(super) fn explanation(controller: &ControllerStatus, explained: &Explanation<String>) -> Value {
    let mut explanation = key(explained, usize::MAX);
    explanation["controller"] = shortened(controller.name()).into();
    explanation
}

/// Returns the reconciliations that have blocked their threads, longest first.
fn blocked(controller: &ControllerStatus, keys: usize) -> Vec<Value> {
    let mut calls = controller.blocked_calls();
    calls.sort_by(|(_, one), (_, other)| other.cmp(one));
    let calls = calls.iter().take(keys);
    calls.map(|(key, lasts)| json!({"key": shortened(key), "seconds": seconds(*lasts)})).collect()
}

fn key(Explanation { key, state, history, .. }: &Explanation<String>, causes: usize) -> Value {
    let history = history.as_ref();
    let (state, due) = match *state {
        WorkState::InFlight { queued_again: false } => ("in_flight", None),
        WorkState::InFlight { queued_again: true } => ("in_flight_dirty", None),
        WorkState::Queued => ("queued", None),
        WorkState::RetryIn(due) => ("retry", Some(due)),
        WorkState::RequeueIn(due) => ("requeue", Some(due)),
        WorkState::Idle => ("idle", None),
        WorkState::NotRunning => ("not_running", None),
    };
    let newest = history.into_iter().flat_map(|history| history.causes.iter().rev());
    let newest = newest.take(causes);
    json!({
        "key": shortened(key),
        "state": state,
        "due_in_seconds": due.map(seconds),
        "causes_total": history.map_or(0, |history| history.total),
        "causes": newest.map(|cause| event(&time(cause.at), &cause.reason.to_string())).collect::<Vec<_>>(),
        "last_call": history.and_then(|history| history.last_call.as_ref()).map(call),
    })
}

fn call(LastCall { at, took, error, failures }: &LastCall) -> Value {
    let error = error.as_deref().map(shortened);
    json!({"at": time(*at), "seconds": seconds(*took), "error": error, "failures": failures})
}
