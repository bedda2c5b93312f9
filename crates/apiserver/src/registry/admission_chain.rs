//! The chain of admission plugins. Each plugin can change or reject a request.
//!
//! The server calls each [`Plugin`] twice: first [`Plugin::admit`], which can change the object, and then
//! [`Plugin::validate`], which validates the resulting object. Plugins are called for every create, update, delete and
//! connect request, and for POST requests to subresources. Plugins are also called for writes by controllers, and for
//! each object of a `deletecollection` request.

use std::sync::Arc;

use pintle_admission::{Attempt, limits, quota};
use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::options::{How, WriteOptions};
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::{Requester, Subresource};
use pintle_authz::{Attributes, Decision};
use pintle_json::Json;
use pintle_kinds::writer::{OWN_MANAGER, Writer};
use pintle_kinds::{ExtraPermission, PodRelation, RequestTarget};
use pintle_meta::GroupResource;
use pintle_storage::Charge;

use super::Registry;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation, Plugin};
use super::object_write::Write;
use super::pod_standards::PodSecurity;
use super::policies::{self, ParamRights, Reinvocation, ValidatingPolicies, ValidatingWebhooks, WebhookKey};
use super::served::typed;

pub(super) fn chain() -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(ParamRights),
        Arc::new(LimitRanges),
        Arc::new(PodSecurity),
        Arc::new(BuiltIn),
        Arc::new(FurtherRights),
        Arc::new(ValidatingPolicies),
        Arc::new(ValidatingWebhooks),
        Arc::new(Quotas),
    ]
}

/// Runs mutating admission, in which plugins, mutating policies and mutating webhooks can change the object. If a
/// policy or webhook changes the object, mutating admission runs a second time.
pub(super) fn admit(registry: &Registry, request: &mut AdmissionRequest<'_>) -> Outcome<()> {
    let mut runs = Runs::default();
    let mut admitted = admit_once(registry, request, &mut runs);
    if admitted.is_ok() && (runs.policies.needs_second_run() || runs.webhooks.needs_second_run()) {
        runs.policies.begin_second_run();
        runs.webhooks.begin_second_run();
        admitted = admit_once(registry, request, &mut runs);
    }
    admitted.inspect_err(|refused| log_refusal(request, refused))
}

#[derive(Default)]
struct Runs {
    policies: Reinvocation,
    webhooks: Reinvocation<WebhookKey>,
}

fn admit_once(registry: &Registry, request: &mut AdmissionRequest<'_>, runs: &mut Runs) -> Outcome<()> {
    registry.admission_chain.iter().try_for_each(|plugin| plugin.admit(registry, request))?;
    policies::mutate(registry, request, &mut runs.policies)?;
    policies::call_mutating(registry, request, &mut runs.webhooks)
}

/// Runs validating admission and returns the quota updates, which must be committed together with the object.
pub(super) fn validate(registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
    let mut charges = Vec::new();
    for plugin in &registry.admission_chain {
        charges.extend(plugin.validate(registry, request).inspect_err(|refused| log_refusal(request, refused))?);
    }
    Ok(charges)
}

fn log_refusal(request: &AdmissionRequest<'_>, refused: &Failure) {
    if refused.is_waiting() {
        return;
    }
    let (operation, name) = (request.operation, request.name());
    let (user, dry_run) = (&request.by.user.name, request.dry_run());
    tracing::debug!(?operation, name, user, dry_run, why = refused.status.message, "admission refused");
}

impl Registry {
    pub(crate) fn connect(&self, target: &RequestTarget, options: &mut Json, by: &Requester) -> Outcome<()> {
        let operation = Operation::Connect;
        let request =
            AdmissionRequest { operation, target, old: None, new: Some(options), options: AdmissionOptions::None, by };
        self.run_admission(request)
    }

    pub(super) fn run_admission(&self, mut request: AdmissionRequest<'_>) -> Outcome<()> {
        admit(self, &mut request)?;
        validate(self, &request).map(drop)
    }
}

/// Runs the built-in admission plugins of kube-apiserver that handle a single kind.
#[derive(Debug)]
struct BuiltIn;

impl Plugin for BuiltIn {
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Outcome<()> {
        let AdmissionRequest { target, old, new: Some(new), operation: Operation::Create | Operation::Update, .. } =
            request
        else {
            return Ok(());
        };
        target.kind.strategy.admit(&*registry.db, new, *old, target.subresource)
    }

    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let AdmissionRequest { target, old, new, .. } = request;
        let strategy = &target.kind.strategy;
        match (request.operation, new.as_deref(), *old) {
            (Operation::Delete, _, Some(old)) => match strategy.undeletable(metadata::name(old)) {
                Some(why) => Err(Failure::forbidden(&target.kind.resource(), metadata::name(old), why)),
                None => Ok(()),
            },
            (Operation::Create | Operation::Update, Some(new), old) => {
                strategy.validate_admitted(&*registry.db, new, old, target.subresource)
            }
            _ => Ok(()),
        }
        .map(|()| Vec::new())
    }
}

/// An admission plugin that applies a namespace's limit ranges. The plugin
/// sets defaults for pods and enforces the bounds.
#[derive(Debug)]
struct LimitRanges;

impl LimitRanges {
    fn of(registry: &Registry, target: &RequestTarget, attempt: &Attempt<'_>) -> Vec<Arc<Json>> {
        if target.kind.is_namespaced() && limits::applies(attempt) {
            registry.db.objects(&GroupResource::new("", "limitranges"), Some(&target.namespace))
        } else {
            Vec::new()
        }
    }
}

impl Plugin for LimitRanges {
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Outcome<()> {
        let target = request.target;
        if target.kind.flags.pods != PodRelation::Pod {
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
            if let Some(why) = limits::refusal(&range, &attempt) {
                return Err(Failure::forbidden(&resource, metadata::name(attempt.object), &why));
            }
        }
        Ok(Vec::new())
    }
}

/// An admission plugin that checks the additional permissions that some writes need.
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
        let is_allowed_for = |name: &String| {
            let path = ResourcePath {
                group: kind.group.clone(),
                version: "*".into(),
                resource: resource.into(),
                name: name.clone(),
                ..ResourcePath::default()
            };
            let attributes = Attributes::Resource { verb, path: &path, name };
            matches!(pintle_authz::decide(registry.rbac(), &request.by.user, &attributes), Decision::Allowed(_))
        };
        if names.iter().any(is_allowed_for) {
            Ok(Vec::new())
        } else {
            Err(Failure::forbidden(&kind.resource(), metadata::name(new), &refusal))
        }
    }
}

/// A plugin that applies a namespace's quotas to writes. The new usage of each quota is committed together with the object.
#[derive(Debug)]
struct Quotas;

impl Plugin for Quotas {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let (kind, namespace) = (&request.target.kind, &request.target.namespace);
        let resource = kind.resource();
        let attempt = attempt(request, &resource);
        let Some(attempt) = attempt.filter(|attempt| kind.is_namespaced() && quota::applies(attempt)) else {
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
    let mut write = Write { target: &target, old: Some(&old), new, by: &by, how: How::Put, has_labels: false };
    registry.receive(&mut write)?;
    let value = registry.complete(write)?.object;
    let at = super::list::parse_number(quota.text("/metadata/resourceVersion"))?;
    let value = kind.strategy.to_stored(value);
    pintle_kinds::size::check(kind, &target.key(), &value)?;
    Ok(Some(Charge { resource: target.resource_key(), key: target.key(), at, value }))
}

/// Returns the attributes of the write that limit ranges and quotas check. Returns `None` if the request does not write
/// an object.
fn attempt<'a>(request: &'a AdmissionRequest<'_>, resource: &'a GroupResource) -> Option<Attempt<'a>> {
    let target = request.target;
    let writes = matches!(request.operation, Operation::Create | Operation::Update) && !target.kind.flags.is_transient;
    let object = request.new.as_deref().filter(|_| writes)?;
    Some(Attempt { resource, subresource: target.subresource, object, old: request.old })
}
