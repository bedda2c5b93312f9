//! Workloads: what keeps a number of pods alive.

use serde_json::{Value, json};

use super::check::Check;
use super::pods::{claim_spec, pod_template, validate_template};
use super::{Context, Scale, Strategy, warnings};
use crate::object::{default, integer_at, list, member, present, set, set_metadata, text_at};
use crate::request::Part;
use crate::selector::{selects_labels, structured};
use crate::validate::{FieldFault, NameRule, label_key_faults, label_value_faults};

/// Where the template of the pods stands.
const TEMPLATE: &str = "/spec/template";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// `apps/v1` Deployment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deployment;

impl Strategy for Deployment {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => warnings::maker_of_pods(object, TEMPLATE),
            Some(old) => warnings::changed_template(object, old, TEMPLATE),
        }
    }

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
                if text_at(strategy, "/type") == "RollingUpdate"
                    && let Some(rolling) = member(strategy, "rollingUpdate")
                {
                    default(rolling, "maxUnavailable", "25%");
                    default(rolling, "maxSurge", "25%");
                }
            }
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "progressDeadlineSeconds", 600);
        }
        member(object, "status");
    }

    fn changes_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = |object: &Value| {
            object.pointer("/metadata/annotations").filter(|map| !crate::object::is_empty(map)).cloned()
        };
        new.get("spec") != old.get("spec") || annotations(new) != annotations(old)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, part: Part) {
        if part == Part::Status {
            let labels = old.pointer("/metadata/labels").cloned();
            match labels {
                Some(labels) => set_metadata(new, "labels", labels),
                None => crate::object::remove_metadata(new, "labels"),
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = workload_faults(object, "deployment");
        let strategy = text_at(object, "/spec/strategy/type");
        let rolling = "spec.strategy.rollingUpdate";
        match strategy {
            "Recreate" if crate::object::has(object, "/spec/strategy/rollingUpdate") => {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                faults.push(FieldFault::forbidden(rolling, why));
            }
            "Recreate" => {}
            "RollingUpdate" => {
                let (fewer, more) =
                    ("/spec/strategy/rollingUpdate/maxUnavailable", "/spec/strategy/rollingUpdate/maxSurge");
                faults.extend(share_faults(object, fewer, &format!("{rolling}.maxUnavailable")));
                faults.extend(share_faults(object, more, &format!("{rolling}.maxSurge")));
                if is_nothing(object, fewer) && is_nothing(object, more) {
                    let value = object.pointer(fewer).cloned().unwrap_or_default();
                    let why = "may not be 0 when `maxSurge` is 0";
                    faults.push(FieldFault::invalid(format!("{rolling}.maxUnavailable"), &value, why));
                }
            }
            _ => {
                let value = object.pointer("/spec/strategy").cloned().unwrap_or_default();
                faults.push(FieldFault::unsupported("spec.strategy", &value, &["Recreate", "RollingUpdate"]));
            }
        }
        let (deadline, ready) =
            (integer_at(object, "/spec/progressDeadlineSeconds"), integer_at(object, "/spec/minReadySeconds"));
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready.unwrap_or(0)) {
            let why = "must be greater than minReadySeconds";
            faults.push(FieldFault::invalid("spec.progressDeadlineSeconds", &deadline.into(), why));
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => status_faults(new, &["updatedReplicas", "readyReplicas", "availableReplicas"]),
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
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => warnings::maker_of_pods(object, TEMPLATE),
            Some(old) => warnings::changed_template(object, old, TEMPLATE),
        }
    }

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
        workload_faults(object, "deployment")
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => status_faults(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
            _ => {
                let mut faults = self.validate_create(new);
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
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => warnings::maker_of_pods(object, TEMPLATE),
            // The kube-apiserver looks at the template that is being replaced.
            Some(old) => warnings::changed_template(old, object, TEMPLATE),
        }
    }

    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Value) {
        let labels = object.pointer("/spec/template/metadata/labels").cloned();
        if let Some(spec) = workload_spec(object) {
            default(spec, "replicas", 1);
            if let Some(labels) = labels.clone()
                && spec.get("selector").is_none_or(crate::object::is_empty)
            {
                set(spec, "selector", labels);
            }
        }
        if let (Some(labels), Some(metadata)) = (labels, member(object, "metadata"))
            && metadata.get("labels").is_none_or(crate::object::is_empty)
        {
            set(metadata, "labels", labels);
        }
        if let Some(status) = member(object, "status") {
            default(status, "replicas", 0);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"replicas": 0}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let selector = object.pointer("/spec/selector").and_then(Value::as_object).cloned().unwrap_or_default();
        let template = object.pointer("/spec/template").filter(|template| !template.is_null());
        let labels = template.and_then(|template| template.pointer("/metadata/labels")).cloned().unwrap_or_default();
        let matches = selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        Check::of(object)
            .required("spec.selector")
            .not_negative(&["spec.replicas"])
            .refuse(template.is_none(), || FieldFault::required("spec.template", ""))
            .refuse(template.is_some() && !matches, || {
                let why = "`selector` does not match template `labels`";
                FieldFault::invalid("spec.template.metadata.labels", &labels, why)
            })
            .also(template.map(|template| validate_template(template, "spec.template")).unwrap_or_default())
            .done()
    }

    fn validate_update(&self, new: &Value, _: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => status_faults(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
            _ => self.validate_create(new),
        }
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["status.replicas"])
    }
}

/// `apps/v1` StatefulSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatefulSet;

impl Strategy for StatefulSet {
    fn warnings(&self, object: &Value, old: Option<&Value>, part: Part) -> Vec<String> {
        let (mut found, path) = match old {
            _ if part == Part::Status => return Vec::new(),
            None => (warnings::template(object, TEMPLATE), ""),
            // The path has this in an update, and only there.
            Some(old) => (warnings::changed_template(object, old, TEMPLATE), ".Spec"),
        };
        for (at, claim) in list(object, "/spec/volumeClaimTemplates").enumerate() {
            let spec = claim.get("spec").unwrap_or(&Value::Null);
            found.extend(warnings::claim(spec, &format!("spec.volumeClaimTemplates[{at}]{path}")));
        }
        if integer_at(object, "/spec/revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            found.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        found
    }

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
                if text_at(strategy, "/type") == "RollingUpdate"
                    && let Some(rolling) = member(strategy, "rollingUpdate")
                {
                    default(rolling, "partition", 0);
                }
            }
            default(spec, "revisionHistoryLimit", 10);
            if let Some(policy) = member(spec, "persistentVolumeClaimRetentionPolicy") {
                default(policy, "whenDeleted", "Retain");
                default(policy, "whenScaled", "Retain");
            }
            for claim in crate::object::items(spec, "volumeClaimTemplates") {
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
        let management = text_at(object, "/spec/podManagementPolicy");
        let strategy = text_at(object, "/spec/updateStrategy/type");
        let retention = ["Retain", "Delete"];
        Check::of(object)
            .refuse(!matches!(management, "OrderedReady" | "Parallel"), || {
                FieldFault::invalid_text("spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'")
            })
            .refuse(!matches!(strategy, "RollingUpdate" | "OnDelete"), || {
                let value = object.pointer("/spec/updateStrategy").cloned().unwrap_or_default();
                FieldFault::invalid("spec.updateStrategy", &value, "must be 'RollingUpdate' or 'OnDelete'")
            })
            .not_negative(&["spec.updateStrategy.rollingUpdate.partition"])
            .one_of("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", &retention)
            .one_of("spec.persistentVolumeClaimRetentionPolicy.whenScaled", &retention)
            .not_negative(&["spec.ordinals.start"])
            .also(workload_faults(object, "statefulset"))
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        if part == Part::Status {
            return status_faults(new, &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]);
        }
        let mut faults = self.validate_create(new);
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
                crate::object::remove(&mut spec, key);
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
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old.is_some_and(|old| old.pointer(TEMPLATE) == object.pointer(TEMPLATE)) {
            true => Vec::new(),
            false => warnings::template(object, TEMPLATE),
        }
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = workload_spec(object) {
            if let Some(strategy) = member(spec, "updateStrategy") {
                if text_at(strategy, "/type").is_empty() {
                    set(strategy, "type", "RollingUpdate".into());
                }
                if text_at(strategy, "/type") == "RollingUpdate"
                    && let Some(rolling) = member(strategy, "rollingUpdate")
                {
                    default(rolling, "maxUnavailable", 1);
                    default(rolling, "maxSurge", 0);
                }
            }
            default(spec, "revisionHistoryLimit", 10);
        }
        let annotations = member(object, "metadata").and_then(|metadata| member(metadata, "annotations"));
        if let Some(annotations) = annotations {
            default(annotations, TEMPLATE_GENERATION, "0");
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

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, part: Part) {
        if part == Part::Object {
            let pointer = format!("/metadata/annotations/{TEMPLATE_GENERATION}");
            let generation: i64 = text_at(old, &pointer).parse().unwrap_or(0);
            let changed = new.pointer("/spec/template") != old.pointer("/spec/template");
            set_template_generation(new, generation + i64::from(changed));
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let strategy = text_at(object, "/spec/updateStrategy/type");
        let (fewer, more) =
            ("/spec/updateStrategy/rollingUpdate/maxUnavailable", "/spec/updateStrategy/rollingUpdate/maxSurge");
        let rolls = strategy == "RollingUpdate";
        let (still, eager) = (is_nothing(object, fewer), !is_nothing(object, more));
        Check::of(object)
            .also(workload_faults(object, "daemonset"))
            .refuse(!matches!(strategy, "RollingUpdate" | "OnDelete"), || {
                let value = object.pointer("/spec/updateStrategy").cloned().unwrap_or_default();
                FieldFault::unsupported("spec.updateStrategy", &value, &["RollingUpdate", "OnDelete"])
            })
            .refuse(rolls && still && !eager, || {
                let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
                FieldFault::required(field, "cannot be 0 when maxSurge is 0")
            })
            .refuse(rolls && !still && eager, || {
                let value = object.pointer(more).cloned().unwrap_or_default();
                let field = "spec.updateStrategy.rollingUpdate.maxSurge";
                FieldFault::invalid(field, &value, "may not be set when maxUnavailable is non-zero")
            })
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        if part == Part::Status {
            return status_faults(new, &[]);
        }
        let mut faults = self.validate_create(new);
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

/// What all workloads with a structured selector share. `kind` stands in the words for an empty one.
fn workload_faults(object: &Value, kind: &str) -> Vec<FieldFault> {
    let template = object.pointer("/spec/template").unwrap_or(&Value::Null);
    let selector = object.pointer("/spec/selector").filter(|selector| !selector.is_null());
    let read = selector.map(structured);
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let broken = selector_faults(selector.unwrap_or(&Value::Null), "spec.selector");
    let empty = selector.is_some_and(crate::object::is_empty);
    let unreadable = !broken.is_empty() || matches!(read, Some(None));
    let matches = match &read {
        Some(Some(selector)) => selects_labels(selector, labels.as_object()),
        _ => false,
    };
    let value = selector.cloned().unwrap_or_default();
    let restart = text_at(template, "/spec/restartPolicy");
    Check::of(object)
        .not_negative(&["spec.replicas"])
        .refuse(selector.is_none(), || FieldFault::required("spec.selector", ""))
        .also(broken)
        .refuse(empty, || FieldFault::invalid("spec.selector", &value, format!("empty selector is invalid for {kind}")))
        .refuse(unreadable, || FieldFault::invalid("spec.selector", &value, "invalid label selector"))
        .refuse(!matches && !empty && !unreadable, || {
            let why = "`selector` does not match template `labels`";
            FieldFault::invalid("spec.template.metadata.labels", &labels, why)
        })
        .also(validate_template(template, "spec.template"))
        .refuse(!restart.is_empty() && restart != "Always", || {
            FieldFault::unsupported("spec.template.spec.restartPolicy", &restart.into(), &["Always"])
        })
        .refuse(crate::object::has(template, "/spec/activeDeadlineSeconds"), || {
            let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
            FieldFault::forbidden("spec.template.spec.activeDeadlineSeconds", why)
        })
        .not_negative(&["spec.minReadySeconds", "spec.revisionHistoryLimit"])
        .done()
}

/// The faults of a structured selector.
pub(super) fn selector_faults(selector: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        for (text, why) in [(key.as_str(), label_key_faults(key)), (value, label_value_faults(value))] {
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.matchLabels"), text, why)));
        }
    }
    let expressions = Check::at(selector, path).each("matchExpressions", |expression, _| {
        let operator = text_at(expression.object(), "/operator").to_owned();
        let values = expression.object().get("values").is_some_and(|values| !crate::object::is_empty(values));
        let expression = match operator.as_str() {
            "In" | "NotIn" => {
                expression.required_because("values", "must be specified when `operator` is 'In' or 'NotIn'")
            }
            "Exists" | "DoesNotExist" => expression.refuse(values, || {
                FieldFault::forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            }),
            other => {
                expression.refuse(true, || FieldFault::invalid_text("operator", other, "not a valid selector operator"))
            }
        };
        let key = text_at(expression.object(), "/key");
        let why = label_key_faults(key);
        why.iter().fold(expression, |check, why| check.refuse(true, || FieldFault::invalid_text("key", key, why)))
    });
    faults.extend(expressions.done());
    faults
}

/// The faults of a share of replicas: a number or a percentage.
fn share_faults(object: &Value, pointer: &str, field: &str) -> Option<FieldFault> {
    let value = object.pointer(pointer)?;
    let why = match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            "must be greater than or equal to 0"
        }
        Value::String(text) if text.strip_suffix('%').is_none_or(|share| share.parse::<u32>().is_err()) => {
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
             validation is '[0-9]+%')"
        }
        _ => return None,
    };
    Some(FieldFault::invalid(field, value, why))
}

/// Whether a share is nothing.
fn is_nothing(object: &Value, pointer: &str) -> bool {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.strip_suffix('%').and_then(|share| share.parse().ok()) == Some(0),
        Some(value) => value.as_i64() == Some(0),
        None => true,
    }
}

fn selector_changed(new: &Value, old: &Value) -> Option<FieldFault> {
    let selector = |object: &Value| object.pointer("/spec/selector").cloned().unwrap_or_default();
    (selector(new) != selector(old)).then(|| FieldFault::invalid("spec.selector", &selector(new), "field is immutable"))
}

/// Numbers that are negative, or greater than that of all replicas.
fn status_faults(object: &Value, parts: &[&str]) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (key, value) in object.get("status").and_then(Value::as_object).into_iter().flatten() {
        if value.as_i64().is_some_and(|number| number < 0) {
            faults.push(FieldFault::invalid(format!("status.{key}"), value, "must be greater than or equal to 0"));
        }
    }
    let number = |key: &str| integer_at(object, &format!("/status/{key}")).unwrap_or(0);
    let replicas = number("replicas");
    for key in parts {
        if number(key) > replicas {
            faults.push(FieldFault::invalid(
                format!("status.{key}"),
                &number(key).into(),
                "cannot be greater than status.replicas",
            ));
        }
    }
    if number("availableReplicas") > number("readyReplicas") {
        let value = number("availableReplicas").into();
        faults.push(FieldFault::invalid("status.availableReplicas", &value, "cannot be greater than readyReplicas"));
    }
    faults
}
