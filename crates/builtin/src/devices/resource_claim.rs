//! The `ResourceClaim` and `ResourceClaimTemplate` kinds in `resource.k8s.io`.

use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::immutable;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_meta::GroupResource;

use super::claim_defaults;
use super::claim_errors::claim_errors;
use super::claim_status::{drop_deallocated, status_errors};
use crate::core::pod::template_metadata_errors;

/// The label of namespaces whose claims may request admin access to devices.
const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";

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

    fn validate_in_cluster(
        &self,
        cluster: &dyn Cluster,
        new: &Json,
        old: Option<&Json>,
        part: Subresource,
    ) -> FieldErrors {
        match (old, part) {
            (None, _) => admin_access_errors(cluster, new, &new["spec"]),
            (Some(old), Subresource::Status) => {
                let results = |claim: &Json| admin_access(claim.list("/status/allocation/devices/results"));
                let requested = results(new).filter(|_| results(old).is_none());
                let path = |at| format!("status.allocation.devices.results[{at}].adminAccess");
                requested.and_then(|at| admin_access_error(cluster, new, path(at))).into_iter().collect()
            }
            _ => FieldErrors::default(),
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

    fn validate_in_cluster(
        &self,
        cluster: &dyn Cluster,
        new: &Json,
        old: Option<&Json>,
        _: Subresource,
    ) -> FieldErrors {
        if old.is_some() { FieldErrors::default() } else { admin_access_errors(cluster, new, &new["spec"]["spec"]) }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        template_metadata_errors(&object["spec"]["metadata"], "spec.metadata")
            .and(claim_errors(&object["spec"]["spec"], "spec.spec"))
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        immutable(new, old, &["spec"])
    }
}

/// Returns an error if the spec of a claim requests admin access, and the namespace does not allow it. kube-apiserver
/// reports the same path for a claim and for a template.
fn admin_access_errors(cluster: &dyn Cluster, object: &Json, spec: &Json) -> FieldErrors {
    let requested = admin_access(spec.list("/devices/requests").map(|request| &request["exactly"]));
    let path = |at| format!("spec.devices.requests[{at}].adminAccess");
    requested.and_then(|at| admin_access_error(cluster, object, path(at))).into_iter().collect()
}

/// Returns the index of the first request or result with admin access.
fn admin_access<'a>(mut requests: impl Iterator<Item = &'a Json>) -> Option<usize> {
    requests.position(|request| request["adminAccess"] == true)
}

fn admin_access_error(cluster: &dyn Cluster, object: &Json, path: String) -> Option<FieldError> {
    let namespace = cluster.object(&GroupResource::new("", "namespaces"), "", object.text("/metadata/namespace"));
    if namespace.is_some_and(|namespace| namespace["metadata"]["labels"][ADMIN_ACCESS] == "true") {
        return None;
    }
    let why = "label on the containing namespace";
    Some(FieldError::forbidden(path, format!("admin access to devices requires the `{ADMIN_ACCESS}: true` {why}")))
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
