//! Converts between `autoscaling/v1` and `autoscaling/v2` without losing data.

use std::sync::OnceLock;

use pintle_fieldmanager::Conversion;
use pintle_json::{Json, json};
use pintle_schema::Schema;

use super::notes::{self, BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS};
use super::read;

const OLD: &str = "autoscaling/v1";
const NEW: &str = "autoscaling/v2";
/// The default CPU utilization target, in percent.
const DEFAULT_SHARE: i64 = 80;

#[derive(Debug)]
pub(super) struct Autoscalers;

impl Conversion for Autoscalers {
    fn convert(&self, object: &Json, from: &str, to: &str) -> Result<Option<Json>, String> {
        Ok(match (from, to) {
            (OLD, NEW) => Some(to_new(object)),
            (NEW, OLD) => Some(to_old(object)),
            _ => None,
        })
    }
}

/// Converts an object from v1 to v2. Ignores invalid annotations.
pub(super) fn to_new(old: &Json) -> Json {
    let mut new = old.clone();
    new.set("apiVersion", NEW);
    let note = |name: &str| notes::text(old, name);
    if let Some(spec) = new.member("spec") {
        let mut metrics = note(METRICS).and_then(read::metrics).filter(|list| fits("spec", "metrics", list));
        let metrics = metrics.get_or_insert_with(|| json!([]));
        if let (Some(metrics), Some(share)) =
            (metrics.as_array_mut(), take_non_null(spec, "targetCPUUtilizationPercentage"))
        {
            metrics.push(cpu("target", json!({"type": "Utilization", "averageUtilization": share})));
        }
        if metrics.is_empty() {
            *metrics = json!([cpu("target", json!({"type": "Utilization", "averageUtilization": DEFAULT_SHARE}))]);
        }
        spec.set("metrics", metrics.take());
        let behavior = note(BEHAVIOR).and_then(read::behavior).filter(|rules| fits("spec", "behavior", rules));
        if let Some(mut behavior) = behavior {
            // Like a new v2 object, the converted object gets the default scaling behavior.
            super::fill_behavior(&mut behavior);
            spec.set("behavior", behavior);
        }
    }
    if let Some(status) = new.member("status") {
        let share = take_non_null(status, "currentCPUUtilizationPercentage");
        let current = note(CURRENT_METRICS).and_then(read::current_metrics);
        match current.filter(|list| fits("status", "currentMetrics", list)) {
            Some(current) => status.set("currentMetrics", current),
            None => {
                if let Some(share) = share {
                    status.set("currentMetrics", json!([cpu("current", json!({"averageUtilization": share}))]));
                }
            }
        }
        let conditions = note(CONDITIONS).and_then(|text| serde_json::from_str(text).ok());
        if let Some(conditions) = conditions.filter(|list| fits("status", "conditions", list)) {
            status.set("conditions", conditions);
        }
    }
    notes::ALL.iter().for_each(|name| notes::drop(&mut new, name));
    new_schema().map_or(new.clone(), |schema| schema.normalised(new))
}

/// Converts v2 to v1, and stores the fields that exist only in v2 in annotations.
pub(super) fn to_old(new: &Json) -> Json {
    let mut old = new.clone();
    old.set("apiVersion", OLD);
    notes::ALL.iter().for_each(|name| notes::drop(&mut old, name));
    let mut write = Vec::new();
    if let Some(spec) = old.member("spec") {
        let (shares, others): (Vec<_>, Vec<_>) = new.list("/spec/metrics").partition(|metric| share(metric).is_some());
        if let Some(share) = shares.first().and_then(|metric| share(metric)) {
            spec.set("targetCPUUtilizationPercentage", share.clone());
        }
        if !others.is_empty() {
            write.push((METRICS, notes::write_metrics(&others)));
        }
        if let Some(behavior) = take_non_null(spec, "behavior") {
            write.push((BEHAVIOR, notes::write_behavior(&behavior)));
        }
        spec.unset("metrics");
    }
    if let Some(status) = old.member("status") {
        let current: Vec<_> = new.list("/status/currentMetrics").collect();
        let of_cpu = current.iter().filter(|metric| is_cpu(metric));
        if let Some(share) = of_cpu.filter_map(|metric| metric.at("/resource/current/averageUtilization")).next_back() {
            status.set("currentCPUUtilizationPercentage", share.clone());
        }
        if !current.is_empty() {
            write.push((CURRENT_METRICS, notes::write_current_metrics(&current)));
        }
        let conditions: Vec<_> = new.list("/status/conditions").collect();
        if !conditions.is_empty() {
            write.push((CONDITIONS, notes::write_conditions(&conditions)));
        }
        status.unset("currentMetrics");
        status.unset("conditions");
        status.set_default("currentReplicas", 0);
    }
    for (name, text) in write {
        notes::put(&mut old, name, text);
    }
    old_schema().map_or(old.clone(), |schema| schema.normalised(old))
}

fn is_cpu(metric: &Json) -> bool {
    metric.text("/type") == "Resource" && metric.text("/resource/name") == "cpu"
}

/// Returns the target CPU utilization of a metric, if v1 has a field for this metric.
fn share(metric: &Json) -> Option<&Json> {
    metric.at("/resource/target/averageUtilization").filter(|share| is_cpu(metric) && !share.is_null())
}

fn cpu(side: &str, amount: Json) -> Json {
    json!({"type": "Resource", "resource": {"name": "cpu", side: amount}})
}

/// Removes and returns a member. Returns `None` if the member is absent or null.
fn take_non_null(object: &mut Json, key: &str) -> Option<Json> {
    object.as_object_mut()?.remove(key).filter(|value| !value.is_null())
}

/// Returns `true` if the value has the JSON type of the v2 field.
fn fits(part: &str, field: &str, value: &Json) -> bool {
    new_schema().is_some_and(|schema| schema.read(json!({part: {field: value}})).is_ok())
}

fn new_schema() -> Option<&'static Schema> {
    static SCHEMA: OnceLock<Option<Schema>> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::builtin(NEW, "HorizontalPodAutoscaler")).as_ref()
}

fn old_schema() -> Option<&'static Schema> {
    static SCHEMA: OnceLock<Option<Schema>> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::builtin(OLD, "HorizontalPodAutoscaler")).as_ref()
}
