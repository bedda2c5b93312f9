//! The admission plugin for ValidatingAdmissionPolicy.

mod authorizer;
mod params;
mod request;

use std::sync::Arc;

use pintle_json::Json;

use self::authorizer::UserAuthorizer;
use super::Registry;
use super::admission_plugin::{AdmissionRequest, Operation, Plugin};
use crate::auth::{Binding, BoundPolicy};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource, Kind};
use crate::policy::{Candidate, Denial, Inputs, Matched, Verdict, matches, name_of};
use crate::store::Charge;

/// Evaluates the policies for each request, except requests for policies and webhook configurations.
#[derive(Debug)]
pub(super) struct ValidatingPolicies;

impl Plugin for ValidatingPolicies {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let policies = registry.policies.bound(&registry.db);
        if policies.is_empty() || request.target.kind.group == "admissionregistration.k8s.io" {
            return Ok(Vec::new());
        }
        let review = Review::new(registry, request);
        let mut denials = Vec::new();
        for policy in policies.iter() {
            review.check(policy, &mut denials);
        }
        match denials.into_iter().next() {
            None => Ok(Vec::new()),
            Some(denial) => Err(review.refusal(denial)),
        }
    }
}

/// One request, prepared for policies.
struct Review<'a> {
    registry: &'a Registry,
    request: &'a AdmissionRequest<'a>,
    /// The kinds under which the resource is served. The first one is the kind of the request.
    kinds: Vec<Arc<Kind>>,
    /// `None` for a cluster-scoped object.
    namespace: Option<Arc<Json>>,
}

impl<'a> Review<'a> {
    fn new(registry: &'a Registry, request: &'a AdmissionRequest<'a>) -> Self {
        let own = &request.target.kind;
        let all = registry.kinds();
        let others = all.versions_of(&own.store).filter(|kind| kind.group != own.group || kind.version != own.version);
        let kinds = std::iter::once(own).chain(others).cloned().collect();
        let namespace = match request.target.namespace.as_str() {
            "" => None,
            name => registry.db.object(&GroupResource::new("", "namespaces"), "", name),
        };
        Self { registry, request, kinds, namespace }
    }

    fn object(&self) -> Option<&Json> {
        self.request.new.as_deref().filter(|_| self.request.operation != Operation::Delete)
    }

    fn candidates(&self) -> Vec<Candidate<'_>> {
        self.kinds.iter().map(|kind| self.candidate(kind)).collect()
    }

    fn candidate<'k>(&'k self, kind: &'k Kind) -> Candidate<'k> {
        Candidate {
            group: &kind.group,
            version: &kind.version,
            resource: &kind.plural,
            subresource: self.request.target.subresource.name(),
            operation: request::operation(self.request.operation),
            name: self.request.name(),
            is_namespaced: kind.namespaced(),
        }
    }

    fn matched(&self) -> Matched<'_> {
        let (object, old_object) = (self.object(), self.request.old);
        let is_namespace = self.request.target.kind.group.is_empty() && self.request.target.kind.plural == "namespaces";
        let namespace = if is_namespace { object.or(old_object) } else { self.namespace.as_deref() };
        Matched { object, old_object, namespace }
    }

    /// Adds the denials of a policy.
    fn check(&self, policy: &BoundPolicy, denials: &mut Vec<Denial>) {
        let (candidates, matched) = (self.candidates(), self.matched());
        let Some(at) = matches(&policy.spec["matchConstraints"], &candidates, &matched) else { return };
        if let Err(why) = params::check_kind(self.registry, &policy.spec) {
            let why = format!("failed to configure policy: {why}");
            denials.extend(policy.compiled.fails().then(|| Denial::new(denied(policy, None, &why))));
            return;
        }
        let inputs = Converted::new(self, &self.kinds[at]);
        for binding in &policy.bindings {
            let resources = &binding.spec["matchResources"];
            if !resources.is_null() && matches(resources, &candidates, &matched).is_none() {
                continue;
            }
            match params::collect(self.registry, &policy.spec, &binding.spec, &self.request.target.namespace) {
                Ok(params) => {
                    for param in params {
                        self.act(policy, binding, inputs.evaluate(policy, param.as_deref()), denials);
                    }
                }
                Err(why) if policy.compiled.fails() => {
                    let why = format!("failed to configure binding: {why}");
                    denials.push(Denial::new(denied(policy, Some(binding), &why)));
                }
                Err(_) => {}
            }
        }
    }

    /// Denies the request or warns, as the binding says.
    fn act(&self, policy: &BoundPolicy, binding: &Binding, verdict: Verdict, denials: &mut Vec<Denial>) {
        let actions: Vec<_> = binding.spec.texts("/validationActions").collect();
        for denial in verdict.denials {
            if actions.contains(&"Warn") {
                let Denial { message, .. } = &denial;
                let (policy, binding) = (&policy.name, &binding.name);
                let text = format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
                );
                self.request.by.warn(text);
            }
            if actions.contains(&"Deny") {
                denials.push(Denial { message: denied(policy, Some(binding), &denial.message), ..denial });
            }
        }
        let always = verdict.annotation_denials.into_iter();
        denials.extend(always.map(|denial| Denial::new(denied(policy, Some(binding), &denial.message))));
    }

    /// Returns the response to a denied request.
    fn refusal(&self, denial: Denial) -> Failure {
        let name = match self.request.target.name.as_str() {
            "" => name_of(self.object()),
            name => name.to_owned(),
        };
        let resource = self.request.target.kind.resource();
        Failure::denied_by_policy(&resource, &name, &denial.message, denial.reason.as_deref())
    }
}

/// Returns the message of a denial, which names the policy and the binding.
fn denied(policy: &BoundPolicy, binding: Option<&Binding>, why: &str) -> String {
    let policy = &policy.name;
    match binding {
        Some(Binding { name, .. }) => {
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{name}' denied request: {why}")
        }
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
    }
}

/// The objects of a request in the version that a policy matches, and the other variables.
struct Converted<'a> {
    review: &'a Review<'a>,
    object: Option<Arc<Json>>,
    old_object: Option<Arc<Json>>,
    request: Json,
    namespace: Option<Json>,
}

impl<'a> Converted<'a> {
    fn new(review: &'a Review<'a>, kind: &Kind) -> Self {
        let own = &review.request.target.kind;
        // A subresource with its own type has no other versions.
        let converted = |object: &Json| {
            let object = Arc::new(object.clone());
            if own.group == kind.group && own.version == kind.version {
                return object;
            }
            let written = own.api_version();
            let stored = Arc::new(own.strategy.to_stored(Arc::unwrap_or_clone(object)));
            let mut shown = Arc::unwrap_or_clone(kind.strategy.shown(&stored, &written));
            shown.set("apiVersion", kind.api_version());
            Arc::new(shown)
        };
        Self {
            review,
            object: review.object().map(converted),
            old_object: review.request.old.map(converted),
            request: request::attributes(review.request, kind),
            namespace: review.namespace.as_deref().map(request::namespace),
        }
    }

    fn evaluate(&self, policy: &BoundPolicy, params: Option<&Json>) -> Verdict {
        let request = self.review.request;
        policy.compiled.evaluate(&Inputs {
            object: self.object.as_deref(),
            old_object: self.old_object.as_deref(),
            params,
            request: &self.request,
            namespace: self.namespace.as_ref(),
            authorizer: Arc::new(UserAuthorizer::new(self.review.registry, &request.by.user)),
            resource: authorizer::question(request),
        })
    }
}
