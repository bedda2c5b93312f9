//! The `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy` kinds in `admissionregistration.k8s.io`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::table::{Cell, ComputedCells};

use super::{policy_errors, static_suffix_warning};

#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionPolicy {
    pub(crate) mutating: bool,
}

impl Strategy for AdmissionPolicy {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        if object.at("/spec/validations").is_some() || object.get("kind") == Some(&"ValidatingAdmissionPolicy".into()) {
            object.set("status", pintle_json::Map::new());
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        policy_errors::policy(object, self.mutating)
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status if !self.mutating => policy_errors::status(new),
            // Validate only a changed spec, because the stored spec is already valid.
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

    fn computed_cells(&self) -> ComputedCells {
        &[("ParamKind", Cell::Computed(param_kind))]
    }
}

fn param_kind(object: &Json) -> Json {
    match object.text("/spec/paramKind/kind") {
        "" => "<unset>".into(),
        kind => format!("{}/{kind}", object.text("/spec/paramKind/apiVersion")).into(),
    }
}
