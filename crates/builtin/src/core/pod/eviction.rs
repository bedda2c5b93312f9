//! The subresource `/eviction`, which deletes a pod if the disruption budget of the pod allows it.

use std::sync::Arc;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{holds, metadata, set_condition};
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, PostStep, Task};
use pintle_kinds::{Kind, Plain, RequestTarget};
use pintle_meta::GroupResource;

use super::PODS;
use crate::pod_disruption_budget::{self as budget, Disruption};

pub(super) struct Eviction;

impl PostHandler for Eviction {
    fn body(&self, _: &RequestTarget, api_version: &str) -> Arc<Kind> {
        let kind = Kind::body_only("policy", "v1", "Eviction", Arc::new(Plain));
        Arc::new(if api_version == "policy/v1beta1" { kind.with_version("v1beta1") } else { kind })
    }

    fn check(&self, _: &Context<'_>, target: &RequestTarget, sent: &Json) -> Outcome<()> {
        if metadata::name(sent) != target.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        Ok(())
    }

    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task> {
        check_dry_run(&sent["deleteOptions"], dry_run)?;
        // As in kube-apiserver, the disruption budget is checked before the values of the options.
        let (mut options, invalid) = match DeleteOptions::from_body(&sent["deleteOptions"]) {
            Err(failure) if failure.status.code == 422 => (DeleteOptions::default(), Some(failure)),
            options => (options?, None),
        };
        options.dry_run |= dry_run;
        let resource = GroupResource::new("", PODS);
        let pod = context.cluster.object(&resource, &target.namespace, &target.name);
        let pod = pod.ok_or_else(|| Failure::not_found(&resource, &target.name))?;
        let mut steps = Vec::new();
        // `true` if the phase or readiness of the pod exempts the eviction from the disruption budget. The pod can
        // still change before the server deletes it.
        let mut is_exempt = pod.text("/status/phase") == "Pending";
        if !is_exempt && !is_finished(&pod) {
            match budget::disruption(context, target, &pod, holds(&pod, "Ready"))? {
                Disruption::NoBudget => (),
                Disruption::Exempt => is_exempt = true,
                Disruption::Charged(step) => steps.push(step),
            }
        }
        if let Some(failure) = invalid {
            let (namespace, name) = (target.namespace.clone(), target.name.clone());
            let change = Box::new(move |_: &mut Json| Err(failure.clone()));
            steps.push(PostStep::Rewrite { resource, namespace, name, change });
            return Ok(Task::Steps { steps, dry_run, only_if_unchanged: false });
        }
        let only_if_unchanged = is_exempt && !is_finished(&pod) && options.resource_version.is_none();
        if only_if_unchanged {
            options.resource_version = Some(pod.text("/metadata/resourceVersion").to_owned());
        }
        if !metadata::is_deleting(&pod) {
            let (target, options, now) = (target.clone(), options.clone(), context.time());
            let (namespace, name) = (target.namespace.clone(), target.name.clone());
            let change = move |pod: &mut Json| {
                target.check_preconditions(pod, &options)?;
                set_condition(pod, condition(), &now);
                Ok(())
            };
            steps.push(PostStep::Rewrite { resource, namespace, name, change: Box::new(change) });
        }
        let dry_run = options.dry_run;
        steps.push(PostStep::Delete(options));
        Ok(Task::Steps { steps, dry_run, only_if_unchanged })
    }
}

/// Returns an error if the body and the query contain different dry-run options.
fn check_dry_run(options: &Json, dry_run: bool) -> Outcome<()> {
    let sent: Vec<&str> = options.list("/dryRun").map(|option| option.text("")).collect();
    if !dry_run || sent.is_empty() || sent == ["All"] {
        return Ok(());
    }
    let why = format!("Non-matching dry-run options in request and content: [All] and [{}]", sent.join(" "));
    Err(Failure::plain(500, why))
}

fn condition() -> Json {
    json!({
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": null,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    })
}

/// Returns `true` if the pod is finished or terminating. A finished or terminating pod stays in this state.
fn is_finished(pod: &Json) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed") || metadata::is_deleting(pod)
}
