//! Admission: who has a say in a write beside its kind.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_json::Json;

use super::Registry;
use super::pipeline::Write;
use super::pod_security::PodSecurity;
use super::served::typed;
use super::signing::Signing;
use crate::admission::{Attempt, limits, quota};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource, Place};
use crate::object::{member, metadata, set};
use crate::registry::Writer;
use crate::request::Part;
use crate::request::options::{How, WriteOptions};
use crate::store::Charge;

/// Who charges the quotas.
const MANAGER: &str = "kube-apiserver";

/// Those who have a say, in the order in which they are asked.
const CHAIN: &[&dyn Plugin] = &[&LimitRanges, &PodSecurity, &Signing, &Quotas];

/// One who has a say in writes. A [`Write`] tells them who writes, what the object was and is to be, and whether it is only tried.
pub(super) trait Plugin: Sync {
    /// Changes the object, before its kind has a look at it.
    fn change(&self, _: &Registry, _: &mut Write<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Refuses an object that is valid, or says what the write is to be charged for.
    fn check(&self, _: &Registry, _: &Write<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }

    /// What to warn of in a write that nobody refused.
    fn warnings(&self, _: &Registry, _: &Write<'_>) -> Vec<String> {
        Vec::new()
    }
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
        if write.place.kind.plural == "pods" {
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
    if let Some(status) = member(&mut new, "status") {
        set(status, "used", used);
    }
    let options = WriteOptions::default();
    let by = Writer::new(&options, MANAGER, registry.clock.now_text());
    let write = Write { place: &place, old: Some(&old), new, by: &by, how: How::Put };
    let value = registry.complete(write)?.object;
    let at = super::list::parse_number(metadata::text(quota, "resourceVersion"))?;
    let value = kind.strategy.to_stored(value);
    super::size::check(kind, &place.key(), &value)?;
    Ok(Some(Charge { key: place.key(), at, value }))
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
