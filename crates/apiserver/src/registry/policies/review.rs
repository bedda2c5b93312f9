//! Prepares a request for the evaluation of policies.

use std::sync::Arc;

use pintle_admission::policy::{Candidate, Inputs, Matched, matches, name_of};
use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::request::{Requester, Subresource};
use pintle_authz::{Binding, BoundPolicies, BoundPolicy};
use pintle_json::Json;
use pintle_kinds::Kind;
use pintle_meta::GroupResource;

use super::authorizer::{self, UserAuthorizer};
use super::namespace::{is_namespace, namespace_of};
use super::{params, request};
use crate::registry::Registry;
use crate::registry::admission_plugin::{AdmissionRequest, Operation};

/// A policy that matches a request, with one of its matching bindings and one of the binding's parameters.
pub(super) struct Invocation<'p> {
    pub(super) policy: &'p BoundPolicy,
    pub(super) binding: &'p Binding,
    pub(super) param: Option<Arc<Json>>,
    /// The kind of the resource in the version that the policy matches, which can differ from the request's version.
    pub(super) kind: Arc<Kind>,
}

pub(super) struct Misconfigured<'p> {
    pub(super) policy: &'p BoundPolicy,
    /// The binding that caused the error, or `None` if the policy itself caused the error.
    pub(super) binding: Option<&'p Binding>,
    pub(super) why: String,
}

pub(super) struct Review<'a> {
    pub(super) registry: &'a Registry,
    pub(super) request: &'a AdmissionRequest<'a>,
    /// The request's kind in all served versions, starting with the version of the request.
    kinds: Vec<Arc<Kind>>,
    namespace: Option<Arc<Json>>,
}

impl<'a> Review<'a> {
    pub(super) fn new(registry: &'a Registry, request: &'a AdmissionRequest<'a>) -> Self {
        let own = &request.target.kind;
        let all = registry.kinds();
        // For example, Events are also served in another API group.
        let is_other = |kind: &&Arc<Kind>| {
            kind.stored_as == own.stored_as && (kind.group != own.group || kind.version != own.version)
        };
        let others = all.kinds().filter(is_other);
        // Versions without the subresource of the request cannot match the request.
        let subresource = request.target.subresource;
        let is_checked = matches!(subresource, Subresource::Status | Subresource::Scale);
        let others = others.filter(|kind| !is_checked || kind.subresource(subresource).is_some());
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

    pub(super) fn name(&self) -> String {
        match self.request.target.name.as_str() {
            "" => name_of(self.object()),
            name => name.to_owned(),
        }
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
            operation: request::operation_name(self.request.operation),
            name: self.request.name(),
            is_namespaced: kind.is_namespaced(),
        }
    }

    fn matched(&self) -> Matched<'_> {
        let (object, old_object) = (self.object(), self.request.old);
        let target = self.request.target;
        let writes = matches!(self.request.operation, Operation::Create | Operation::Update);
        let namespace = match is_namespace(&target.kind) {
            // As in kube-apiserver, selectors match a request for a subresource against the old Namespace.
            true if writes && target.subresource == Subresource::None => object.or(old_object),
            true => old_object,
            false => self.namespace.as_deref(),
        };
        // The options of a connect request have no labels, so no selector matches them.
        let object = object.filter(|_| self.request.operation != Operation::Connect);
        Matched { object, old_object, namespace }
    }

    /// Returns the kind in the version that the rules match. Returns `None` if the rules do not match the request.
    pub(super) fn matched_kind(&self, constraints: &Json) -> Option<Arc<Kind>> {
        matches(constraints, &self.candidates(), &self.matched()).map(|at| self.kinds[at].clone())
    }

    /// Returns the invocations of all matching policies, in the order of the policies. Does not evaluate the match
    /// conditions of the policies.
    pub(super) fn invocations<'p>(
        &self,
        policies: &'p BoundPolicies,
    ) -> Vec<Result<Invocation<'p>, Misconfigured<'p>>> {
        let (candidates, matched) = (self.candidates(), self.matched());
        let mut invocations = Vec::new();
        for (_, policy) in policies.iter() {
            let Some(at) = matches(&policy.spec["matchConstraints"], &candidates, &matched) else { continue };
            if let Err(why) = params::check_kind(self.registry, &policy.spec) {
                let why = format!("failed to configure policy: {why}");
                invocations.push(Err(Misconfigured { policy, binding: None, why }));
                continue;
            }
            for (_, binding) in policy.bindings.iter() {
                let resources = &binding.spec["matchResources"];
                if !resources.is_null() && matches(resources, &candidates, &matched).is_none() {
                    continue;
                }
                match params::collect(self.registry, &policy.spec, &binding.spec, namespace_of(self.request)) {
                    Ok(params) => invocations.extend(
                        params
                            .into_iter()
                            .map(|param| Ok(Invocation { policy, binding, param, kind: self.kinds[at].clone() })),
                    ),
                    Err(why) => {
                        let why = format!("failed to configure binding: {why}");
                        invocations.push(Err(Misconfigured { policy, binding: Some(binding), why }));
                    }
                }
            }
        }
        invocations
    }

    /// Returns the object in the request if its type differs from the resource's type, as for a Scale. Objects of other
    /// types are never converted to another version.
    fn own_type(&self) -> Option<&Json> {
        let own = &self.request.target.kind;
        self.object().or(self.request.old).filter(|object| object.text("/kind") != own.kind)
    }

    pub(super) fn converted(&self, kind: &Kind) -> Converted<'_> {
        let own = &*self.request.target.kind;
        let own_type = self.own_type();
        let converted = |object: &Json| {
            if own_type.is_some() { object.clone() } else { convert(object, own, kind, self.request.by) }
        };
        Converted {
            review: self,
            object: self.object().map(converted),
            old_object: self.request.old.map(converted),
            request: request::admission_request(self.request, kind, own_type),
            namespace: self.namespace.as_deref().map(request::namespace_object),
        }
    }
}

/// Returns the object in the version of the kind `to`. An object whose type differs from the type of the resource, such
/// as a Scale, is not converted.
pub(super) fn in_version(object: &Json, from: &Kind, to: &Kind, by: &Requester) -> Json {
    if object.text("/kind") == from.kind { convert(object, from, to, by) } else { object.clone() }
}

fn convert(object: &Json, from: &Kind, to: &Kind, by: &Requester) -> Json {
    if from.group == to.group && from.version == to.version {
        return object.clone();
    }
    if from.strategy.openapi().is_some() {
        let (version, conversion) = (to.api_version(), from.strategy.conversion().or(to.strategy.conversion()));
        let converted = conversion.map(|webhook| webhook.convert(object, &from.api_version(), &version));
        let converted = converted.transpose().map_err(|why| by.fail_conversion(why)).ok().flatten().flatten();
        // Without a webhook, a conversion only changes the version. The conversion keeps fields that the other version
        // does not have.
        let mut converted = converted.unwrap_or_else(|| object.clone());
        converted.set("apiVersion", version);
        if conversion.is_some() {
            to.strategy.prune(&mut converted);
        }
        return converted;
    }
    let written = from.api_version();
    let stored = Arc::new(from.strategy.to_stored(object.clone()));
    let mut shown = Arc::unwrap_or_clone(to.strategy.to_version(&stored, &written));
    shown.set("apiVersion", to.api_version());
    shown
}

pub(super) struct Converted<'a> {
    review: &'a Review<'a>,
    pub(super) object: Option<Json>,
    old_object: Option<Json>,
    request: Json,
    namespace: Option<Json>,
}

impl Converted<'_> {
    pub(super) fn admission_request(&self) -> Json {
        let mut request = self.request.clone();
        request.set("object", self.object.clone().unwrap_or_default());
        request.set("oldObject", self.old_object.clone().unwrap_or_default());
        request
    }

    pub(super) fn inputs<'s>(&'s self, params: Option<&'s Json>) -> Inputs<'s> {
        let request = self.review.request;
        Inputs {
            object: self.object.as_ref(),
            old_object: self.old_object.as_ref(),
            params,
            request: &self.request,
            namespace: self.namespace.as_ref(),
            authorizer: Arc::new(UserAuthorizer::new(self.review.registry, &request.by.user)),
            resource: authorizer::question(request),
        }
    }
}
