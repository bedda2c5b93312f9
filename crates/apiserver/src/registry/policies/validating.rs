//! The admission plugin for ValidatingAdmissionPolicies.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_admission::policy::{Denial, Verdict};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_authz::{Binding, BoundPolicy};
use pintle_json::{Json, json};
use pintle_kinds::Kind;
use pintle_storage::Charge;

use super::is_exempt;
use super::review::{Converted, Invocation, Misconfigured, Review};
use crate::registry::Registry;
use crate::registry::admission_plugin::{AdmissionRequest, Plugin};

/// Evaluates the validating policies for each request, except for requests for policies and webhook configurations.
#[derive(Debug)]
pub(in crate::registry) struct ValidatingPolicies;

impl Plugin for ValidatingPolicies {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let policies = registry.policies.validating(&registry.db);
        if policies.is_empty() || is_exempt(&request.target.kind) {
            return Ok(Vec::new());
        }
        let review = Review::new(registry, request);
        let (mut denials, mut audited) = (Vec::new(), Audited::new());
        let mut converted: Option<(Arc<Kind>, Converted<'_>)> = None;
        for invocation in review.invocations(&policies) {
            match invocation {
                Ok(invocation) => {
                    // Convert the objects only once for all bindings and parameters, because a conversion copies them.
                    let (_, inputs) = match converted.take().filter(|(kind, _)| Arc::ptr_eq(kind, &invocation.kind)) {
                        Some(known) => converted.insert(known),
                        None => converted.insert((invocation.kind.clone(), review.converted(&invocation.kind))),
                    };
                    let verdict = invocation.policy.compiled().evaluate(&inputs.inputs(invocation.param.as_deref()));
                    act(request, &invocation, verdict, &mut denials, &mut audited);
                }
                Err(Misconfigured { policy, binding, why }) if policy.compiled().fails() => {
                    denials.push(Denial::new(denied(policy, binding, &why)));
                }
                Err(_) => {}
            }
        }
        audited.into_iter().for_each(|(key, value)| request.by.annotate(&key, value));
        match denials.into_iter().next() {
            None => Ok(Vec::new()),
            Some(Denial { message, reason, .. }) => {
                let resource = request.target.kind.resource();
                Err(Failure::denied_by_policy(&resource, &review.name(), &message, reason.as_deref()))
            }
        }
    }
}

type Audited = BTreeMap<String, String>;

/// The audit annotation for the first failure of a binding whose actions include `Audit`.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

fn failure(policy: &BoundPolicy, binding: &Binding, denial: &Denial, actions: &[&str]) -> Json {
    json!([{
        "message": denial.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": denial.index,
        "validationActions": actions.to_vec(),
    }])
}

/// Handles failed validations. Depending on the actions of the binding, each failed validation adds a denial, a warning or both.
fn act(
    request: &AdmissionRequest<'_>,
    invocation: &Invocation<'_>,
    verdict: Verdict,
    denials: &mut Vec<Denial>,
    audited: &mut Audited,
) {
    let Invocation { policy, binding, .. } = invocation;
    let actions: Vec<_> = binding.spec.texts("/validationActions").collect();
    for denial in verdict.denials {
        if actions.contains(&"Warn") {
            let Denial { message, .. } = &denial;
            let (policy, binding) = (&policy.name, &binding.name);
            let text = format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
            );
            request.by.warn(text);
        }
        if actions.contains(&"Audit") && !audited.contains_key(FAILURE) {
            audited.insert(FAILURE.into(), failure(policy, binding, &denial, &actions).to_string());
        }
        if actions.contains(&"Deny") {
            denials.push(Denial { message: denied(policy, Some(binding), &denial.message), ..denial });
        }
    }
    for (key, value) in verdict.annotations {
        let values = audited.entry(format!("{}/{key}", policy.name)).or_default();
        // As in kube-apiserver, distinct values from several bindings are joined into one value.
        if values.is_empty() {
            *values = value;
        } else if !values.split(", ").any(|known| known == value) {
            *values = format!("{values}, {value}");
        }
    }
    let always = verdict.annotation_denials.into_iter();
    denials.extend(always.map(|denial| Denial::new(denied(policy, Some(binding), &denial.message))));
}

fn denied(policy: &BoundPolicy, binding: Option<&Binding>, why: &str) -> String {
    let policy = &policy.name;
    match binding {
        Some(Binding { name, .. }) => {
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{name}' denied request: {why}")
        }
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
    }
}
