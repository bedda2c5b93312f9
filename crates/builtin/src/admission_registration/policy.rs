//! Defines the kinds ValidatingAdmissionPolicy and MutatingAdmissionPolicy of the group `admissionregistration.k8s.io`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::reset::{ALL_BUT_STATUS, Reset};
use pintle_kinds::table::{self, Column, Row};

use super::{fill_match, policy_errors, static_suffix_warning};
use jiff::Timestamp;

/// The descriptions of table columns. The texts are the same as in kube-apiserver.
const VALIDATIONS: &str = "Validations indicates the number of validation rules defined in this configuration";
const MUTATIONS: &str = "Mutation indicates the number of mutations rules defined in this configuration";
const PARAM_KIND: &str = "ParamKind specifies the kind of resources used to parameterize this policy";

/// The strategy of ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionPolicy {
    pub(crate) mutating: bool,
}

impl Strategy for AdmissionPolicy {
    fn status_keeps_metadata(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: Subresource) -> Option<Reset> {
        (subresource == Subresource::Status).then_some(ALL_BUT_STATUS)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        if object.at("/spec/validations").is_some() || object.get("kind") == Some(&"ValidatingAdmissionPolicy".into()) {
            object.set("status", pintle_json::Map::new());
        }
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            spec.set_default("failurePolicy", "Fail");
            if let Some(constraints) = spec.get_mut("matchConstraints") {
                fill_match(constraints);
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        policy_errors::policy(object, self.mutating)
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status if !self.mutating => policy_errors::status(new),
            // Skip the validation of an unchanged spec, because it was already validated.
            Subresource::None if new.get("spec") != old.get("spec") => self.validate_create(new),
            _ => FieldErrors::default(),
        }
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        new.get("spec") != old.get("spec")
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, part: Subresource) -> Vec<String> {
        static_suffix_warning(object, part)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let (columns, rules) = match self.mutating {
            true => ("Name, Mutations:integer, ParamKind, Age", ("Mutations", MUTATIONS)),
            false => ("Name, Validations:integer, ParamKind, Age", ("Validations", VALIDATIONS)),
        };
        table::described(columns, &[rules, ("ParamKind", PARAM_KIND)])
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let rules = if self.mutating { "/spec/mutations" } else { "/spec/validations" };
        let parameter = match object.text("/spec/paramKind/kind") {
            "" => Json::from("<unset>"),
            kind => format!("{}/{kind}", object.text("/spec/paramKind/apiVersion")).into(),
        };
        vec![row.name(), row.size(rules), parameter, row.age()]
    }
}
