//! `/eviction`: a pod goes, if its disruption budget lets it.

use std::sync::Arc;

use pintle_json::{Json, json};

use super::PODS;
use crate::failure::{Failure, Outcome};
use crate::kinds::pod_disruption_budget as budget;
use crate::kinds::posting::{Posting, PostingStep, Task};
use crate::kinds::{Context, GroupResource, Kind, Place};
use crate::object::{holds, metadata, set_condition};
use crate::request::options::DeleteOptions;

/// `policy/v1` Eviction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eviction;

impl Posting for Eviction {
    fn body(&self, _: &Place, api_version: &str) -> Arc<Kind> {
        let kind = Kind::of_bodies("policy", "v1", "Eviction");
        Arc::new(if api_version == "policy/v1beta1" { kind.also_as("v1beta1") } else { kind })
    }

    fn task(&self, context: &Context<'_>, place: &Place, sent: &Json, dry_run: bool) -> Outcome<Task> {
        place.check_namespace(metadata::namespace(sent))?;
        let mut options = DeleteOptions::from_body(&sent["deleteOptions"])?;
        options.dry_run |= dry_run;
        if metadata::name(sent) != place.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let resource = GroupResource::new("", PODS);
        let pod = context.cluster.object(&resource, &place.namespace, &place.name);
        let pod = pod.ok_or_else(|| Failure::not_found(&resource, &place.name))?;
        let mut steps = Vec::new();
        if !needs_no_budget(&pod) {
            steps.extend(budget::disruption(context, place, &pod, holds(&pod, "Ready"))?);
        }
        if !metadata::is_deleting(&pod) {
            let (place, options, now) = (place.clone(), options.clone(), context.time());
            let (namespace, name) = (place.namespace.clone(), place.name.clone());
            let change = move |pod: &mut Json| {
                place.check_preconditions(pod, &options)?;
                set_condition(pod, condition(), &now);
                Ok(())
            };
            steps.push(PostingStep::Rewrite { resource, namespace, name, change: Box::new(change) });
        }
        let dry_run = options.dry_run;
        steps.push(PostingStep::Delete(options));
        Ok(Task::Steps { steps, dry_run })
    }
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

fn needs_no_budget(pod: &Json) -> bool {
    let phase = pod.text("/status/phase");
    matches!(phase, "Pending" | "Succeeded" | "Failed") || metadata::is_deleting(pod)
}
