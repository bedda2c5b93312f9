//! Admission by limit ranges and quotas, around the rules of the kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::meta::text;
use super::object::{Place, typed};
use super::update::Change;
use crate::admission::{Attempt, limits, quota};
use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::kinds::edit::{member, set};
use crate::kinds::{Cluster, GroupResource};
use crate::manager::Manager;
use crate::request::options::WriteOptions;

/// Who charges the quotas.
const MANAGER: &str = "kube-apiserver";
/// How often a quota is looked at anew because another write came between.
const TRIES: usize = 64;

impl Api {
    /// Fills in what the limit ranges of the namespace have for a pod that leaves it out.
    pub(super) fn complete_by_limits(&self, place: &Place, object: &mut Value, old: Option<&Value>) {
        let resource = place.kind.resource();
        let attempt = attempt(place, &resource, object, old);
        if resource.resource != "pods" || !limits::concern(&attempt) {
            return;
        }
        for range in self.db.objects(&GroupResource::new("", "limitranges"), Some(&place.namespace)) {
            limits::complete(&range, object);
        }
    }

    /// The last word on an object that is valid: it has to fit into the limit ranges and the quotas of its namespace. Charges the
    /// quotas, unless the request only tries.
    pub(super) fn admit(&self, place: &Place, object: &Value, old: Option<&Value>, dry_run: bool) -> Outcome<()> {
        if !place.kind.namespaced() {
            return Ok(());
        }
        let resource = place.kind.resource();
        let attempt = attempt(place, &resource, object, old);
        let refuse = |why: &str| Failure::forbidden(&resource, text(object, "name"), why);
        if limits::concern(&attempt) {
            for range in self.db.objects(&GroupResource::new("", "limitranges"), Some(&place.namespace)) {
                told_together(limits::faults(&range, &attempt)).map_or(Ok(()), |why| Err(refuse(&why)))?;
            }
        }
        if quota::concern(&attempt) {
            self.charge_quotas(&place.namespace, &attempt, dry_run).map_err(|why| refuse(&why))?;
        }
        Ok(())
    }

    /// All quotas have to agree before one is charged; those that changed meanwhile are asked again.
    fn charge_quotas(&self, namespace: &str, attempt: &Attempt<'_>, dry_run: bool) -> Result<(), String> {
        let mut quotas = self.db.objects(&GroupResource::new("", "resourcequotas"), Some(namespace));
        for _ in 0..TRIES {
            quotas.iter().try_for_each(|quota| quota::check(quota, attempt))?;
            let mut charges = Vec::new();
            for quota in &quotas {
                if let Some(used) = quota::charge(quota, attempt, self.clock.now())? {
                    charges.push((quota.clone(), used.value()));
                }
            }
            if !dry_run {
                charges.retain(|(quota, used)| !self.write_used(namespace, quota, used));
            }
            if dry_run || charges.is_empty() {
                return Ok(());
            }
            let resource = GroupResource::new("", "resourcequotas");
            let again = charges.iter().map(|(quota, _)| self.db.object(&resource, namespace, text(quota, "name")));
            quotas = again.flatten().collect();
        }
        Err("its quota is changed all the time".into())
    }

    /// Sets what of a quota is used. False if the quota was changed since it was read.
    fn write_used(&self, namespace: &str, quota: &Value, used: &Value) -> bool {
        let kinds = self.kinds();
        let Some(kind) = kinds.kind("", "v1", "ResourceQuota") else { return true };
        let mut place = Place::new(kind.clone(), namespace, text(quota, "name"));
        place.subresource = Some("status".into());
        let mut new = typed(&kind.api_version(), &kind.kind, quota);
        if let Some(status) = member(&mut new, "status") {
            set(status, "used", used.clone());
        }
        let options = WriteOptions::default();
        let manager = Manager::new(&options, MANAGER, self.clock.now_text());
        self.update(&place, &Change::Put(&new), &manager).is_ok()
    }
}

fn attempt<'a>(
    place: &'a Place,
    resource: &'a GroupResource,
    object: &'a Value,
    old: Option<&'a Value>,
) -> Attempt<'a> {
    Attempt { resource, subresource: place.subresource.as_deref().unwrap_or_default(), object, old }
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
