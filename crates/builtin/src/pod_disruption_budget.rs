//! The `PodDisruptionBudget` kind in `policy/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{condition, metadata, set_condition};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::selector::{selects, structured};
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;
use pintle_kinds::post_handler::PostStep;
use pintle_kinds::{RequestTarget, Strategy};
use pintle_meta::{GroupResource, Reason, StatusCause, StatusDetails};

use crate::go_struct::invalid_struct;
use crate::int_or_percent::bounded_share_errors;
use crate::meta_conditions::condition_errors;

pub(crate) struct PodDisruptionBudget;

const GO_FIELDS: &[(&str, &str)] = &[
    ("minAvailable", "MinAvailable"),
    ("selector", "Selector"),
    ("maxUnavailable", "MaxUnavailable"),
    ("unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy"),
];

impl Strategy for PodDisruptionBudget {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let both = object.has("/spec/minAvailable") && object.has("/spec/maxUnavailable");
        Check::of(object)
            .refuse(both, || {
                let why = "minAvailable and maxUnavailable cannot be both set";
                invalid_struct("spec", &object["spec"], GO_FIELDS, why)
            })
            .also(bounded_share_errors(object, "spec.minAvailable"))
            .also(bounded_share_errors(object, "spec.maxUnavailable"))
            .known("spec.unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"])
            .also(selector_errors(&object["spec"]["selector"], "spec.selector"))
            .done()
    }

    fn validate_update(&self, new: &Json, _: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => {
                let fields = [
                    "status.disruptionsAllowed",
                    "status.currentHealthy",
                    "status.desiredHealthy",
                    "status.expectedPods",
                ];
                Check::of(new).also(condition_errors(new, "status.conditions")).not_negative(&fields).done()
            }
            _ => self.validate_create(new),
        }
    }
}

pub(super) enum Disruption {
    /// No disruption budget selects the pod.
    NoBudget,
    /// The pod is not ready, so its eviction is allowed and does not count as a disruption.
    Exempt,
    /// The eviction is allowed and counts as a disruption. The `PostStep` records the disruption in the budget.
    Charged(PostStep),
}

pub(super) fn disruption(
    context: &Context<'_>,
    pod_at: &RequestTarget,
    pod: &Json,
    is_ready: bool,
) -> Outcome<Disruption> {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    let namespace = pod_at.namespace.clone();
    let budgets = context.cluster.objects(&resource, Some(&namespace));
    let matching: Vec<_> = budgets.iter().filter(|budget| covers(budget, pod)).collect();
    let budget = match matching[..] {
        [] => return Ok(Disruption::NoBudget),
        [budget] => budget,
        _ => {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Failure::plain(500, why));
        }
    };
    if !is_ready {
        let policy = budget.text("/spec/unhealthyPodEvictionPolicy");
        let (healthy, desired) = (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
        if policy == "AlwaysAllow" || (desired > 0 && healthy >= desired) {
            return Ok(Disruption::Exempt);
        }
    }
    let (name, pod, now) = (metadata::name(budget).to_owned(), pod_at.name.clone(), context.time());
    let change = move |budget: &mut Json| charge(budget, &pod, &now);
    let (subresource, change) = (Subresource::Status, Box::new(change));
    Ok(Disruption::Charged(PostStep::Update { resource, namespace, name, subresource, change }))
}

/// Returns `true` if the selector of the budget matches the pod. A missing selector matches no pod, and an empty
/// selector matches every pod.
fn covers(budget: &Json, pod: &Json) -> bool {
    structured(&budget["spec"]["selector"]).is_some_and(|selector| selects(&selector, pod))
}

/// Subtracts one allowed disruption and records the evicted pod. Fails if the budget allows no disruption.
fn charge(budget: &mut Json, pod: &str, now: &str) -> Outcome<()> {
    const MAX_DISRUPTED: usize = 2_000;
    let name = metadata::name(budget);
    let forbidden = |why| {
        let resource = GroupResource::new("policy", "poddisruptionbudget");
        Err(Failure::forbidden(&resource, name, why))
    };
    let observed = number(budget, "/status/observedGeneration");
    if observed < metadata::generation(budget).unwrap_or(0) {
        return Err(refused(format!("The disruption budget {name} is still being processed by the server."), 10));
    }
    let allowed = number(budget, "/status/disruptionsAllowed");
    match allowed {
        ..0 => return forbidden("pdb disruptions allowed is negative"),
        _ if budget.members("/status/disruptedPods").count() > MAX_DISRUPTED => {
            return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
        }
        0 => return Err(refused(not_allowed(budget), 0)),
        _ => {}
    }
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    budget["status"]["disruptedPods"][pod] = now.into();
    // As in kube-apiserver, only the use of the last allowed disruption changes the condition.
    if allowed == 1 {
        let mut insufficient =
            json!({"type": DISRUPTION_ALLOWED, "status": "False", "reason": "InsufficientPods", "message": ""});
        if observed != 0 {
            insufficient.set("observedGeneration", observed);
        }
        set_condition(budget, insufficient, now);
    }
    Ok(())
}

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

fn not_allowed(budget: &Json) -> String {
    let name = metadata::name(budget);
    let blocked = condition(budget, DISRUPTION_ALLOWED)
        .filter(|condition| condition.text("/status") == "False" && !condition.text("/message").is_empty())
        .map(|condition| (condition.text("/reason"), condition.text("/message")));
    let (healthy, desired) = (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
    let currently = format!("The disruption budget {name} does not allow evicting pods currently");
    match blocked {
        Some(("SyncFailed", message)) => format!("{currently} because it failed sync: {message}"),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!("{currently} ({reason}): {message}"),
        None => currently,
    }
}

fn number(object: &Json, pointer: &str) -> i64 {
    object.integer(pointer).unwrap_or(0)
}

fn refused(why: String, retry_after_seconds: u32) -> Failure {
    let cause = StatusCause { reason: "DisruptionBudget".into(), message: why, ..StatusCause::default() };
    let details = StatusDetails { causes: vec![cause], retry_after_seconds, ..StatusDetails::default() };
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Failure::new(429, Reason::TooManyRequests, message).with(details)
}
