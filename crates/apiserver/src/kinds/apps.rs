//! Workloads: what keeps a number of pods alive.

use serde_json::{Value, json};

use super::edit::{default, integer_at, member, present, set, set_metadata, text_at};
use super::pods::{claim_spec, pod_template, validate_template};
use super::{Context, Scale, Strategy};
use crate::selector::LabelSelector;
use crate::validate::{FieldFault, NameRule};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// `apps/v1` Deployment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deployment;

impl Strategy for Deployment {
    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = workload_spec(object) {
            default(spec, "replicas", 1);
            if let Some(strategy) = member(spec, "strategy") {
                if text_at(strategy, "/type").is_empty() {
                    set(strategy, "type", "RollingUpdate".into());
                }
                if text_at(strategy, "/type") == "RollingUpdate" {
                    if let Some(rolling) = member(strategy, "rollingUpdate") {
                        default(rolling, "maxUnavailable", "25%");
                        default(rolling, "maxSurge", "25%");
                    }
                }
            }
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "progressDeadlineSeconds", 600);
        }
        member(object, "status");
    }

    fn changes_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations =
            |object: &Value| object.pointer("/metadata/annotations").filter(|map| !super::edit::is_empty(map)).cloned();
        new.get("spec") != old.get("spec") || annotations(new) != annotations(old)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, subresource: Option<&str>) {
        if subresource == Some("status") {
            let labels = old.pointer("/metadata/labels").cloned();
            match labels {
                Some(labels) => set_metadata(new, "labels", labels),
                None => super::edit::remove_metadata(new, "labels"),
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = workload_faults(object);
        let strategy = text_at(object, "/spec/strategy/type");
        if strategy == "Recreate" && super::edit::has(object, "/spec/strategy/rollingUpdate") {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            faults.push(FieldFault::forbidden("spec.strategy.rollingUpdate", why));
        } else if !["Recreate", "RollingUpdate"].contains(&strategy) {
            let value = object.pointer("/spec/strategy").cloned().unwrap_or_default();
            faults.push(FieldFault::unsupported("spec.strategy", &value, &["Recreate", "RollingUpdate"]));
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        match subresource {
            Some("status") => status_faults(new),
            _ => {
                let mut faults = self.validate_create(new);
                faults.extend(selector_changed(new, old));
                faults
            }
        }
    }
}

/// `apps/v1` ReplicaSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = workload_spec(object) {
            default(spec, "replicas", 1);
        }
        if let Some(status) = member(object, "status") {
            default(status, "replicas", 0);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"replicas": 0}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        workload_faults(object)
    }

    fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        match subresource {
            Some("status") => status_faults(new),
            _ => {
                let mut faults = workload_faults(new);
                faults.extend(selector_changed(new, old));
                faults
            }
        }
    }
}

/// `v1` ReplicationController.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicationController;

impl Strategy for ReplicationController {
    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Value) {
        let labels = object.pointer("/spec/template/metadata/labels").cloned();
        if let Some(spec) = workload_spec(object) {
            default(spec, "replicas", 1);
            if let Some(labels) = labels.clone() {
                if spec.get("selector").is_none_or(super::edit::is_empty) {
                    set(spec, "selector", labels);
                }
            }
        }
        if let (Some(labels), Some(metadata)) = (labels, member(object, "metadata")) {
            if metadata.get("labels").is_none_or(super::edit::is_empty) {
                set(metadata, "labels", labels);
            }
        }
        if let Some(status) = member(object, "status") {
            default(status, "replicas", 0);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"replicas": 0}));
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["status.replicas"])
    }
}

/// `apps/v1` StatefulSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatefulSet;

impl Strategy for StatefulSet {
    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = workload_spec(object) {
            default(spec, "replicas", 1);
            default(spec, "podManagementPolicy", "OrderedReady");
            if let Some(strategy) = member(spec, "updateStrategy") {
                if text_at(strategy, "/type").is_empty() {
                    set(strategy, "type", "RollingUpdate".into());
                }
                if text_at(strategy, "/type") == "RollingUpdate" {
                    if let Some(rolling) = member(strategy, "rollingUpdate") {
                        default(rolling, "partition", 0);
                    }
                }
            }
            default(spec, "revisionHistoryLimit", 10);
            if let Some(policy) = member(spec, "persistentVolumeClaimRetentionPolicy") {
                default(policy, "whenDeleted", "Retain");
                default(policy, "whenScaled", "Retain");
            }
            for claim in super::edit::items(spec, "volumeClaimTemplates") {
                default(claim, "apiVersion", "v1");
                default(claim, "kind", "PersistentVolumeClaim");
                if let Some(spec) = member(claim, "spec") {
                    claim_spec(spec);
                }
                if let Some(status) = member(claim, "status") {
                    default(status, "phase", "Pending");
                }
            }
        }
        if let Some(status) = member(object, "status") {
            default(status, "replicas", 0);
            default(status, "availableReplicas", 0);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"replicas": 0, "availableReplicas": 0}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        workload_faults(object)
    }

    fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        if subresource == Some("status") {
            return status_faults(new);
        }
        let mut faults = workload_faults(new);
        let fixed = |object: &Value| {
            let mut spec = object.get("spec").cloned().unwrap_or_default();
            for key in [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ] {
                super::edit::remove(&mut spec, key);
            }
            spec
        };
        if fixed(new) != fixed(old) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                       'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            faults.push(FieldFault::forbidden("spec", why));
        }
        faults
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

/// `apps/v1` DaemonSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct DaemonSet;

impl Strategy for DaemonSet {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = workload_spec(object) {
            if let Some(strategy) = member(spec, "updateStrategy") {
                if text_at(strategy, "/type").is_empty() {
                    set(strategy, "type", "RollingUpdate".into());
                }
                if text_at(strategy, "/type") == "RollingUpdate" {
                    if let Some(rolling) = member(strategy, "rollingUpdate") {
                        default(rolling, "maxUnavailable", 1);
                        default(rolling, "maxSurge", 0);
                    }
                }
            }
            default(spec, "revisionHistoryLimit", 10);
        }
        if let Some(status) = member(object, "status") {
            for key in ["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"] {
                default(status, key, 0);
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
        self.defaults(object);
        set_template_generation(object, 1);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, subresource: Option<&str>) {
        if subresource.is_none() {
            let pointer = format!("/metadata/annotations/{TEMPLATE_GENERATION}");
            let generation: i64 = text_at(old, &pointer).parse().unwrap_or(0);
            let changed = new.pointer("/spec/template") != old.pointer("/spec/template");
            set_template_generation(new, generation + i64::from(changed));
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        workload_faults(object)
    }

    fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        if subresource == Some("status") {
            return status_faults(new);
        }
        let mut faults = workload_faults(new);
        faults.extend(selector_changed(new, old));
        faults
    }
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(annotations) = member(object, "metadata").and_then(|metadata| member(metadata, "annotations")) {
        set(annotations, TEMPLATE_GENERATION, generation.to_string().into());
    }
}

/// The spec, its template filled in.
fn workload_spec(object: &mut Value) -> Option<&mut Value> {
    let spec = member(object, "spec")?;
    if let Some(template) = present(spec, "template") {
        pod_template(template);
    }
    Some(spec)
}

/// What all workloads with a structured selector share.
pub(super) fn workload_faults(object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if let Some(replicas) = integer_at(object, "/spec/replicas").filter(|replicas| *replicas < 0) {
        faults.push(FieldFault::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0"));
    }
    let template = object.pointer("/spec/template").unwrap_or(&Value::Null);
    match object.pointer("/spec/selector").filter(|selector| !selector.is_null()) {
        None => faults.push(FieldFault::required("spec.selector", "")),
        Some(selector) if super::edit::is_empty(selector) => {
            faults.push(FieldFault::invalid("spec.selector", selector, "empty selector is invalid for deployment"));
        }
        Some(_) => {}
    }
    let selector = object.pointer("/spec/selector").map(LabelSelector::from_value);
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    let matches = match &selector {
        Some(Ok(selector)) => !selector.is_empty() && selector.matches_labels(labels.as_object()),
        _ => false,
    };
    if !matches {
        let why = "`selector` does not match template `labels`";
        faults.push(FieldFault::invalid("spec.template.metadata.labels", &labels, why));
    }
    faults.extend(validate_template(template, "spec.template"));
    faults
}

fn selector_changed(new: &Value, old: &Value) -> Option<FieldFault> {
    let selector = |object: &Value| object.pointer("/spec/selector").cloned().unwrap_or_default();
    (selector(new) != selector(old)).then(|| FieldFault::invalid("spec.selector", &selector(new), "field is immutable"))
}

fn status_faults(object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (key, value) in object.get("status").and_then(Value::as_object).into_iter().flatten() {
        if value.as_i64().is_some_and(|number| number < 0) {
            faults.push(FieldFault::invalid(format!("status.{key}"), value, "must be greater than or equal to 0"));
        }
    }
    let number = |key: &str| integer_at(object, &format!("/status/{key}")).unwrap_or(0);
    let replicas = number("replicas");
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"] {
        if number(key) > replicas && object.pointer("/status/desiredNumberScheduled").is_none() {
            faults.push(FieldFault::invalid(
                format!("status.{key}"),
                &number(key).into(),
                "cannot be greater than status.replicas",
            ));
        }
    }
    if number("availableReplicas") > number("readyReplicas")
        && object.pointer("/status/desiredNumberScheduled").is_none()
    {
        let value = number("availableReplicas").into();
        faults.push(FieldFault::invalid("status.availableReplicas", &value, "cannot be greater than readyReplicas"));
    }
    faults
}
