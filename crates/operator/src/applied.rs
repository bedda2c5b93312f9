//! Determines whether an apply would change anything.
//!
//! A controller applies all its children in each reconciliation. Most of these applies change nothing. This module
//! remembers the last apply of each child and compares it with the cached object.

mod differences;

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::{replace, take};
use std::sync::{Arc, Weak};

use pintle_leaderelect::{Leadership, Version};
use pintle_meta::__private::Mutex;
use pintle_meta::{Object, ObjectKey};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::differences::{is_zero, visit_differences};
use crate::contention::Contention;

/// The maximum number of remembered objects, and of remembered children of an object, for which the controller does not
/// check whether they still exist.
const UNCHECKED: usize = 64;

/// An object that the controller applies: its type, its key, and whether its status is applied.
pub(crate) type Target = (TypeId, ObjectKey, bool);

#[derive(Debug, Default)]
pub(crate) struct Applies {
    /// The version of the leader election lock at the start of the term, or `None` without a leader election.
    term: Option<Version>,
    by_object: HashMap<ObjectKey, Arc<Mutex<Applied>>>,
    /// The number of objects that existed at the last check of all objects.
    existed: usize,
    _end_of_term: Option<AbortOnDropHandle<()>>,
}

impl Applies {
    /// Returns the last applies for an object in this term. Applies of earlier terms are forgotten, because another
    /// leader may have applied other fields since. All remembered applies are dropped at the end of the term.
    ///
    /// # Panics
    ///
    /// Panics if `term` is `Some` and the method is called outside of a tokio runtime.
    pub(crate) fn of_object(
        applies: &Arc<Mutex<Self>>,
        key: &ObjectKey,
        term: Option<&Leadership>,
    ) -> Arc<Mutex<Applied>> {
        let version = term.map(|term| &term.term().version);
        let mut guard = applies.lock();
        if guard.term.as_ref() != version {
            let end_of_term = term.map(|term| forget_after(term.clone(), Arc::downgrade(applies)));
            let before =
                replace(&mut *guard, Self { term: version.cloned(), _end_of_term: end_of_term, ..Self::default() });
            let applied = guard.by_object.entry(key.clone()).or_default().clone();
            drop(guard);
            drop(before);
            return applied;
        }
        guard.by_object.entry(key.clone()).or_default().clone()
    }

    /// Returns all objects if their number has doubled since the last call of [`forget_all`](Self::forget_all). The
    /// caller must then pass the objects that no longer exist to that method, because the controller's predicates may
    /// reject deletion events.
    pub(crate) fn to_check(&self) -> Vec<ObjectKey> {
        if self.by_object.len() <= UNCHECKED.max(2 * self.existed) {
            return Vec::new();
        }
        self.by_object.keys().cloned().collect()
    }

    /// Forgets the applies for objects that no longer exist, except for the objects that are being reconciled.
    pub(crate) fn forget_all(&mut self, gone: &HashSet<ObjectKey>) {
        self.by_object.retain(|key, applied| Arc::strong_count(applied) > 1 || !gone.contains(key));
        self.existed = self.by_object.len();
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Mutex<Applied>>> {
        self.by_object.get(key).cloned()
    }

    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.by_object.remove(key);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }
}

fn forget_after(term: Leadership, applies: Weak<Mutex<Applies>>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        term.lost().await;
        let Some(applies) = applies.upgrade() else { return };
        let by_object = {
            let mut applies = applies.lock();
            if applies.term.as_ref() == Some(&term.term().version) {
                take(&mut applies.by_object)
            } else {
                HashMap::new()
            }
        };
        drop(by_object);
    }))
}

/// The last apply of each child of a reconciled object and of the object's status.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    by_target: HashMap<Target, Last>,
    in_flight: HashMap<Target, InFlight>,
    /// The number of targets that existed at the last check of all targets.
    existed: usize,
    /// The uid of the object, and the condition types in its last applied status.
    conditions: (String, BTreeSet<String>),
}

#[derive(Clone, Debug)]
struct Last {
    /// The digest of the last applied configuration. The field is `None` while an apply is in flight, after an apply
    /// without a response, and after concurrent applies. While the field is `None`, it is unknown which configuration
    /// the server applied last.
    configuration: Option<u64>,
    uid: String,
    /// The cached object's resourceVersion when it was last found to contain the applied configuration.
    version: String,
    /// The paths of the fields whose stored value differs from the applied value, with the digests of the stored
    /// values. For example, the server normalizes quantities, or another writer adds items to a list. Another apply of
    /// the same configuration would not change these fields.
    differences: HashMap<Vec<String>, Option<u64>>,
    /// Whether a field of the configuration is missing in the stored object and is not a zero value. For example, the
    /// server turns the `stringData` of a Secret into `data`. A configuration with such a field is applied again after
    /// each change of the object, because another writer may have changed the field. An apply that changes nothing does
    /// not change the resourceVersion, so each foreign change causes at most one apply.
    has_unstored: bool,
    contention: Contention,
}

#[derive(Debug, Default)]
struct InFlight {
    count: usize,
    /// Whether another apply of the same target was in flight at the same time.
    is_concurrent: bool,
}

/// An apply in flight, which counts as an apply without a response if it is dropped before it has succeeded.
pub(crate) struct Apply<'a> {
    applied: &'a Mutex<Applied>,
    target: Target,
}

/// The result of comparing a configuration with the cached object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Current,
    /// The configuration is new, was not applied by this process, or contains a field that cannot be compared.
    Changed,
    /// The last applied configuration is unchanged, but another writer has changed the field at this path.
    Overwritten(Vec<String>),
}

impl Applied {
    /// Compares `live` with `configuration`. If `configuration` differs from the last applied configuration, the result
    /// is always `Changed`, because only an apply can remove the earlier fields. Returns `None` if only
    /// [`compare_fields`](Self::compare_fields) can decide, which the caller must then call.
    pub(crate) fn compare(&self, target: &Target, configuration: &Value, live: &impl Object) -> Option<Comparison> {
        let Some(last) = self.by_target.get(target) else { return Some(Comparison::Changed) };
        if !last.is_of(configuration, live) {
            return Some(Comparison::Changed);
        }
        (last.version == live.resource_version()).then_some(Comparison::Current)
    }

    /// Compares the fields of `live` with the configuration that was last applied. `encoded` is `live` as JSON.
    pub(crate) fn compare_fields(
        &mut self,
        target: &Target,
        configuration: &Value,
        live: &impl Object,
        encoded: &Value,
    ) -> Comparison {
        // Check again, because another task may have begun an apply since `compare` was called.
        let last = self.by_target.get_mut(target).filter(|last| last.is_of(configuration, live));
        let Some(last) = last else { return Comparison::Changed };
        let mut overwritten = None;
        visit_differences(encoded, configuration, &mut |path, live, _| {
            let is_known = last.differences.get(path) == Some(&live.map(digest));
            if !is_known {
                overwritten.get_or_insert_with(|| path.to_vec());
            }
        });
        match overwritten {
            Some(path) => Comparison::Overwritten(path),
            None if last.has_unstored => Comparison::Changed,
            None => {
                last.version = live.resource_version().into();
                Comparison::Current
            }
        }
    }

    pub(crate) fn is_report_due(&self, target: &Target, now: Instant) -> bool {
        self.by_target.get(target).is_some_and(|last| last.contention.is_due(now))
    }

    /// Records that an apply reverted a field that another writer had changed. If a report is due, returns the number
    /// of reverts in the last minute.
    pub(crate) fn revert(&mut self, target: &Target, now: Instant) -> Option<usize> {
        self.by_target.get_mut(target)?.contention.revert(now)
    }

    /// Returns how often an apply of the object or its status reverted a field in the minute before `now`.
    pub(crate) fn reverts(&self, type_id: TypeId, object: &ObjectKey, now: Instant) -> usize {
        let targets = self.by_target.iter().filter(|(target, _)| (target.0, &target.1) == (type_id, object));
        targets.map(|(_, last)| last.contention.recent(now)).sum()
    }

    /// Returns the condition types that this field manager has applied to the object with the given uid.
    pub(crate) fn own_conditions(&self, uid: &str) -> BTreeSet<String> {
        if self.conditions.0 == uid { self.conditions.1.clone() } else { BTreeSet::new() }
    }

    pub(crate) fn remember_conditions(&mut self, uid: &str, types: BTreeSet<String>) {
        self.conditions = (uid.into(), types);
    }

    /// Stores an apply of a configuration. If the number of targets has doubled, it returns all targets. The caller
    /// must then check which targets still exist.
    #[must_use]
    fn insert(&mut self, target: Target, configuration: &Value, stored: &impl Object, encoded: &Value) -> Vec<Target> {
        let contention = self.by_target.remove(&target).map(|last| last.contention).unwrap_or_default();
        let (mut differences, mut has_unstored) = (HashMap::new(), false);
        visit_differences(encoded, configuration, &mut |path, stored, applied| {
            has_unstored |= stored.is_none() && !is_zero(applied);
            differences.insert(path.to_vec(), stored.map(digest));
        });
        let is_concurrent = self.in_flight.get(&target).is_some_and(|applies| applies.is_concurrent);
        let last = Last {
            configuration: (!is_concurrent).then(|| digest(configuration)),
            uid: stored.uid().into(),
            version: stored.resource_version().into(),
            differences,
            has_unstored,
            contention,
        };
        self.by_target.insert(target, last);
        let is_due = self.by_target.len() > UNCHECKED.max(2 * self.existed);
        if is_due { self.by_target.keys().cloned().collect() } else { Vec::new() }
    }

    fn retain(&mut self, existing: &HashSet<Target>) {
        self.by_target.retain(|target, _| existing.contains(target));
        self.existed = self.by_target.len();
    }

    pub(crate) fn forget(&mut self, target: &Target) {
        self.by_target.remove(target);
    }
}

impl<'a> Apply<'a> {
    /// Begins an apply, and clears the last applied configuration. Call this method before sending the request, because
    /// the server may execute the request even if its response is lost.
    pub(crate) fn begin(applied: &'a Mutex<Applied>, target: &Target) -> Self {
        let mut guard = applied.lock();
        if let Some(last) = guard.by_target.get_mut(target) {
            last.configuration = None;
        }
        let in_flight = guard.in_flight.entry(target.clone()).or_default();
        in_flight.count += 1;
        in_flight.is_concurrent |= in_flight.count > 1;
        drop(guard);
        Self { applied, target: target.clone() }
    }

    /// Records a successful apply of a configuration. `encoded` is the stored object.
    ///
    /// When the number of targets has doubled, this method removes the targets for which `exists` returns `false`.
    /// Without this cleanup, the number of targets could grow without limit, because other writers may delete children.
    /// `exists` is called without the lock, because reading the cache can run user code.
    pub(crate) fn succeeded(
        self,
        configuration: &Value,
        stored: &impl Object,
        encoded: &Value,
        exists: impl Fn(&Target) -> bool,
    ) {
        let targets = self.applied.lock().insert(self.target.clone(), configuration, stored, encoded);
        if !targets.is_empty() {
            let existing = targets.into_iter().filter(exists).collect();
            self.applied.lock().retain(&existing);
        }
    }
}

impl Drop for Apply<'_> {
    fn drop(&mut self) {
        let mut applied = self.applied.lock();
        if let Some(in_flight) = applied.in_flight.get_mut(&self.target) {
            in_flight.count -= 1;
            if in_flight.count == 0 {
                applied.in_flight.remove(&self.target);
            }
        }
    }
}

impl Last {
    fn is_of(&self, configuration: &Value, live: &impl Object) -> bool {
        self.configuration == Some(digest(configuration)) && self.uid == live.uid()
    }
}

fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use pintle_leaderelect::{LeaderCallbacks, LeaderElectionConfig, LeaderElector, Lease, LeaseLock};
    use pintle_meta::{DynamicObject, ObjectMeta};
    use pintle_testing::Collection;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn target() -> Target {
        (TypeId::of::<DynamicObject>(), ObjectKey::new("ns", "child"), false)
    }

    fn object(version: &str, uid: &str) -> DynamicObject {
        let metadata =
            ObjectMeta { resource_version: version.into(), uid: uid.into(), ..ObjectMeta::new("ns", "child") };
        DynamicObject { metadata, ..DynamicObject::default() }
    }

    fn compared(applied: &mut Applied, configuration: &Value, live: &DynamicObject, encoded: &Value) -> Comparison {
        let compared = applied.compare(&target(), configuration, live);
        compared.unwrap_or_else(|| applied.compare_fields(&target(), configuration, live, encoded))
    }

    #[test]
    fn overwritten_field_is_named() {
        let mut applied = Applied::default();
        let configuration = json!({"spec": {"ports": [{"name": "web", "port": 80}]}});
        _ = applied.insert(target(), &configuration, &object("1", "u"), &configuration);
        let live = json!({"spec": {"ports": [{"name": "web", "port": 81}]}});
        let comparison = compared(&mut applied, &configuration, &object("2", "u"), &live);
        let path = ["spec", "ports", "0", "port"].map(str::to_owned).to_vec();
        assert_eq!(comparison, Comparison::Overwritten(path));
    }

    #[test]
    fn apply_without_an_answer_is_a_change() {
        let applied = Mutex::new(Applied::default());
        let configuration = json!({"spec": {"replicas": 1}});
        succeed(Apply::begin(&applied, &target()), &configuration, "1");
        drop(Apply::begin(&applied, &target()));
        let mut applied = applied.into_inner();
        for version in ["1", "2"] {
            let comparison = compared(&mut applied, &configuration, &object(version, "u"), &configuration);
            assert_eq!(comparison, Comparison::Changed);
        }
        let fields = applied.compare_fields(&target(), &configuration, &object("2", "u"), &configuration);
        assert_eq!(fields, Comparison::Changed, "an apply has begun since the comparison");
        _ = applied.insert(target(), &configuration, &object("2", "u"), &configuration);
        let comparison = compared(&mut applied, &configuration, &object("2", "u"), &configuration);
        assert_eq!(comparison, Comparison::Current);
    }

    #[test]
    fn concurrent_applies_are_followed_by_one_more_apply() {
        let applied = Mutex::new(Applied::default());
        let configurations = [json!({"data": {"a": "1"}}), json!({"data": {"b": "1"}})];
        let is_current = |configuration: &Value, version: &str| {
            let compared = applied.lock().compare(&target(), configuration, &object(version, "u"));
            compared == Some(Comparison::Current)
        };
        for lost in [0, 1] {
            let mut applies = [Apply::begin(&applied, &target()), Apply::begin(&applied, &target())].map(Some);
            succeed(applies[1 - lost].take().unwrap(), &configurations[1 - lost], "1");
            assert!(!is_current(&configurations[1 - lost], "1"), "the other apply is in flight");
            drop(applies);
            assert!(!is_current(&configurations[1 - lost], "1"), "the server may have executed the other apply last");
        }
        succeed(Apply::begin(&applied, &target()), &configurations[0], "2");
        assert!(is_current(&configurations[0], "2"));
        assert!(applied.lock().in_flight.is_empty());
    }

    fn succeed(apply: Apply<'_>, configuration: &Value, version: &str) {
        apply.succeeded(configuration, &object(version, "u"), configuration, |_| true);
    }

    #[test]
    fn fields_that_the_server_changes_are_current() {
        let mut applied = Applied::default();
        let configuration = json!({"cpu": "1000m", "owners": [1], "image": "x"});
        let stored = json!({"cpu": "1", "owners": [1, 2], "image": "x"});
        _ = applied.insert(target(), &configuration, &object("1", "u"), &stored);
        let mut live = stored.clone();
        live["replicas"] = json!(3);
        let mut compare = |version, live: &Value| compared(&mut applied, &configuration, &object(version, "u"), live);
        assert_eq!(compare("2", &live), Comparison::Current);
        for (field, value) in [("cpu", json!("2")), ("owners", json!([1, 3])), ("image", json!("y"))] {
            let mut live = live.clone();
            live[field] = value;
            assert_eq!(compare("3", &live), Comparison::Overwritten(vec![field.to_owned()]));
        }
    }

    #[test]
    fn field_that_is_not_stored_is_applied_again() {
        let mut applied = Applied::default();
        let configuration = json!({"stringData": {"a": "b"}});
        let stored = json!({"data": {"a": "Yg=="}});
        _ = applied.insert(target(), &configuration, &object("1", "u"), &stored);
        let mut compare = |version| compared(&mut applied, &configuration, &object(version, "u"), &stored);
        assert_eq!([compare("1"), compare("2")], [Comparison::Current, Comparison::Changed]);
        _ = applied.insert(target(), &configuration, &object("2", "u"), &stored);
        assert_eq!(compared(&mut applied, &configuration, &object("2", "u"), &stored), Comparison::Current);
    }

    /// The server omits zero values, but keeps empty strings in maps.
    #[test]
    fn omitted_zero_values_are_current() {
        let mut applied = Applied::default();
        let configuration = json!({"spec": {
            "env": [{"name": "A", "value": ""}], "hostNetwork": false, "ready": 0, "labels": {"a": ""},
        }});
        let stored = json!({"spec": {"env": [{"name": "A"}], "labels": {"a": ""}}});
        _ = applied.insert(target(), &configuration, &object("1", "u"), &stored);
        let mut compare = |version, live: &Value| compared(&mut applied, &configuration, &object(version, "u"), live);
        assert_eq!(compare("2", &stored), Comparison::Current);
        for (name, value) in [("hostNetwork", json!(true)), ("ready", json!(5)), ("labels", json!({}))] {
            let mut live = stored.clone();
            live["spec"][name] = value;
            let Comparison::Overwritten(path) = compare("3", &live) else { panic!("{name} has changed") };
            assert_eq!(path[1], name);
        }
    }

    #[test]
    fn conditions_are_compared_by_type() {
        let mut applied = Applied::default();
        let status = |conditions: Value| json!({"status": {"conditions": conditions}});
        let configuration = status(json!([{"type": "Own", "status": "True"}]));
        _ = applied.insert(target(), &configuration, &object("1", "u"), &configuration);
        let mut compare =
            |version, live: Value| compared(&mut applied, &configuration, &object(version, "u"), &status(live));
        let other = json!({"type": "Other", "status": "True"});
        assert_eq!(compare("2", json!([other, {"type": "Own", "status": "True"}])), Comparison::Current);
        let path = ["status", "conditions", "0", "status"].map(str::to_owned).to_vec();
        assert_eq!(compare("3", json!([other, {"type": "Own", "status": "False"}])), Comparison::Overwritten(path));
        let path = ["status", "conditions", "0"].map(str::to_owned).to_vec();
        assert_eq!(compare("4", json!([other])), Comparison::Overwritten(path));
    }

    #[test]
    fn targets_that_no_longer_exist_are_forgotten() {
        let applied = Mutex::new(Applied::default());
        let child = |number: usize| (TypeId::of::<DynamicObject>(), ObjectKey::new("ns", &number.to_string()), false);
        let checks = Cell::new(0);
        for number in 0..100_000_usize {
            let exists = |target: &Target| {
                assert!(applied.try_lock().is_some(), "the lock is held");
                checks.set(checks.get() + 1);
                (number.saturating_sub(9)..=number).any(|number| *target == child(number))
            };
            Apply::begin(&applied, &child(number)).succeeded(&json!({}), &object("1", "u"), &json!({}), exists);
            let targets = &applied.lock().by_target;
            assert!(targets.len() <= UNCHECKED && targets.contains_key(&child(number)));
        }
        assert!(checks.get() < 200_000, "the checks are rare: {}", checks.get());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_freed_when_the_term_ends() {
        let (applies, key) = (Arc::<Mutex<Applies>>::default(), ObjectKey::new("ns", "site"));
        let first = Applies::of_object(&applies, &key, None);
        assert!(Arc::ptr_eq(&first, &Applies::of_object(&applies, &key, None)));
        let leases = Collection::<Lease>::default();
        let config = LeaderElectionConfig { identity: "a".into(), ..LeaderElectionConfig::default() };
        let mut elector = LeaderElector::new(LeaseLock::new(leases.client("a"), "ns", "lock"), config).unwrap();
        let (sender, mut terms) = tokio::sync::mpsc::unbounded_channel();
        let work = LeaderCallbacks::new(move |leadership: Leadership| {
            sender.send(leadership.clone()).unwrap();
            async move { leadership.cancelled().await }
        });
        let stop = CancellationToken::new();
        let token = stop.clone();
        let run = tokio::spawn(async move { elector.run(&token, work).await });
        let term = terms.recv().await.unwrap();
        let applied = Applies::of_object(&applies, &key, Some(&term));
        assert!(!Arc::ptr_eq(&first, &applied), "the term is another");
        assert!(Arc::ptr_eq(&applied, &Applies::of_object(&applies, &key, Some(&term))));
        applies.lock().forget(&key);
        assert!(!Arc::ptr_eq(&applied, &Applies::of_object(&applies, &key, Some(&term))));
        stop.cancel();
        run.await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(applies.lock().by_object.is_empty());
    }

    #[test]
    fn deleted_object_is_forgotten() {
        let mut applied = Applied::default();
        _ = applied.insert(target(), &json!({}), &object("1", "u"), &json!({}));
        applied.forget(&target());
        assert!(applied.by_target.is_empty());
    }

    #[test]
    fn same_configuration_is_current_until_a_field_differs() {
        let mut applied = Applied::default();
        let configuration = json!({"data": {"a": "1"}});
        let is_current = |applied: &mut Applied, configuration: &Value, live: &DynamicObject, data: Value| {
            compared(applied, configuration, live, &data) == Comparison::Current
        };
        let same = json!({"data": {"a": "1", "theirs": "2"}});
        assert!(
            !is_current(&mut applied, &configuration, &object("1", "u"), same.clone()),
            "nothing was applied before"
        );
        _ = applied.insert(target(), &configuration, &object("1", "u"), &configuration);
        assert!(is_current(&mut applied, &configuration, &object("1", "u"), Value::Null), "same version: not compared");
        assert!(is_current(&mut applied, &configuration, &object("2", "u"), same.clone()), "another field was changed");
        assert!(
            is_current(&mut applied, &configuration, &object("2", "u"), Value::Null),
            "the new version is remembered"
        );
        assert!(!is_current(&mut applied, &configuration, &object("3", "u"), json!({"data": {"a": "0"}})));
        assert!(!is_current(&mut applied, &configuration, &object("2", "other"), same.clone()), "it was recreated");
        assert!(!is_current(&mut applied, &json!({"data": {}}), &object("2", "u"), same), "a field is to be removed");
    }
}
