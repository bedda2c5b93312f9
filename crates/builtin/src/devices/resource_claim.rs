//! The `ResourceClaim` and `ResourceClaimTemplate` kinds in `resource.k8s.io`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::immutable;
use pintle_kinds::table::{Cell, ComputedCells};

use super::claim_defaults;
use super::claim_errors::claim_errors;
use super::claim_status::{drop_deallocated, status_errors};
use crate::core::pod::template_metadata_errors;

pub(crate) struct ResourceClaim;

impl Strategy for ResourceClaim {
    fn defaults(&self, object: &mut Json) {
        object.get_mut("spec").into_iter().for_each(claim_defaults);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, part: Subresource) {
        if part == Subresource::Status {
            drop_deallocated(new, old);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        claim_errors(&object["spec"], "spec")
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => status_errors(new, old),
            _ => immutable(new, old, &["spec"]),
        }
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("State", Cell::Computed(state))]
    }
}

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn defaults(&self, object: &mut Json) {
        object.at_mut("/spec/spec").into_iter().for_each(claim_defaults);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        template_metadata_errors(&object["spec"]["metadata"], "spec.metadata")
            .and(claim_errors(&object["spec"]["spec"], "spec.spec"))
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        immutable(new, old, &["spec"])
    }
}

fn state(claim: &Json) -> Json {
    let mut states = Vec::new();
    if claim.has("/metadata/deletionTimestamp") {
        states.push("deleted");
    }
    states.push(if claim.has("/status/allocation") { "allocated" } else { "pending" });
    if claim.list("/status/reservedFor").next().is_some() {
        states.push("reserved");
    }
    states.join(",").into()
}
