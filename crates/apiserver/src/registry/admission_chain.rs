//! Admission: who has a say in a request beside the kind that it is about.
//!
//! Each [`Plugin`] of the chain is asked twice: first whether it would have anything else than what is sent, then whether it lets pass
//! what has come of that. It is told of every create, update and deletion, each object of a collection for itself, of what is posted to
//! a path of its own, and of connects; by whomever they are asked for, controllers among them. What comes later joins the chain.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_json::Json;

use super::Registry;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation, Plugin};
use super::object_write::Write;
use super::pod_standards::PodSecurity;
use super::served::typed;
use crate::admission::{Attempt, limits, quota};
use crate::auth::{self, Attributes, Decision};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, ExtraPermission, GroupResource, Pods, RequestTarget};
use crate::object::metadata;
use crate::registry::{OWN_MANAGER, Writer};
use crate::request::options::{How, WriteOptions};
use crate::request::path::ResourcePath;
use crate::request::{Requester, Subresource};
use crate::store::Charge;

/// Those who have a say, in the order in which they are asked.
pub(super) fn chain() -> Vec<Arc<dyn Plugin>> {
    vec![Arc::new(Undeletable), Arc::new(LimitRanges), Arc::new(PodSecurity), Arc::new(FurtherRights), Arc::new(Quotas)]
}

/// Has what is sent changed by all who would.
pub(super) fn admit(registry: &Registry, request: &mut AdmissionRequest<'_>) -> Outcome<()> {
    let admitted = registry.chain.iter().try_for_each(|plugin| plugin.admit(registry, request));
    admitted.inspect_err(|refused| tell(request, refused))
}

/// Asks all whether they let it pass, and what the write is to be charged for.
pub(super) fn validate(registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
    let mut charges = Vec::new();
    for plugin in &registry.chain {
        charges.extend(plugin.validate(registry, request).inspect_err(|refused| tell(request, refused))?);
    }
    Ok(charges)
}

fn tell(request: &AdmissionRequest<'_>, refused: &Failure) {
    let (operation, name) = (request.operation, request.name());
    let (user, dry_run) = (&request.by.user.name, request.dry_run());
    tracing::debug!(?operation, name, user, dry_run, why = refused.status.message, "admission refused");
}

impl Registry {
    /// Asks about a connect to a part of an object, with what its options are.
    pub(crate) fn connect(&self, target: &RequestTarget, options: &mut Json, by: &Requester) -> Outcome<()> {
        let operation = Operation::Connect;
        let request =
            AdmissionRequest { operation, target, old: None, new: Some(options), options: AdmissionOptions::None, by };
        self.ask(request)
    }

    /// Asks all both times, where there is nothing for a kind to do in between.
    pub(super) fn ask(&self, mut request: AdmissionRequest<'_>) -> Outcome<()> {
        admit(self, &mut request)?;
        validate(self, &request).map(drop)
    }
}

/// What every cluster has is not to be deleted.
#[derive(Debug)]
struct Undeletable;

impl Plugin for Undeletable {
    fn validate(&self, _: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let AdmissionRequest { operation: Operation::Delete, target, old: Some(old), .. } = request else {
            return Ok(Vec::new());
        };
        let name = metadata::name(old);
        match target.kind.strategy.undeletable(name) {
            Some(why) => Err(Failure::forbidden(&target.kind.resource(), name, why)),
            None => Ok(Vec::new()),
        }
    }
}

/// The limit ranges of a namespace: bounds, and what pods get that leave something out.
#[derive(Debug)]
struct LimitRanges;

impl LimitRanges {
    /// Those that have a say in the write.
    fn of(registry: &Registry, target: &RequestTarget, attempt: &Attempt<'_>) -> Vec<Arc<Json>> {
        match target.kind.namespaced() && limits::applies(attempt) {
            true => registry.db.objects(&GroupResource::new("", "limitranges"), Some(&target.namespace)),
            false => Vec::new(),
        }
    }
}

impl Plugin for LimitRanges {
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Outcome<()> {
        let target = request.target;
        if target.kind.strategy.pods() != Pods::Themselves {
            return Ok(());
        }
        let ranges = attempt(request, &target.kind.resource()).map(|attempt| Self::of(registry, target, &attempt));
        if let Some(pod) = request.new.as_deref_mut() {
            ranges.iter().flatten().for_each(|range| limits::complete(range, pod));
        }
        Ok(())
    }

    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let resource = request.target.kind.resource();
        let Some(attempt) = attempt(request, &resource) else { return Ok(Vec::new()) };
        for range in Self::of(registry, request.target, &attempt) {
            if let Some(why) = told_together(limits::errors(&range, &attempt)) {
                return Err(Failure::forbidden(&resource, metadata::name(attempt.object), &why));
            }
        }
        Ok(Vec::new())
    }
}

/// The rights that a write takes beside that to write.
#[derive(Debug)]
struct FurtherRights;

impl Plugin for FurtherRights {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let RequestTarget { kind, subresource, .. } = request.target;
        let (Operation::Create | Operation::Update, Some(new)) = (request.operation, request.new.as_deref()) else {
            return Ok(Vec::new());
        };
        let Some(right) = kind.strategy.extra_permission(new, request.old, *subresource)? else {
            return Ok(Vec::new());
        };
        let ExtraPermission { verb, resource, names, refusal } = right;
        let has = |name: &String| {
            let path = ResourcePath {
                group: kind.group.clone(),
                version: "*".into(),
                resource: resource.into(),
                name: name.clone(),
                ..ResourcePath::default()
            };
            let attributes = Attributes::Resource { verb, path: &path, name };
            matches!(auth::decide(registry.rbac(), &request.by.user, &attributes), Decision::Allowed(_))
        };
        match names.iter().any(has) {
            true => Ok(Vec::new()),
            false => Err(Failure::forbidden(&kind.resource(), metadata::name(new), &refusal)),
        }
    }
}

/// The quotas of a namespace. They are charged where the object is written.
#[derive(Debug)]
struct Quotas;

impl Plugin for Quotas {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let (kind, namespace) = (&request.target.kind, &request.target.namespace);
        let resource = kind.resource();
        let attempt = attempt(request, &resource);
        let Some(attempt) = attempt.filter(|attempt| kind.namespaced() && quota::applies(attempt)) else {
            return Ok(Vec::new());
        };
        let refuse = |why: String| Failure::forbidden(&resource, metadata::name(attempt.object), &why);
        let quotas = registry.db.objects(&GroupResource::new("", "resourcequotas"), Some(namespace));
        quotas.iter().try_for_each(|quota| quota::check(quota, &attempt)).map_err(refuse)?;
        let mut charges = Vec::new();
        for quota in &quotas {
            let used = quota::charge(quota, &attempt, registry.clock.now()).map_err(refuse)?;
            if let Some(used) = used
                && !request.dry_run()
            {
                charges.extend(charge(registry, namespace, quota, used.value())?);
            }
        }
        Ok(charges)
    }
}

/// What a quota becomes of which so much is used.
fn charge(registry: &Registry, namespace: &str, quota: &Json, used: Json) -> Outcome<Option<Charge>> {
    let kinds = registry.kinds();
    let Some(kind) = kinds.kind("", "v1", "ResourceQuota") else { return Ok(None) };
    let target = RequestTarget {
        subresource: Subresource::Status,
        ..RequestTarget::new(kind.clone(), namespace, metadata::name(quota))
    };
    let old = typed(&kind.api_version(), &kind.kind, quota.clone());
    let mut new = old.clone();
    if let Some(status) = new.member("status") {
        status.set("used", used);
    }
    let options = WriteOptions::default();
    let by = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
    let mut write = Write { target: &target, old: Some(&old), new, by: &by, how: How::Put, labelled: false };
    registry.receive(&mut write)?;
    let value = registry.complete(write)?.object;
    let at = super::list::parse_number(quota.text("/metadata/resourceVersion"))?;
    let value = kind.strategy.to_stored(value);
    super::size::check(kind, &target.key(), &value)?;
    Ok(Some(Charge { resource: target.resource_key(), key: target.key(), at, value }))
}

/// What a request does to an object that it writes, if it writes one.
fn attempt<'a>(request: &'a AdmissionRequest<'_>, resource: &'a GroupResource) -> Option<Attempt<'a>> {
    let target = request.target;
    let writes = matches!(request.operation, Operation::Create | Operation::Update) && !target.kind.conduct.transient;
    let object = request.new.as_deref().filter(|_| writes)?;
    Some(Attempt { resource, subresource: target.subresource, object, old: request.old })
}

/// What is found more than once is told once.
fn told_together(errors: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut told: Vec<_> = errors.into_iter().filter(|error| seen.insert(error.clone())).collect();
    match told.len() {
        0 | 1 => told.pop(),
        _ => Some(format!("[{}]", told.join(", "))),
    }
}
