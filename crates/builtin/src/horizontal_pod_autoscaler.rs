//! The `HorizontalPodAutoscaler` kind, which is stored as `autoscaling/v2`. An `autoscaling/v1` object stores fields
//! that only v2 has in annotations.

mod conversion;
mod metric_fields;
mod notes;
mod read;
mod spec_errors;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pintle_json::{Json, json};

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::text;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_kinds::{Form, Strategy};

pub(super) struct V2;

pub(super) struct V1;

impl Strategy for V2 {
    fn defaults(&self, object: &mut Json) {
        // Remove the v1 annotations, because v2 objects store the same data in fields.
        notes::ALL.iter().for_each(|name| notes::drop(object, name));
        if let Some(spec) = object.member("spec") {
            if spec.get("metrics").is_none_or(Json::is_empty) {
                let target = json!({"type": "Utilization", "averageUtilization": 80});
                spec.set("metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
            }
            if let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) {
                fill_behavior(behavior);
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        spec_errors::spec(object, None)
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => {
                Check::of(new).not_negative(&["status.currentReplicas", "status.desiredReplicas"]).done()
            }
            _ => spec_errors::spec(new, Some(old)),
        }
    }

    fn conversion(&self) -> Option<&dyn pintle_fieldmanager::Conversion> {
        Some(&conversion::Autoscalers)
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Targets", Cell::Computed(|hpa| targets(hpa).into()))]
    }
}

impl Strategy for V1 {
    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            spec.set_default("minReplicas", 1);
        }
        // Normalize the annotations by converting the object to v2 and back.
        *object = conversion::to_old(&conversion::to_new(object));
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"currentReplicas": 0, "desiredReplicas": 0}));
        notes::OF_STATUS.iter().for_each(|name| notes::drop(object, name));
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        let kept = if subresource == Subresource::Status { notes::OF_SPEC } else { notes::OF_STATUS };
        kept.iter().for_each(|name| notes::restore_member(new, old, name));
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        V2.validate_create(&conversion::to_new(object))
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        V2.validate_update(&conversion::to_new(new), &conversion::to_new(old), subresource)
    }

    fn to_stored(&self, object: Json) -> Json {
        conversion::to_new(&object)
    }

    fn form(&self) -> Form {
        Form::Converted
    }

    fn to_version(&self, stored: &Arc<Json>, _: &str) -> Arc<Json> {
        Arc::new(conversion::to_old(stored))
    }

    fn conversion(&self) -> Option<&dyn pintle_fieldmanager::Conversion> {
        Some(&conversion::Autoscalers)
    }

    fn computed_cells(&self) -> ComputedCells {
        V2.computed_cells()
    }
}

fn fill_behavior(behavior: &mut Json) {
    let up = json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]);
    if let Some(rules) = behavior.member("scaleUp") {
        rules.set_default("stabilizationWindowSeconds", 0);
        rules.set_default("selectPolicy", "Max");
        rules.set_default("policies", up);
    }
    if let Some(rules) = behavior.member("scaleDown") {
        rules.set_default("selectPolicy", "Max");
        rules.set_default("policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

fn targets(object: &Json) -> String {
    const SHOWN: usize = 2;
    let current: Vec<_> = object.list("/status/currentMetrics").collect();
    let mut texts: Vec<String> = object
        .list("/spec/metrics")
        .enumerate()
        .map(|(at, metric)| {
            let member = match metric.text("/type") {
                "Resource" => "resource",
                "ContainerResource" => "containerResource",
                "Pods" => "pods",
                "Object" => "object",
                _ => "external",
            };
            let target_value = |key: &str| metric.at(&format!("/{member}/target/{key}"));
            let now = |key: &str| {
                let value = current.get(at).and_then(|metric| metric.at(&format!("/{member}/current/{key}")));
                value.map_or_else(|| "<unknown>".into(), |value| text(Some(value)))
            };
            let name = metric.text(&format!("/{member}/name"));
            let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
            if let Some(share) = target_value("averageUtilization") {
                let unknown = now("averageUtilization") == "<unknown>";
                let percent = if unknown { "" } else { "%" };
                format!("{label}{}{percent}/{}%", now("averageUtilization"), text(Some(share)))
            } else if let Some(amount) = target_value("averageValue") {
                let average = if matches!(member, "object" | "external") { " (avg)" } else { "" };
                format!("{label}{}/{}{average}", now("averageValue"), text(Some(amount)))
            } else {
                format!("{label}{}/{}", now("value"), text(target_value("value")))
            }
        })
        .collect();
    if texts.is_empty() {
        if let Some(share) = object.at("/spec/targetCPUUtilizationPercentage") {
            let now = object.at("/status/currentCPUUtilizationPercentage");
            let now = now.map_or_else(|| "<unknown>".into(), |now| format!("{}%", text(Some(now))));
            return format!("cpu: {now}/{}%", text(Some(share)));
        }
        return "<none>".into();
    }
    let count = texts.len();
    texts.truncate(SHOWN);
    let shown = texts.join(", ");
    if count > SHOWN { format!("{shown} + {} more...", count - SHOWN) } else { shown }
}
