//! Table cells of Deployments, Jobs and the other kinds that make pods, with what scales and protects them.

use jiff::Timestamp;
use serde_json::Value;

use super::{labels, selector, since};
use crate::kinds::table::durations;
use crate::object::{has, integer_at, list, text, text_at};

/// Whether the rows of this kind are made here.
pub(super) fn knows(kind: &str) -> bool {
    matches!(
        kind,
        "Deployment"
            | "ReplicaSet"
            | "ReplicationController"
            | "StatefulSet"
            | "DaemonSet"
            | "Job"
            | "CronJob"
            | "HorizontalPodAutoscaler"
            | "PodDisruptionBudget"
            | "ControllerRevision"
    )
}

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let name = Value::from(text_at(object, "/metadata/name"));
    let number = |pointer: &str| integer_at(object, pointer).unwrap_or(0);
    let count = |pointer: &str| Value::from(number(pointer));
    let (containers, images) = containers(object.pointer("/spec/template/spec"));
    let selected = selector(object.pointer("/spec/selector"));
    let ready = || format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas")).into();
    match kind {
        "Deployment" => vec![
            name,
            ready(),
            count("/status/updatedReplicas"),
            count("/status/availableReplicas"),
            age,
            containers.into(),
            images.into(),
            selected.into(),
        ],
        "ReplicaSet" | "ReplicationController" => {
            let selected = if kind == "ReplicaSet" { selected } else { labels(object.pointer("/spec/selector")) };
            let (wanted, there) = (count("/spec/replicas"), count("/status/replicas"));
            vec![
                name,
                wanted,
                there,
                count("/status/readyReplicas"),
                age,
                containers.into(),
                images.into(),
                selected.into(),
            ]
        }
        "StatefulSet" => vec![name, ready(), age, containers.into(), images.into()],
        "DaemonSet" => vec![
            name,
            count("/status/desiredNumberScheduled"),
            count("/status/currentNumberScheduled"),
            count("/status/numberReady"),
            count("/status/updatedNumberScheduled"),
            count("/status/numberAvailable"),
            labels(object.pointer("/spec/template/spec/nodeSelector")).into(),
            age,
            containers.into(),
            images.into(),
            selected.into(),
        ],
        "Job" => {
            let duration = job_duration(object, now);
            let (status, completions) = (job_status(object), job_completions(object));
            vec![
                name,
                status.into(),
                completions.into(),
                duration.into(),
                age,
                containers.into(),
                images.into(),
                selected.into(),
            ]
        }
        "CronJob" => cron_job(object, now, age),
        "HorizontalPodAutoscaler" => autoscaler(object, age),
        "PodDisruptionBudget" => {
            let bound = |pointer: &str| match has(object, pointer) {
                true => text(object.pointer(pointer)),
                false => "N/A".into(),
            };
            let (least, most) = (bound("/spec/minAvailable"), bound("/spec/maxUnavailable"));
            vec![name, least.into(), most.into(), count("/status/disruptionsAllowed"), age]
        }
        _ => {
            let owner = list(object, "/metadata/ownerReferences")
                .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
            let owner = owner.map_or_else(
                || "<none>".into(),
                |owner| {
                    let (group, _) = text_at(owner, "/apiVersion").split_once('/').unwrap_or_default();
                    let kind = text_at(owner, "/kind").to_lowercase();
                    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
                    format!("{kind}/{}", text_at(owner, "/name"))
                },
            );
            vec![name, owner.into(), count("/revision"), age]
        }
    }
}

/// The names and the images of the containers of a template's spec.
pub(super) fn containers(spec: Option<&Value>) -> (String, String) {
    let Some(spec) = spec else { return (String::new(), String::new()) };
    let all =
        |key: &str| list(spec, "/containers").map(|container| text_at(container, key)).collect::<Vec<_>>().join(",");
    (all("/name"), all("/image"))
}

fn job_status(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        let is = |condition: &Value| text_at(condition, "/type") == kind && text_at(condition, "/status") == "True";
        list(job, "/status/conditions").any(is)
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if has(job, "/metadata/deletionTimestamp") => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_completions(job: &Value) -> String {
    let succeeded = integer_at(job, "/status/succeeded").unwrap_or(0);
    match integer_at(job, "/spec/completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match integer_at(job, "/spec/parallelism").unwrap_or(0) {
            parallel if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
            _ => format!("{succeeded}/1"),
        },
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer: &str| text_at(job, pointer).parse::<Timestamp>().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => durations::age(start, end.unwrap_or(now)),
    }
}

fn cron_job(object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let spec = |key: &str| text_at(object, &format!("/spec/{key}")).to_owned();
    let zone = if spec("timeZone").is_empty() { "<none>".into() } else { spec("timeZone") };
    let suspend = if object.pointer("/spec/suspend") == Some(&Value::Bool(true)) { "True" } else { "False" };
    let job = object.pointer("/spec/jobTemplate/spec").unwrap_or(&Value::Null);
    let (containers, images) = containers(job.pointer("/template/spec"));
    vec![
        text_at(object, "/metadata/name").into(),
        spec("schedule").into(),
        zone.into(),
        suspend.into(),
        list(object, "/status/active").count().into(),
        since(object.pointer("/status/lastScheduleTime"), now, "<none>").into(),
        age,
        containers.into(),
        images.into(),
        selector(job.get("selector")).into(),
    ]
}

fn autoscaler(object: &Value, age: Value) -> Vec<Value> {
    let target =
        format!("{}/{}", text_at(object, "/spec/scaleTargetRef/kind"), text_at(object, "/spec/scaleTargetRef/name"));
    let least = integer_at(object, "/spec/minReplicas").map_or_else(|| "<unset>".into(), |least| least.to_string());
    let number = |pointer: &str| Value::from(integer_at(object, pointer).unwrap_or(0));
    vec![
        text_at(object, "/metadata/name").into(),
        target.into(),
        targets(object).into(),
        least.into(),
        number("/spec/maxReplicas"),
        number("/status/currentReplicas"),
        age,
    ]
}

/// What an autoscaler looks at: now, and as it should be.
fn targets(object: &Value) -> String {
    const SHOWN: usize = 2;
    let current: Vec<_> = list(object, "/status/currentMetrics").collect();
    let mut texts: Vec<String> = list(object, "/spec/metrics")
        .enumerate()
        .map(|(at, metric)| {
            let member = match text_at(metric, "/type") {
                "Resource" => "resource",
                "ContainerResource" => "containerResource",
                "Pods" => "pods",
                "Object" => "object",
                _ => "external",
            };
            let wanted = |key: &str| metric.pointer(&format!("/{member}/target/{key}"));
            let now = |key: &str| {
                let value = current.get(at).and_then(|metric| metric.pointer(&format!("/{member}/current/{key}")));
                value.map_or_else(|| "<unknown>".into(), |value| text(Some(value)))
            };
            let name = text_at(metric, &format!("/{member}/name"));
            let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
            if let Some(share) = wanted("averageUtilization") {
                let unknown = now("averageUtilization") == "<unknown>";
                let percent = if unknown { "" } else { "%" };
                format!("{label}{}{percent}/{}%", now("averageUtilization"), text(Some(share)))
            } else if let Some(amount) = wanted("averageValue") {
                let average = if matches!(member, "object" | "external") { " (avg)" } else { "" };
                format!("{label}{}/{}{average}", now("averageValue"), text(Some(amount)))
            } else {
                format!("{label}{}/{}", now("value"), text(wanted("value")))
            }
        })
        .collect();
    if texts.is_empty() {
        if let Some(share) = object.pointer("/spec/targetCPUUtilizationPercentage") {
            let now = object.pointer("/status/currentCPUUtilizationPercentage");
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
