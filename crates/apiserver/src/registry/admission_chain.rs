//! Admission: who has a say in a write beside its kind.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_json::Json;

use super::Registry;
use super::admission_plugin::{AdmissionRequest, Operation, Plugin};
use super::object_write::Write;
use super::pod_standards::PodSecurity;
use super::served::typed;
use crate::admission::{Attempt, limits, quota};
use crate::auth::{self, Attributes, Decision};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, FurtherRight, GroupResource, Place, Pods};
use crate::object::metadata;
use crate::registry::{OWN_MANAGER, Writer};
use crate::request::Part;
use crate::request::options::{How, WriteOptions};
use crate::request::path::ResourcePath;
use crate::store::Charge;

/// Those who have a say, in the order in which they are asked.
const CHAIN: &[&dyn Plugin] = &[&Undeletable, &LimitRanges, &PodSecurity, &FurtherRights, &Quotas];

pub(super) fn admit(registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<()> {
    let admitted = CHAIN.iter().try_for_each(|plugin| plugin.admit(registry, request));
    admitted.inspect_err(|refused| {
        let AdmissionRequest { operation, user, dry_run, .. } = request;
        tracing::debug!(?operation, user = user.name, dry_run, why = refused.status.message, "admission refused");
    })
}

pub(super) fn change(registry: &Registry, write: &mut Write<'_>) -> Outcome<()> {
    CHAIN.iter().try_for_each(|plugin| plugin.change(registry, write))
}

pub(super) fn check(registry: &Registry, write: &Write<'_>) -> Outcome<Vec<Charge>> {
    let mut charges = Vec::new();
    for plugin in CHAIN {
        charges.extend(plugin.check(registry, write)?);
    }
    Ok(charges)
}

pub(super) fn warnings(registry: &Registry, write: &Write<'_>) -> Vec<String> {
    CHAIN.iter().flat_map(|plugin| plugin.warnings(registry, write)).collect()
}

/// What every cluster has is not to be deleted.
struct Undeletable;

impl Plugin for Undeletable {
    fn admit(&self, _: &Registry, request: &AdmissionRequest<'_>) -> Outcome<()> {
        let place = request.place;
        match place.kind.strategy.undeletable(&place.name) {
            Some(why) if request.operation == Operation::Delete => {
                Err(Failure::forbidden(&place.kind.resource(), &place.name, why))
            }
            _ => Ok(()),
        }
    }
}

/// The limit ranges of a namespace: bounds, and what pods get that leave something out.
struct LimitRanges;

impl LimitRanges {
    /// Those that have a say in the write.
    fn of(registry: &Registry, write: &Write<'_>) -> Vec<Arc<Json>> {
        let resource = write.place.kind.resource();
        match write.place.kind.namespaced() && limits::concern(&attempt(write, &resource)) {
            true => registry.db.objects(&GroupResource::new("", "limitranges"), Some(&write.place.namespace)),
            false => Vec::new(),
        }
    }
}

impl Plugin for LimitRanges {
    fn change(&self, registry: &Registry, write: &mut Write<'_>) -> Outcome<()> {
        if write.place.kind.strategy.pods() == Pods::Themselves {
            Self::of(registry, write).iter().for_each(|range| limits::complete(range, &mut write.new));
        }
        Ok(())
    }

    fn check(&self, registry: &Registry, write: &Write<'_>) -> Outcome<Vec<Charge>> {
        let resource = write.place.kind.resource();
        for range in Self::of(registry, write) {
            if let Some(why) = told_together(limits::faults(&range, &attempt(write, &resource))) {
                return Err(Failure::forbidden(&resource, metadata::name(&write.new), &why));
            }
        }
        Ok(Vec::new())
    }
}

/// The rights that a write takes beside that to write.
struct FurtherRights;

impl Plugin for FurtherRights {
    fn admit(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<()> {
        let Place { kind, part, .. } = request.place;
        let (Operation::Create | Operation::Update, Some(new)) = (request.operation, request.new) else {
            return Ok(());
        };
        let Some(right) = kind.strategy.further_right(new, request.old, *part)? else { return Ok(()) };
        let FurtherRight { verb, resource, names, refusal } = right;
        let has = |name: &String| {
            let path = ResourcePath {
                group: kind.group.clone(),
                version: "*".into(),
                resource: resource.into(),
                name: name.clone(),
                ..ResourcePath::default()
            };
            let attributes = Attributes::Resource { verb, path: &path, name };
            matches!(auth::decide(registry.rbac(), request.user, &attributes), Decision::Allowed(_))
        };
        match names.iter().any(has) {
            true => Ok(()),
            false => Err(Failure::forbidden(&kind.resource(), metadata::name(new), &refusal)),
        }
    }
}

/// The quotas of a namespace. They are charged where the object is written.
struct Quotas;

impl Plugin for Quotas {
    fn check(&self, registry: &Registry, write: &Write<'_>) -> Outcome<Vec<Charge>> {
        let (kind, namespace) = (&write.place.kind, &write.place.namespace);
        let resource = kind.resource();
        let attempt = attempt(write, &resource);
        if !kind.namespaced() || !quota::concern(&attempt) {
            return Ok(Vec::new());
        }
        let refuse = |why: String| Failure::forbidden(&resource, metadata::name(&write.new), &why);
        let quotas = registry.db.objects(&GroupResource::new("", "resourcequotas"), Some(namespace));
        quotas.iter().try_for_each(|quota| quota::check(quota, &attempt)).map_err(refuse)?;
        let mut charges = Vec::new();
        for quota in &quotas {
            let used = quota::charge(quota, &attempt, registry.clock.now()).map_err(refuse)?;
            if let Some(used) = used {
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
    let place = Place { part: Part::Status, ..Place::new(kind.clone(), namespace, metadata::name(quota)) };
    let old = typed(&kind.api_version(), &kind.kind, quota.clone());
    let mut new = old.clone();
    if let Some(status) = new.member("status") {
        status.set("used", used);
    }
    let options = WriteOptions::default();
    let by = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
    let write = Write { place: &place, old: Some(&old), new, by: &by, how: How::Put };
    let value = registry.complete(write)?.object;
    let at = super::list::parse_number(quota.text("/metadata/resourceVersion"))?;
    let value = kind.strategy.to_stored(value);
    super::size::check(kind, &place.key(), &value)?;
    Ok(Some(Charge { resource: place.resource_key(), key: place.key(), at, value }))
}

fn attempt<'a>(write: &'a Write<'_>, resource: &'a GroupResource) -> Attempt<'a> {
    Attempt { resource, part: write.place.part, object: &write.new, old: write.old }
}

/// What is found more than once is told once.
fn told_together(faults: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut told: Vec<_> = faults.into_iter().filter(|fault| seen.insert(fault.clone())).collect();
    match told.len() {
        0 | 1 => told.pop(),
        _ => Some(format!("[{}]", told.join(", "))),
    }
}
