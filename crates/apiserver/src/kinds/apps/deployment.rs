//! Deployment.

use super::{TEMPLATE, selector_changed, status_faults, workload_faults, workload_spec};
use crate::kinds::core::pod::template_warnings;
use crate::kinds::reset::Reset;
use crate::kinds::shares::{is_nothing, more_than_all, share_faults};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Pods, Scale, Strategy};
use crate::object::set_metadata;
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults};
use jiff::Timestamp;
use pintle_json::{Json, json};

/// `apps/v1` Deployment.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct Deployment;

impl Strategy for Deployment {
    fn complete_empty(&self, object: &mut Json) {
        object["spec"]["replicas"] = 0.into();
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Part) -> Vec<String> {
        template_warnings::written(object, old, TEMPLATE)
    }

    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = workload_spec(object) {
            spec.set_default("replicas", 1);
            if let Some(strategy) = spec.member("strategy") {
                if strategy.text("/type").is_empty() {
                    strategy.set("type", "RollingUpdate");
                }
                if strategy.text("/type") == "RollingUpdate"
                    && let Some(rolling) = strategy.member("rollingUpdate")
                {
                    rolling.set_default("maxUnavailable", "25%");
                    rolling.set_default("maxSurge", "25%");
                }
            }
            spec.set_default("revisionHistoryLimit", 10);
            spec.set_default("progressDeadlineSeconds", 600);
        }
        object.member("status");
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        let annotations = |object: &Json| object.at("/metadata/annotations").filter(|map| !map.is_empty()).cloned();
        new.get("spec") != old.get("spec") || annotations(new) != annotations(old)
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({}));
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, part: Part) {
        if part == Part::Status {
            let labels = old.at("/metadata/labels").cloned();
            match labels {
                Some(labels) => set_metadata(new, "labels", labels),
                None => crate::object::remove_metadata(new, "labels"),
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let mut faults = workload_faults(object, "deployment");
        let strategy = object.text("/spec/strategy/type");
        let rolling = "spec.strategy.rollingUpdate";
        match strategy {
            "Recreate" if object.has("/spec/strategy/rollingUpdate") => {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                faults.push(FieldFault::forbidden(rolling, why));
            }
            "Recreate" => {}
            "RollingUpdate" => {
                let (fewer, more) = (&*format!("{rolling}.maxUnavailable"), &*format!("{rolling}.maxSurge"));
                faults.extend(share_faults(object, fewer).into_iter().chain(share_faults(object, more)));
                if is_nothing(object, fewer) && is_nothing(object, more) {
                    let value = &object["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
                    faults.push(FieldFault::invalid(fewer, value, "may not be 0 when `maxSurge` is 0"));
                }
                faults.extend(more_than_all(object, fewer));
            }
            _ => {
                let value = object["spec"]["strategy"].clone();
                faults.push(FieldFault::unsupported("spec.strategy", &value, &["Recreate", "RollingUpdate"]));
            }
        }
        let (deadline, ready) =
            (object.integer("/spec/progressDeadlineSeconds"), object.integer("/spec/minReadySeconds"));
        if let Some(deadline) = deadline.filter(|deadline| *deadline < 0) {
            let why = "must be greater than or equal to 0";
            faults.push(FieldFault::invalid("spec.progressDeadlineSeconds", &deadline.into(), why));
        }
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready.unwrap_or(0)) {
            let why = "must be greater than minReadySeconds";
            faults.push(FieldFault::invalid("spec.progressDeadlineSeconds", &deadline.into(), why));
        }
        faults
    }

    fn validate_update(&self, new: &Json, old: &Json, part: Part) -> FieldFaults {
        match part {
            Part::Status => status_faults(new, &["updatedReplicas", "readyReplicas", "availableReplicas"]),
            _ => {
                let mut faults = self.validate_create(new);
                faults.extend(selector_changed(new, old));
                faults
            }
        }
    }

    fn pods(&self) -> Pods {
        Pods::MadeFrom(TEMPLATE)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Ready, Up-to-date, Available, Age, Containers*, Images*, Selector*")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let (containers, images) = table::containers(object.at("/spec/template/spec"));
        vec![
            row.name(),
            row.ready(),
            row.number("/status/updatedReplicas"),
            row.number("/status/availableReplicas"),
            row.age(),
            containers,
            images,
            table::selector(object.at("/spec/selector")).into(),
        ]
    }

    fn reset_fields(&self, part: Part) -> Option<Reset> {
        (part == Part::Status).then_some(&[&["spec"], &["metadata", "labels"]])
    }
}
