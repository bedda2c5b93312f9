//! The `StatefulSet` kind in `apps/v1`.

use std::collections::HashSet;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use super::{TEMPLATE, status_errors, workload_errors, workload_spec};
use crate::core::pod::template_warnings;
use crate::core::{claim_spec, claim_spec_errors};
use crate::warnings;

pub(crate) struct StatefulSet;

impl Strategy for StatefulSet {
    fn complete_empty(&self, object: &mut Json) {
        object["spec"]["replicas"] = 0.into();
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, subresource: Subresource) -> Vec<String> {
        let (mut found, path) = match old {
            _ if subresource == Subresource::Status => return Vec::new(),
            None => (template_warnings::of(object, TEMPLATE), ""),
            // As in kube-apiserver, the paths in update warnings start with `.Spec`.
            Some(old) => (template_warnings::on_update(object, old, TEMPLATE), ".Spec"),
        };
        for (at, claim) in object.list("/spec/volumeClaimTemplates").enumerate() {
            let spec = &claim["spec"];
            found.extend(warnings::claim(spec, &format!("spec.volumeClaimTemplates[{at}]{path}")));
        }
        if object.integer("/spec/revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            found.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        found
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = workload_spec(object) {
            if let Some(strategy) = spec.member("updateStrategy") {
                if strategy.text("/type").is_empty() {
                    strategy.set("type", "RollingUpdate");
                    strategy.member("rollingUpdate");
                }
                if strategy.text("/type") == "RollingUpdate"
                    && let Some(rolling) = strategy.get_mut("rollingUpdate").filter(|rolling| rolling.is_object())
                {
                    rolling.set_default("partition", 0);
                }
            }
            for claim in spec.items_mut("volumeClaimTemplates") {
                // The server overwrites the `apiVersion` and `kind` of a claim template.
                claim.set("apiVersion", "v1");
                claim.set("kind", "PersistentVolumeClaim");
                if let Some(spec) = claim.member("spec") {
                    claim_spec(spec);
                }
                if let Some(status) = claim.member("status") {
                    status.set_default("phase", "Pending");
                }
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        drop_max_unavailable(object);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, _: Subresource) {
        drop_max_unavailable(new);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        spec_errors(object, true)
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status {
            return status_errors(new, &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]);
        }
        let mut errors = spec_errors(new, false);
        let fixed = |object: &Json| {
            let mut spec = object["spec"].clone();
            for key in [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ] {
                spec.unset(key);
            }
            spec
        };
        if fixed(new) != fixed(old) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                       'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.push(FieldError::forbidden("spec", why));
        }
        errors
    }
}

/// Validates a StatefulSet. The claim templates and the service name are validated only if `new` is true, because an
/// update cannot change them.
fn spec_errors(object: &Json, new: bool) -> FieldErrors {
    let management = object.text("/spec/podManagementPolicy");
    let strategy = object.text("/spec/updateStrategy/type");
    let retention = ["Retain", "Delete"];
    let service = Check::of(object).name("spec.serviceName", NameRule::Label).done().into_iter().filter(|_| new);
    let claims =
        object.list("/spec/volumeClaimTemplates").enumerate().filter(|_| new).flat_map(|(at, claim)| {
            claim_spec_errors(&claim["spec"], &format!("spec.volumeClaimTemplates[{at}].spec"))
        });
    Check::of(object)
        .refuse(!matches!(management, "OrderedReady" | "Parallel"), || {
            FieldError::invalid_text("spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'")
        })
        .refuse(!matches!(strategy, "RollingUpdate" | "OnDelete"), || {
            let value = object["spec"]["updateStrategy"].clone();
            FieldError::invalid("spec.updateStrategy", &value, "must be 'RollingUpdate' or 'OnDelete'")
        })
        .refuse(strategy == "OnDelete" && object.has("/spec/updateStrategy/rollingUpdate"), || {
            let value = object["spec"]["updateStrategy"]["rollingUpdate"].clone();
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            FieldError::invalid("spec.updateStrategy.rollingUpdate", &value, why)
        })
        .not_negative(&["spec.updateStrategy.rollingUpdate.partition"])
        .one_of("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", &retention)
        .one_of("spec.persistentVolumeClaimRetentionPolicy.whenScaled", &retention)
        .also(claims)
        .not_negative(&["spec.replicas", "spec.minReadySeconds", "spec.ordinals.start"])
        .also(service)
        .also(workload_errors(&with_claim_volumes(object), "statefulset"))
        .done()
}

/// Removes `maxUnavailable`, because its feature gate is off.
fn drop_max_unavailable(object: &mut Json) {
    if let Some(rolling) = object.at_mut("/spec/updateStrategy/rollingUpdate").filter(|rolling| rolling.is_object()) {
        rolling.unset("maxUnavailable");
    }
}

/// Returns the object with the pod template as the controller uses it. Each claim template becomes a volume, and
/// replaces any volume with the same name. The result has no host name and no subdomain, because the StatefulSet
/// controller sets them on each pod. Also removes `replicas`, `minReadySeconds` and `revisionHistoryLimit`, because
/// other code validates these fields.
fn with_claim_volumes(object: &Json) -> Json {
    let mut object = object.clone();
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return object };
    for key in ["revisionHistoryLimit", "replicas", "minReadySeconds"] {
        spec.unset(key);
    }
    let claims: Vec<String> =
        spec.list("/volumeClaimTemplates").map(|claim| claim.text("/metadata/name").to_owned()).collect();
    let Some(pods) = spec.at_mut("/template/spec").filter(|pods| pods.is_object()) else { return object };
    pods.unset("hostname");
    pods.unset("subdomain");
    if !claims.is_empty() {
        let names: HashSet<&str> = claims.iter().map(String::as_str).collect();
        let own = pods.list("/volumes").filter(|volume| !names.contains(volume.text("/name"))).cloned();
        let made = claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Json> = made.chain(own).collect();
        pods.set("volumes", volumes);
    }
    object
}
