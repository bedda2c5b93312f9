//! An index of the stored admission policies and their bindings, which is updated when the store changes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pintle_admission::policy::CompiledPolicy;
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_storage::{Db, Stored, Tree};

use super::compiled::{Compiled, Index};

const VALIDATING: [&str; 2] = [
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];
const MUTATING: [&str; 2] = [
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
];

/// The admission policies of one store.
#[derive(Debug, Default)]
pub struct Policies(Compiled<PolicyIndex>);

impl Policies {
    /// Returns the validating admission policies with bindings, by name. All calls must pass the same `db`.
    pub fn validating(&self, db: &Db) -> BoundPolicies {
        self.0.query(db, |index| index.validating.bound.clone())
    }

    /// Returns the mutating admission policies with bindings, by name. All calls must pass the same `db`.
    pub fn mutating(&self, db: &Db) -> BoundPolicies {
        self.0.query(db, |index| index.mutating.bound.clone())
    }
}

/// A snapshot of the policies with bindings, by name, which shares the policies with the index.
pub type BoundPolicies = Tree<Arc<BoundPolicy>>;

#[derive(Debug)]
pub struct BoundPolicy {
    pub name: String,
    pub spec: Arc<Json>,
    compiled: Arc<OnceLock<CompiledPolicy>>,
    /// The bindings of the policy, by name.
    pub bindings: Tree<Arc<Binding>>,
}

impl BoundPolicy {
    /// Returns the compiled policy. The first call compiles the policy, which can take long. The index does not compile
    /// it, because other requests would then wait for the lock of the index.
    pub fn compiled(&self) -> &CompiledPolicy {
        self.compiled.get_or_init(|| CompiledPolicy::new(&self.spec))
    }
}

#[derive(Debug)]
pub struct Binding {
    pub name: String,
    pub spec: Json,
}

#[derive(Debug, Default)]
struct PolicyIndex {
    validating: Family,
    mutating: Family,
}

#[derive(Debug, Default)]
struct Family {
    policies: HashMap<Box<str>, UnboundPolicy>,
    /// The bindings of each policy name, including names of policies that do not exist.
    bindings: HashMap<Box<str>, Tree<Arc<Binding>>>,
    policy_names: HashMap<Box<str>, Box<str>>,
    bound: BoundPolicies,
}

#[derive(Clone, Debug)]
struct UnboundPolicy {
    spec: Arc<Json>,
    compiled: Arc<OnceLock<CompiledPolicy>>,
}

impl Family {
    fn put_policy(&mut self, name: &str, spec: Json) {
        // Keep the compiled policy if the spec is unchanged, for example after an update of the status.
        if self.policies.get(name).is_some_and(|known| *known.spec == spec) {
            return;
        }
        self.policies.insert(name.into(), UnboundPolicy { spec: Arc::new(spec), compiled: Arc::default() });
        self.rebind(name);
    }

    fn remove_policy(&mut self, name: &str) {
        self.policies.remove(name);
        self.rebind(name);
    }

    fn put_binding(&mut self, key: &str, binding: Binding) {
        self.remove_binding(key);
        let policy = binding.spec.text("/policyName").to_owned();
        self.bindings.entry(policy.as_str().into()).or_default().insert(key, Arc::new(binding));
        self.rebind(&policy);
        self.policy_names.insert(key.into(), policy.into());
    }

    fn remove_binding(&mut self, key: &str) {
        let Some(policy) = self.policy_names.remove(key) else { return };
        if let Some(bindings) = self.bindings.get_mut(&policy) {
            bindings.remove(key);
            if bindings.is_empty() {
                self.bindings.remove(&policy);
            }
        }
        self.rebind(&policy);
    }

    /// Updates one policy in the snapshot, which contains all policies with bindings.
    fn rebind(&mut self, name: &str) {
        let (Some(policy), Some(bindings)) = (self.policies.get(name), self.bindings.get(name)) else {
            self.bound.remove(name);
            return;
        };
        let UnboundPolicy { spec, compiled } = policy.clone();
        let bound = BoundPolicy { name: name.to_owned(), spec, compiled, bindings: bindings.clone() };
        self.bound.insert(name, Arc::new(bound));
    }
}

impl PolicyIndex {
    fn family(&mut self, resource: &str) -> &mut Family {
        if VALIDATING.contains(&resource) { &mut self.validating } else { &mut self.mutating }
    }
}

fn is_policy(resource: &str) -> bool {
    resource == VALIDATING[0] || resource == MUTATING[0]
}

impl Index for PolicyIndex {
    const RESOURCES: &'static [&'static str] = &[VALIDATING[0], VALIDATING[1], MUTATING[0], MUTATING[1]];

    fn put(&mut self, resource: &str, key: &str, stored: &Stored) {
        let family = self.family(resource);
        let object = stored.decode();
        let spec = object.get("spec").cloned().unwrap_or_default();
        if is_policy(resource) {
            family.put_policy(key, spec);
        } else {
            family.put_binding(key, Binding { name: metadata::name(&object).to_owned(), spec });
        }
    }

    fn remove(&mut self, resource: &str, key: &str) {
        let family = self.family(resource);
        if is_policy(resource) { family.remove_policy(key) } else { family.remove_binding(key) }
    }
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;
    use pintle_json::json;
    use pintle_storage::Expect;

    use super::*;
    use crate::compiled::tests::db;

    fn put(db: &Db, resource: &str, name: &str, spec: Json) {
        let expect = db.get(resource, name).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        let object = json!({"metadata": {"name": name}, "spec": spec});
        db.put(&resource.into(), name, expect, object).expect("no concurrent writer");
    }

    fn remove(db: &Db, resource: &str, name: &str) {
        let at = db.get(resource, name).expect("an existing object").revision();
        db.remove(&resource.into(), name, at).expect("no concurrent writer");
    }

    fn bind(db: &Db, resources: [&str; 2], binding: &str, policy: &str) {
        put(db, resources[1], binding, json!({"policyName": policy}));
    }

    fn put_pairs(db: &Db, count: usize) {
        for at in 0..count {
            let name = format!("p{at}");
            put(db, VALIDATING[0], &name, json!({"validations": [{"expression": "true"}]}));
            bind(db, VALIDATING, &name, &name);
        }
    }

    #[test]
    fn index_is_built_in_linear_time() {
        let few = db();
        put_pairs(&few, 50);
        let many = db();
        put_pairs(&many, 200);
        assert!(is_linear(50, |count| {
            let bound = Policies::default().validating(if count == 50 { &few } else { &many });
            assert_eq!(bound.iter().count(), count);
        }));
    }

    #[test]
    fn binding_change_rebinds_only_its_policy() {
        let (db, policies) = (db(), Policies::default());
        put_pairs(&db, 100);
        let before = policies.validating(&db);
        bind(&db, VALIDATING, "x", "p7");
        let after = policies.validating(&db);
        let pairs = before.iter().zip(after.iter());
        let rebound = pairs.filter(|((_, before), (_, after))| !Arc::ptr_eq(before, after)).map(|(_, (name, _))| name);
        assert_eq!(rebound.collect::<Vec<_>>(), ["p7"]);
        // An update also does not copy other bindings of the same policy.
        (0..100).for_each(|at| bind(&db, VALIDATING, &format!("y{at}"), "p7"));
        let bindings = || policies.validating(&db).get("p7").expect("a bound policy").bindings.clone();
        let before = bindings();
        bind(&db, VALIDATING, "z", "p7");
        assert!((1..=5).contains(&bindings().unshared_with(&before)));
    }

    #[test]
    fn policy_is_compiled_once_and_only_when_used() {
        let (db, policies) = (db(), Policies::default());
        put_pairs(&db, 2);
        let bound = |name: &str| policies.validating(&db).get(name).expect("a bound policy").clone();
        let first = bound("p0");
        assert!(first.compiled.get().is_none());
        let compiled: *const CompiledPolicy = first.compiled();
        bind(&db, VALIDATING, "x", "p0");
        put(&db, VALIDATING[0], "p0", json!({"validations": [{"expression": "true"}]}));
        assert!(std::ptr::eq(bound("p0").compiled(), compiled), "the spec is unchanged");
        put(&db, VALIDATING[0], "p0", json!({"failurePolicy": "Ignore"}));
        assert!(first.compiled().fails() && !bound("p0").compiled().fails());
        assert!(bound("p1").compiled.get().is_none());
    }

    #[test]
    fn policies_and_bindings_can_change_in_any_order() {
        let (db, policies) = (db(), Policies::default());
        let now = |policies: &Policies| -> Vec<String> {
            let of_policy = |policy: &BoundPolicy| {
                let bindings = policy.bindings.iter().map(|(_, binding)| &*binding.name).collect::<Vec<_>>();
                format!("{}: {}", policy.name, bindings.join(" "))
            };
            policies.mutating(&db).iter().map(|(_, policy)| of_policy(policy)).collect()
        };
        let check = |expected: &[&str]| {
            assert_eq!(now(&policies), expected);
            assert_eq!(now(&Policies::default()), expected, "a new index is equal");
        };
        check(&[]);
        bind(&db, MUTATING, "b", "q");
        bind(&db, MUTATING, "a", "q");
        check(&[]);
        put(&db, MUTATING[0], "q", json!({}));
        put(&db, MUTATING[0], "p", json!({}));
        check(&["q: a b"]);
        bind(&db, MUTATING, "b", "p");
        check(&["p: b", "q: a"]);
        remove(&db, MUTATING[0], "q");
        remove(&db, MUTATING[1], "b");
        check(&[]);
        put(&db, MUTATING[0], "q", json!({}));
        check(&["q: a"]);
        assert!(policies.validating(&db).is_empty());
    }
}
