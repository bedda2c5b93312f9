//! Detects fields that another writer repeatedly reverts after writes of this controller.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

/// The time window for counting reverts.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// The minimum number of reverts in a window that causes a report. Each window has at most one report.
const REVERTS: usize = 5;
const MOST: usize = 1_000;
/// The number of consecutive checks without common fields after which further checks are delayed. A check finds no
/// common fields if the other writer writes again before the check reads the object.
const ATTEMPTS: u32 = 3;
/// The maximum number of times that the interval between two checks is doubled. The longest interval is about an hour.
const DOUBLINGS: u32 = 6;

/// Recent reverts of one object's fields. A revert is a change by another writer that undoes a write of this
/// controller, such as an apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contention {
    reverts: VecDeque<Instant>,
    reported: Option<Instant>,
    /// The number of consecutive checks that found no common fields.
    unfounded: u32,
}

impl Contention {
    /// Returns `true` if one more call of [`revert`](Self::revert) would cause a report.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.clone().revert(now).is_some()
    }

    /// Counts a revert. If a report is due, returns the number of reverts in the last minute.
    pub(crate) fn revert(&mut self, now: Instant) -> Option<usize> {
        self.count(now);
        self.report(now)
    }

    pub(crate) fn count(&mut self, now: Instant) {
        self.reverts.push_back(now);
        while self.reverts.len() > MOST || self.reverts.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.reverts.pop_front();
        }
    }

    /// If a report is due, returns the number of reverts in the last minute. The caller must then make the report.
    /// [`count`](Self::count) must be called first.
    pub(crate) fn report(&mut self, now: Instant) -> Option<usize> {
        let period = match self.unfounded {
            0 => WINDOW,
            1..ATTEMPTS => Duration::ZERO,
            more => WINDOW * (1 << (more - ATTEMPTS + 1).min(DOUBLINGS)),
        };
        let is_quiet = self.reported.is_none_or(|at| now.duration_since(at) > period);
        if self.reverts.len() < REVERTS || !is_quiet {
            return None;
        }
        self.reported = Some(now);
        let count = self.reverts.len();
        Some(count)
    }

    pub(crate) fn recent(&self, now: Instant) -> usize {
        self.reverts.iter().filter(|at| now.duration_since(**at) <= WINDOW).count()
    }

    pub(crate) fn is_recent(&self, now: Instant) -> bool {
        self.reverts.back().is_some_and(|at| now.duration_since(*at) <= WINDOW)
    }

    /// Records whether a check found common fields. After three consecutive checks without common fields, each further
    /// one doubles the interval before the next check.
    pub(crate) fn checked(&mut self, is_contended: bool) {
        self.unfounded = if is_contended { 0 } else { self.unfounded.saturating_add(1) };
    }
}

/// Returns the fields that `own` took from `other`: `other` owned them in the object `before`, and `own` owns them in
/// the object `after`. The fields have the form `.spec.containers[name=web].image`.
pub(crate) fn taken_fields(before: &Value, after: &Value, own: &str, other: &str) -> BTreeSet<String> {
    let lost = &owned_fields(before, other) - &owned_fields(after, other);
    let gained = &owned_fields(after, own) - &owned_fields(before, own);
    &lost & &gained
}

fn owned_fields(object: &Value, manager: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in entries.into_iter().flatten().filter(|entry| entry["manager"] == manager) {
        if let Some(fields) = entry["fieldsV1"].as_object() {
            visit_leaves(fields, &mut String::new(), &mut found);
        }
    }
    found
}

fn visit_leaves(fields: &Map<String, Value>, path: &mut String, found: &mut BTreeSet<String>) {
    // Skip the entry `.`, which represents the list or map itself.
    for (name, inner) in fields.iter().filter(|(name, _)| *name != ".") {
        let length = path.len();
        path.push_str(&step(name));
        match inner.as_object().filter(|inner| inner.keys().any(|name| name != ".")) {
            Some(inner) => visit_leaves(inner, path, found),
            None => _ = found.insert(path.clone()),
        }
        path.truncate(length);
    }
}

/// Formats a path element of `fieldsV1`: a field name, or the keys, value or index of a list item.
fn step(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("k", keys)) => match serde_json::from_str::<Map<String, Value>>(keys) {
            Ok(keys) => {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let keys: Vec<_> = keys.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
                format!("[{}]", keys.join(","))
            }
            Err(_) => format!("[{keys}]"),
        },
        Some((_, value)) => format!("[{value}]"),
        None => format!(".{element}"),
    }
}

/// Returns the field managers other than `own` that own the field at `path`, according to the object's `managedFields`.
/// `applied` is the applied configuration, which the list indexes in `path` refer to.
pub(crate) fn other_managers(object: &Value, path: &[String], applied: &Value, own: &str) -> Vec<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut managers: Vec<_> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["fieldsV1"].as_object().is_some_and(|fields| owns(fields, path, applied)))
        .filter_map(|entry| entry["manager"].as_str())
        .filter(|manager| *manager != own)
        .map(str::to_owned)
        .collect();
    managers.sort();
    managers.dedup();
    managers
}

/// Returns `true` if `fields` contains the field at `path`, or a whole list or map around this field.
fn owns(fields: &Map<String, Value>, path: &[String], applied: &Value) -> bool {
    // A manager that owns only some items of a list does not own the whole list.
    let Some((name, below)) = path.split_first() else { return fields.keys().any(|field| field == ".") };
    let inner = match name.parse::<usize>() {
        Ok(index) if applied.is_array() => &applied[index],
        _ => &applied[name],
    };
    let is_on_path = |field: &str| match field.split_once(':') {
        Some(("f", member)) => !applied.is_array() && member == name,
        Some(("k", keys)) => applied.is_array() && has_keys(inner, keys),
        Some(("v", value)) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *inner),
        _ => false,
    };
    let mut matching = fields.iter().filter(|(field, _)| is_on_path(field));
    matching.any(|(_, fields)| fields.as_object().is_none_or(|fields| fields.is_empty() || owns(fields, below, inner)))
}

/// Returns `true` if the list item matches `keys`, which is a JSON object. A missing key matches every value, because
/// the server sets a default for it.
fn has_keys(item: &Value, keys: &str) -> bool {
    let keys = serde_json::from_str::<Map<String, Value>>(keys).unwrap_or_default();
    !keys.is_empty() && keys.iter().all(|(name, value)| item.get(name).is_none_or(|given| given == value))
}

/// Returns whether the field at `path` has the same value in both objects, or `None` if the result is unknown. The
/// result is unknown if the field is missing in one of the objects. The result is also unknown if the path contains
/// list indexes, which may be different on the server.
pub(crate) fn is_equal_at(path: &[String], one: &Value, other: &Value) -> Option<bool> {
    let at = |object| path.iter().try_fold(object, |value: &Value, name| value.as_object()?.get(name));
    let (one, other): (Option<&Value>, Option<&Value>) = (at(one), at(other));
    Some(one? == other?)
}

/// Formats a path for messages, such as `.spec.containers[0].image`.
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
            entry("injector", json!({"f:spec": {"f:ports": {"k:{\"port\":443,\"protocol\":\"TCP\"}": {"f:name": {}}}}})),
            entry("tagger", json!({"f:spec": {"f:tags": {"v:\"blue\"": {}}}})),
        ]}});
        let ports = json!([{"port": 80, "name": "a"}, {"port": 443, "name": "b"}]);
        let applied = json!({"data": {"url": "x"}, "spec": {"ports": ports, "tags": ["red", "blue"], "replicas": 1}});
        let others = |at: &str| other_managers(&object, &path(at), &applied, "website-controller");
        assert_eq!(others("data/url"), ["atomic", "kubectl-edit"]);
        assert_eq!(others("spec/ports/0/name"), ["other"]);
        assert_eq!(others("spec/ports/1/name"), ["injector"]);
        assert!(others("spec/tags/0").is_empty());
        assert_eq!(others("spec/tags/1"), ["tagger"]);
        assert!(others("spec/replicas").is_empty());
        assert!(others("spec/ports").is_empty(), "they own items, but not the list");
        assert_eq!(others("data"), ["atomic", "kubectl-edit"]);
        assert!(other_managers(&json!({}), &path("data"), &applied, "x").is_empty());
    }

    #[test]
    fn checks_without_a_result_become_rare() {
        let (mut contention, start, mut reports) = (Contention::default(), Instant::now(), Vec::new());
        for minute in 0..400 {
            for second in 0..5 {
                let now = start + Duration::from_secs(60 * minute + second);
                if contention.revert(now).is_some() {
                    contention.checked(reports.len() > 8);
                    reports.push(minute);
                }
            }
        }
        assert_eq!(reports[..11], [0, 1, 1, 3, 7, 15, 32, 64, 128, 192, 193]);
    }

    #[test]
    fn taken_fields_moved_to_the_other_writer() {
        let object = |own: Value, other: Value| {
            let entry = |manager: &str, fields| json!({"manager": manager, "fieldsV1": fields});
            json!({"metadata": {"managedFields": [entry("own", own), entry("other", other)]}})
        };
        let ports =
            |name: &str| json!({"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, name: {}}}});
        let taken = |before: &Value, after: &Value| -> Vec<_> {
            taken_fields(before, after, "own", "other").into_iter().collect()
        };
        let both = json!({"f:data": {"f:a": {}, "f:b": {}}});
        let (a, b) = (json!({"f:data": {"f:a": {}}}), json!({"f:data": {"f:b": {}}}));
        assert_eq!(taken(&object(json!({}), both.clone()), &object(a.clone(), b.clone())), [".data.a"]);
        assert!(taken(&object(a.clone(), b.clone()), &object(a.clone(), b.clone())).is_empty(), "different fields");
        assert!(taken(&object(json!({}), both.clone()), &object(a.clone(), both)).is_empty(), "both have one value");
        assert!(taken(&object(json!({}), a.clone()), &object(b, json!({}))).is_empty(), "one field was deleted");
        assert!(taken(&object(json!({}), json!({})), &object(a, json!({}))).is_empty(), "the field is new");
        let spec = |name: &str| json!({"f:spec": ports(name)});
        let moved = taken(&object(json!({}), spec("f:name")), &object(spec("f:name"), json!({})));
        assert_eq!(moved, [".spec.ports[port=80,protocol=TCP].name"]);
        assert!(taken(&json!({}), &json!({})).is_empty());
    }

    #[test]
    fn fields_are_compared_by_their_path() {
        let object = |ports: Value, name: &str| json!({"spec": {"ports": ports, "name": name}});
        let (one, other) = (object(json!([1, 2]), "a"), object(json!([1, 2]), "b"));
        assert_eq!(is_equal_at(&path("spec/ports"), &one, &other), Some(true));
        assert_eq!(is_equal_at(&path("spec/name"), &one, &other), Some(false));
        assert_eq!(is_equal_at(&path("spec/ports/0"), &one, &other), None);
        assert_eq!(is_equal_at(&path("spec/url"), &one, &other), None);
    }

    #[test]
    fn path_is_readable() {
        assert_eq!(display(&path("spec/containers/0/image")), ".spec.containers[0].image");
    }
}
