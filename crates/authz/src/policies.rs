//! An index of the stored admission policies and their bindings, which is updated when the store changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_admission::policy::CompiledPolicy;
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_storage::{Db, Stored};

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
    /// Returns the validating admission policies with bindings, sorted by name. All calls must pass the
    /// same `db`.
    pub fn validating(&self, db: &Db) -> Arc<[BoundPolicy]> {
        self.0.query(db, |index| index.validating.bound.clone())
    }

    /// Returns the mutating admission policies with bindings, sorted by name. All calls must pass the same
    /// `db`.
    pub fn mutating(&self, db: &Db) -> Arc<[BoundPolicy]> {
        self.0.query(db, |index| index.mutating.bound.clone())
    }
}

#[derive(Clone, Debug)]
pub struct BoundPolicy {
    pub name: String,
    pub spec: Arc<Json>,
    pub compiled: Arc<CompiledPolicy>,
    pub bindings: Vec<Arc<Binding>>,
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

#[derive(Debug)]
struct Family {
    policies: BTreeMap<Box<str>, (Arc<Json>, Arc<CompiledPolicy>)>,
    bindings: BTreeMap<Box<str>, Arc<Binding>>,
    bound: Arc<[BoundPolicy]>,
}

impl Default for Family {
    fn default() -> Self {
        Self { policies: BTreeMap::new(), bindings: BTreeMap::new(), bound: Arc::from([]) }
    }
}

impl Family {
    fn rebind(&mut self) {
        let bound = self.policies.iter().filter_map(|(name, (spec, compiled))| {
            let of_policy = |binding: &&Arc<Binding>| binding.spec.text("/policyName") == &**name;
            let bindings: Vec<_> = self.bindings.values().filter(of_policy).cloned().collect();
            let (spec, compiled) = (spec.clone(), compiled.clone());
            (!bindings.is_empty()).then(|| BoundPolicy { name: name.to_string(), spec, compiled, bindings })
        });
        self.bound = bound.collect();
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
            // Keep the compiled policy if the spec is unchanged, for example after an update of the status.
            if family.policies.get(key).is_some_and(|(known, _)| **known == spec) {
                return;
            }
            let compiled = Arc::new(CompiledPolicy::new(&spec));
            family.policies.insert(key.into(), (Arc::new(spec), compiled));
        } else {
            let name = metadata::name(&object).to_owned();
            family.bindings.insert(key.into(), Arc::new(Binding { name, spec }));
        }
        family.rebind();
    }

    fn remove(&mut self, resource: &str, key: &str) {
        let family = self.family(resource);
        if is_policy(resource) {
            family.policies.remove(key);
        } else {
            family.bindings.remove(key);
        }
        family.rebind();
    }
}
