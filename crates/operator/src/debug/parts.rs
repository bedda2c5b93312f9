//! The parts that several members of `/debug.json` share. [`Manager::debug`](crate::Manager::debug) documents the
//! format for users.

use serde_json::{Value, json};

use super::text::shortened;

/// The maximum number of items in the lists of controllers, informers, checks and so on.
pub(super) const MOST: usize = 100;

/// Maps the first [`MOST`] items with `map`.
pub(super) fn of_most<T, U>(parts: &[T], map: impl FnMut(&T) -> U) -> Vec<U> {
    parts.iter().take(MOST).map(map).collect()
}

pub(super) fn check(name: &str, problem: Option<&str>) -> Value {
    json!({"name": shortened(name), "problem": problem.map(shortened)})
}

/// Returns a text with a timestamp.
pub(super) fn event(at: &str, text: &str) -> Value {
    json!({"at": at, "text": shortened(text)})
}
