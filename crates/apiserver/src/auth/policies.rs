//! An index of the stored validating admission policies and their bindings. It follows the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_json::Json;

use super::compiled::{Compiled, Index};
use crate::object::metadata;
use crate::policy::CompiledPolicy;
use crate::store::{Db, Stored};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// The policies of one store.
#[derive(Debug, Default)]
pub(crate) struct Policies(Compiled<PolicyIndex>);

impl Policies {
    /// Returns the policies that have bindings, by name. All calls must use the same `db`.
    pub(crate) fn bound(&self, db: &Db) -> Arc<[BoundPolicy]> {
        self.0.query(db, |index| index.bound.clone())
    }
}

/// A policy with its bindings.
#[derive(Clone, Debug)]
pub(crate) struct BoundPolicy {
    pub(crate) name: String,
    pub(crate) spec: Arc<Json>,
    pub(crate) compiled: Arc<CompiledPolicy>,
    pub(crate) bindings: Vec<Arc<Binding>>,
}

/// A binding of a policy.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) spec: Json,
}

#[derive(Debug)]
struct PolicyIndex {
    policies: BTreeMap<Box<str>, (Arc<Json>, Arc<CompiledPolicy>)>,
    bindings: BTreeMap<Box<str>, Arc<Binding>>,
    bound: Arc<[BoundPolicy]>,
}

impl Default for PolicyIndex {
    fn default() -> Self {
        Self { policies: BTreeMap::new(), bindings: BTreeMap::new(), bound: Arc::from([]) }
    }
}

impl PolicyIndex {
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

impl Index for PolicyIndex {
    const RESOURCES: &'static [&'static str] = &[POLICIES, BINDINGS];

    fn put(&mut self, resource: &str, key: &str, stored: &Stored) {
        let object = stored.decode();
        let spec = object.get("spec").cloned().unwrap_or_default();
        if resource == POLICIES {
            // A status update does not change the spec.
            if self.policies.get(key).is_some_and(|(known, _)| **known == spec) {
                return;
            }
            let compiled = Arc::new(CompiledPolicy::new(&spec));
            self.policies.insert(key.into(), (Arc::new(spec), compiled));
        } else {
            let name = metadata::name(&object).to_owned();
            self.bindings.insert(key.into(), Arc::new(Binding { name, spec }));
        }
        self.rebind();
    }

    fn remove(&mut self, resource: &str, key: &str) {
        if resource == POLICIES {
            self.policies.remove(key);
        } else {
            self.bindings.remove(key);
        }
        self.rebind();
    }
}
