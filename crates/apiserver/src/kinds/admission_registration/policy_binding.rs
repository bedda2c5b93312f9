//! Kinds that bind admission policies to resources.

use super::policy::matches_any_served;
use super::{fill_match, match_errors};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::without_effect::{POLICIES, object_warning};
use crate::kinds::{Cluster, GroupResource, Kinds, Strategy};
use crate::request::Subresource;
use crate::validate::FieldErrors;
use jiff::Timestamp;
use pintle_json::Json;

/// The strategy of ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PolicyBinding;

impl Strategy for PolicyBinding {
    fn without_effect(&self, object: &Json, kinds: &Kinds, cluster: &dyn Cluster) -> Vec<String> {
        if !is_mutating(object) {
            return Vec::new();
        }
        let policies = GroupResource::new("admissionregistration.k8s.io", "mutatingadmissionpolicies");
        let policy = cluster.object(&policies, "", object.text("/spec/policyName"));
        match policy.is_some_and(|policy| matches_any_served(kinds, &policy)) {
            true => object_warning(object, POLICIES),
            false => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(resources) = object.get_mut("spec").and_then(|spec| spec.get_mut("matchResources")) {
            fill_match(resources);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        match_errors::binding(object, is_mutating(object))
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        if new.get("spec") == old.get("spec") { FieldErrors::default() } else { self.validate_create(new) }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, PolicyName, ParamRef, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let reference = match (object.text("/spec/paramRef/namespace"), object.text("/spec/paramRef/name")) {
            ("", "") => "<unset>".into(),
            ("", name) => name.into(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        vec![row.name(), row.text("/spec/policyName"), reference.into(), row.age()]
    }
}

fn is_mutating(binding: &Json) -> bool {
    binding.text("/kind").starts_with("Mutating")
}
