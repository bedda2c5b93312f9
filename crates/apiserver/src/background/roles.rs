//! Aggregated cluster roles: the rules of a role that selects others are those of all that it selects.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_json::Json;
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::kinds::Place;
use crate::object::metadata;
use crate::registry::Writer;
use crate::registry::{Registry, Wish};
use crate::selector;

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Looks after them.
#[derive(Debug)]
pub(super) struct Aggregator;

impl Controller for Aggregator {
    const OF: Option<&'static [&'static str]> = Some(&[ROLES]);

    /// Writes the roles whose rules are not those that follow, in whatever order. A role that selects others may itself be selected:
    /// then its write is a change, and brings another round.
    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        // A tree takes many times the room of its role, and this is seldom done.
        let roles: Vec<_> = all(registry, ROLES).map(|(_, role)| role.decode()).collect();
        for role in roles.iter().filter(|role| role["aggregationRule"].is_object()) {
            let rules = aggregated(role, &roles);
            let texts = |rules: &mut dyn Iterator<Item = &Json>| rules.map(Json::to_string).collect::<HashSet<_>>();
            if texts(&mut rules.iter()) != texts(&mut role.list("/rules")) {
                write(registry, metadata::name(role), rules);
            }
        }
        None
    }
}

/// The rules of all roles that `role` selects, each once, in the order of the selectors and of the roles' names.
fn aggregated(role: &Json, roles: &[Json]) -> Vec<Json> {
    let mut rules = Vec::new();
    let mut seen = HashSet::new();
    for selector in role.list("/aggregationRule/clusterRoleSelectors") {
        let Some(selector) = selector::structured(selector) else { continue };
        for selected in roles {
            let is_itself = selected["metadata"]["name"] == role["metadata"]["name"];
            if is_itself || !selector::selects(&selector, selected) {
                continue;
            }
            let its_rules = selected.list("/rules");
            rules.extend(its_rules.filter(|rule| seen.insert(rule.to_string())).cloned());
        }
    }
    rules
}

fn write(registry: &Arc<Registry>, name: &str, rules: Vec<Json>) {
    let kinds = registry.kinds();
    let Some(kind) = kinds.group_kind(GROUP, "ClusterRole") else { return };
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        new["rules"] = rules.clone().into();
        Ok(new)
    };
    let options = options();
    let by = Writer::new(&options, MANAGER, registry.clock.now_text());
    let place = Place::new(kind.clone(), "", name);
    if let Err(failure) = registry.update(&place, &Wish::Patch(&make), &by) {
        tracing::debug!(%name, message = failure.status.message, "a role was not aggregated");
    }
}
