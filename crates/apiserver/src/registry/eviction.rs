//! `/eviction`: a pod goes, if its disruption budget lets it.

use std::sync::Arc;

use pintle_json::{Json, json};
use pintle_meta::{Reason, StatusCause, StatusDetails};

use super::Registry;
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource, Place};
use crate::object::{holds, metadata};
use crate::request::options::DeleteOptions;
use crate::selector::{selects, structured};

impl Registry {
    /// Evicts the pod at `place`.
    pub(crate) fn evict(&self, place: &Place, eviction: &Json, options: &DeleteOptions) -> Outcome<()> {
        if metadata::name(eviction) != place.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let pod = self.get(place)?.tree();
        if !needs_no_budget(&pod) {
            self.charge_budget(place, &pod, options.dry_run)?;
        }
        let mut options = options.clone();
        if !options.dry_run && !metadata::is_deleting(&pod) {
            self.check_preconditions(place, &pod, &options)?;
            let marked = self.rewrite(place, false, |pod| {
                let condition = json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastProbeTime": null,
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                });
                self.set_condition(pod, condition);
                Ok(())
            })?;
            // The pod has to be still as it was asked to be, but for that.
            if options.resource_version.is_some() {
                options.resource_version = Some(marked.text("/metadata/resourceVersion").to_owned());
            }
        }
        self.delete(place, &options)?;
        Ok(())
    }

    /// Takes one disruption from the budget that the pod belongs to, if there is one.
    fn charge_budget(&self, place: &Place, pod: &Json, dry_run: bool) -> Outcome<()> {
        let budgets = self.db.objects(&GroupResource::new("policy", "poddisruptionbudgets"), Some(&place.namespace));
        let mine: Vec<_> = budgets.iter().filter(|budget| covers(budget, pod)).collect();
        let budget = match mine[..] {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Failure::plain(500, why));
            }
        };
        let number = |object: &Json, path: &str| object.integer(path).unwrap_or(0);
        if !holds(pod, "Ready") {
            let policy = budget.text("/spec/unhealthyPodEvictionPolicy");
            let (healthy, desired) =
                (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
            if policy == "AlwaysAllow" || (desired > 0 && healthy >= desired) {
                return Ok(());
            }
        }
        let kinds = self.kinds();
        let kind = kinds.kind("policy", "v1", "PodDisruptionBudget").ok_or_else(Failure::no_such_resource)?;
        let budget = Place::new(Arc::clone(kind), &place.namespace, metadata::name(budget));
        self.rewrite(&budget, dry_run, |budget| {
            let name = metadata::name(budget).to_owned();
            let generation = metadata::generation(budget).unwrap_or(0);
            if number(budget, "/status/observedGeneration") < generation {
                let why = format!("The disruption budget {name} is still being processed by the server.");
                return Err(refused(&why, 10));
            }
            let allowed = number(budget, "/status/disruptionsAllowed");
            if allowed <= 0 {
                return Err(refused(
                    &format!("The disruption budget {name} does not allow evicting pods currently"),
                    0,
                ));
            }
            budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
            budget["status"]["disruptedPods"][&place.name] = self.clock.now_text().into();
            let (status, reason) = if allowed > 1 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            let condition = json!({
                "type": "DisruptionAllowed",
                "status": status,
                "observedGeneration": generation,
                "reason": reason,
                "message": "",
            });
            self.set_condition(budget, condition);
            Ok(())
        })?;
        Ok(())
    }

    fn check_preconditions(&self, place: &Place, pod: &Json, options: &DeleteOptions) -> Outcome<()> {
        super::delete::check_preconditions(&place.kind, &place.name, pod, options)
    }
}

fn needs_no_budget(pod: &Json) -> bool {
    let phase = pod.text("/status/phase");
    matches!(phase, "Pending" | "Succeeded" | "Failed") || metadata::is_deleting(pod)
}

/// Whether a budget's selector selects the pod: an absent one selects nothing, an empty one everything.
fn covers(budget: &Json, pod: &Json) -> bool {
    structured(&budget["spec"]["selector"]).is_some_and(|selector| selects(&selector, pod))
}

fn refused(why: &str, retry_after_seconds: u32) -> Failure {
    let cause = StatusCause { reason: "DisruptionBudget".into(), message: why.into(), ..StatusCause::default() };
    let details = StatusDetails { causes: vec![cause], retry_after_seconds, ..StatusDetails::default() };
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Failure::new(429, Reason::TooManyRequests, message).with(details)
}
