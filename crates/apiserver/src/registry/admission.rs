//! Admission by limit ranges and quotas, around the rules of the kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::Registry;
use super::served::typed;
use crate::admission::{Attempt, limits, quota};
use crate::failure::{Failure, Outcome};
use crate::fieldmanager::Writer;
use crate::kinds::{Cluster, GroupResource, Place};
use crate::object::metadata::text;
use crate::object::{member, set};
use crate::request::options::WriteOptions;
use crate::store::Charge;

/// Who charges the quotas.
const MANAGER: &str = "kube-apiserver";

impl Registry {
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

    /// The last word on an object that is valid: it has to fit into the limit ranges and the quotas of its namespace. Answers what
    /// the quotas are charged where it is written.
    pub(super) fn admit(&self, place: &Place, object: &Value, old: Option<&Value>) -> Outcome<Vec<Charge>> {
        if !place.kind.namespaced() {
            return Ok(Vec::new());
        }
        let resource = place.kind.resource();
        let attempt = attempt(place, &resource, object, old);
        let refuse = |why: &str| Failure::forbidden(&resource, text(object, "name"), why);
        if limits::concern(&attempt) {
            for range in self.db.objects(&GroupResource::new("", "limitranges"), Some(&place.namespace)) {
                told_together(limits::faults(&range, &attempt)).map_or(Ok(()), |why| Err(refuse(&why)))?;
            }
        }
        if !quota::concern(&attempt) {
            return Ok(Vec::new());
        }
        let quotas = self.db.objects(&GroupResource::new("", "resourcequotas"), Some(&place.namespace));
        quotas.iter().try_for_each(|quota| quota::check(quota, &attempt)).map_err(|why| refuse(&why))?;
        let mut charges = Vec::new();
        for quota in &quotas {
            let used = quota::charge(quota, &attempt, self.clock.now()).map_err(|why| refuse(&why))?;
            if let Some(used) = used {
                charges.extend(self.charge(&place.namespace, quota, used.value())?);
            }
        }
        Ok(charges)
    }

    /// What a quota becomes of which so much is used.
    fn charge(&self, namespace: &str, quota: &Value, used: Value) -> Outcome<Option<Charge>> {
        let kinds = self.kinds();
        let Some(kind) = kinds.kind("", "v1", "ResourceQuota") else { return Ok(None) };
        let mut place = Place::new(kind.clone(), namespace, text(quota, "name"));
        place.subresource = Some("status".into());
        let old = typed(&kind.api_version(), &kind.kind, quota.clone());
        let mut value = old.clone();
        if let Some(status) = member(&mut value, "status") {
            set(status, "used", used);
        }
        let options = WriteOptions::default();
        let manager = Writer::new(&options, MANAGER, self.clock.now_text());
        self.complete_update(&place, &mut value, &old, &manager, false)?;
        let at = super::list::parse_number(text(quota, "resourceVersion"))?;
        Ok(Some(Charge { key: place.key(), at, value: kind.strategy.to_stored(value) }))
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
