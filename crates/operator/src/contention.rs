//! Finds fields that this controller applies and that another writer repeatedly changes back.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

/// The length of the time window in which reverts are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The number of reverts within the window that causes a report. At most one report is made per window.
const REVERTS: usize = 5;

/// The recent reverts of the fields of one applied object. A revert is a change by another writer that undoes an apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contention {
    reverts: VecDeque<Instant>,
    reported: Option<Instant>,
}

impl Contention {
    /// Returns whether [`revert`](Self::revert) would report one more revert.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.clone().revert(now).is_some()
    }

    /// Counts a revert. If a report is due, returns the number of reverts within the last minute.
    pub(crate) fn revert(&mut self, now: Instant) -> Option<usize> {
        self.reverts.push_back(now);
        while self.reverts.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.reverts.pop_front();
        }
        let is_quiet = self.reported.is_none_or(|at| now.duration_since(at) > WINDOW);
        if self.reverts.len() < REVERTS || !is_quiet {
            return None;
        }
        self.reported = Some(now);
        let count = self.reverts.len();
        Some(count)
    }
}

/// Returns the field managers, except for `own`, that own the field at `path` according to the object's
/// `managedFields`.
pub(crate) fn other_managers(object: &Value, path: &[String], own: &str) -> Vec<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut managers: Vec<_> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["fieldsV1"].as_object().is_some_and(|fields| owns(fields, path)))
        .filter_map(|entry| entry["manager"].as_str())
        .filter(|manager| *manager != own)
        .map(str::to_owned)
        .collect();
    managers.sort();
    managers.dedup();
    managers
}

/// Returns whether `fields` contains the field at `path`, or a whole list or map that contains this field.
fn owns(fields: &Map<String, Value>, path: &[String]) -> bool {
    let Some((name, below)) = path.split_first() else { return true };
    // `fields` identifies the items of a list by keys instead of positions. Therefore, an index in the path matches
    // every item of the list.
    let is_item = name.parse::<usize>().is_ok();
    let mut matching = fields
        .iter()
        .filter(|(field, _)| if is_item { !field.starts_with("f:") } else { field.strip_prefix("f:") == Some(name) });
    matching.any(|(_, inner)| inner.as_object().is_none_or(|inner| inner.is_empty() || owns(inner, below)))
}

/// Formats a path for messages that people read, such as `.spec.containers[0].image`.
pub(crate) fn display(path: &[String]) -> String {
    path.iter()
        .map(|name| if name.parse::<usize>().is_ok() { format!("[{name}]") } else { format!(".{name}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(path: &str) -> Vec<String> {
        path.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn fifth_revert_in_a_minute_is_reported_once() {
        let (mut contention, start) = (Contention::default(), Instant::now());
        let mut reports = Vec::new();
        for second in 0..200 {
            if let Some(count) = contention.revert(start + Duration::from_secs(second)) {
                reports.push((second, count));
            }
        }
        assert_eq!(reports, [(4, 5), (65, 61), (126, 61), (187, 61)]);
        let mut rare = Contention::default();
        assert!((0..100).all(|minute| rare.revert(start + Duration::from_secs(20 * minute)).is_none()));
    }

    #[test]
    fn managers_of_the_field_are_found() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let object = json!({"metadata": {"managedFields": [
            entry("website-controller", json!({"f:data": {"f:url": {}}})),
            entry("kubectl-edit", json!({"f:data": {".": {}, "f:url": {}}})),
            entry("atomic", json!({"f:data": {}})),
            entry("other", json!({"f:data": {"f:theirs": {}}, "f:spec": {"f:ports": {"k:{\"port\":80}": {"f:name": {}}}}})),
        ]}});
        let others = |at: &str| other_managers(&object, &path(at), "website-controller");
        assert_eq!(others("data/url"), ["atomic", "kubectl-edit"]);
        assert_eq!(others("spec/ports/0/name"), ["other"]);
        assert!(others("spec/replicas").is_empty());
        assert!(other_managers(&json!({}), &path("data"), "x").is_empty());
    }

    #[test]
    fn path_is_readable() {
        assert_eq!(display(&path("spec/containers/0/image")), ".spec.containers[0].image");
    }
}
