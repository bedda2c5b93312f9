//! Aggregated cluster roles: the rules of a role that selects others are those of all that it selects.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::{all, options};
use crate::api::Api;
use crate::manager::Manager;
use crate::rest::{Change as Write, Place};
use crate::selector;
use crate::store::Change;

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Looks after them.
#[derive(Debug, Default)]
pub(super) struct Aggregator {
    dirty: bool,
}

impl Aggregator {
    pub(super) fn observe(&mut self, change: &Change) {
        self.dirty |= *change.resource == *ROLES;
    }

    pub(super) fn look_anew(&mut self) {
        self.dirty = true;
    }

    /// Writes the roles whose rules are not those that follow, in whatever order. A role that selects others may itself be selected:
    /// then its write is a change, and brings another round.
    pub(super) fn work(&mut self, api: &Arc<Api>) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let roles = all(api, ROLES);
        let roles: Vec<&Value> = roles.iter().map(|role| &**role.value()).collect();
        for role in roles.iter().filter(|role| role["aggregationRule"].is_object()) {
            let rules = aggregated(role, &roles);
            let texts = |rules: &mut dyn Iterator<Item = &Value>| rules.map(Value::to_string).collect::<HashSet<_>>();
            if texts(&mut rules.iter()) != texts(&mut role["rules"].as_array().into_iter().flatten()) {
                write(api, role["metadata"]["name"].as_str().unwrap_or_default(), rules);
            }
        }
    }
}

/// The rules of all roles that `role` selects, each once, in the order of the selectors and of the roles' names.
fn aggregated(role: &Value, roles: &[&Value]) -> Vec<Value> {
    let mut rules = Vec::new();
    let mut seen = HashSet::new();
    for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let Some(selector) = selector::structured(selector) else { continue };
        for selected in roles {
            let is_itself = selected["metadata"]["name"] == role["metadata"]["name"];
            if is_itself || !selector::selects(&selector, selected) {
                continue;
            }
            let its_rules = selected["rules"].as_array().into_iter().flatten();
            rules.extend(its_rules.filter(|rule| seen.insert(rule.to_string())).cloned());
        }
    }
    rules
}

fn write(api: &Arc<Api>, name: &str, rules: Vec<Value>) {
    let kinds = api.kinds();
    let Some(kind) = kinds.group_kind(GROUP, "ClusterRole") else { return };
    let make = |live: Option<&Value>| {
        let mut new = live.cloned().unwrap_or_default();
        new["rules"] = rules.clone().into();
        Ok(new)
    };
    let options = options();
    let manager = Manager::new(&options, MANAGER, api.clock.now_text());
    let place = Place::new(kind.clone(), "", name);
    if let Err(failure) = api.update(&place, &Write::Patch { make: &make, apply: false }, &manager) {
        tracing::debug!(%name, message = failure.status.message, "a role was not aggregated");
    }
}
