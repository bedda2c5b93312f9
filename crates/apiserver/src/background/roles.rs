//! Aggregated cluster roles: the rules of a role that selects others are those of all that it selects.

use std::collections::HashSet;
use std::sync::Arc;

use pintle_json::Json;
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::failure::Failure;
use crate::kinds::{Place, RBAC_GROUP};
use crate::object::metadata;
use crate::registry::{Registry, Wish, Writer};
use crate::selector;

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const AGGREGATION_CONTROLLER: &str = "clusterrole-aggregation-controller";

/// Looks after them.
#[derive(Debug)]
pub(super) struct Aggregator;

impl Controller for Aggregator {
    const OF: Option<&'static [&'static str]> = Some(&[ROLES]);

    /// Writes the roles whose rules are not those that follow, in whatever order. A role that selects others may itself be selected:
    /// then its write is a change, and brings another round.
    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        // A tree takes many times the room of its role, and this is seldom done.
        let roles: Vec<_> = all(registry, ROLES).map(|(_, role)| RoleTexts::new(role.decode())).collect();
        for role in roles.iter().filter(|role| role.object["aggregationRule"].is_object()) {
            let rules = aggregated(role, &roles).await;
            let texts: HashSet<_> = rules.iter().map(|(text, _)| *text).collect();
            if texts != role.rules().map(|(text, _)| text).collect() {
                write(registry, &role.object, rules.into_iter().map(|(_, rule)| rule.clone()).collect());
            }
        }
        None
    }
}

/// A role, and its rules as texts, by which equal ones are found.
struct RoleTexts {
    object: Json,
    texts: Vec<String>,
}

impl RoleTexts {
    fn new(object: Json) -> Self {
        let texts = object.list("/rules").map(Json::to_string).collect();
        Self { object, texts }
    }

    fn rules(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.texts.iter().map(String::as_str).zip(self.object.list("/rules"))
    }
}

/// The rules of all roles that `role` selects, each once, in the order of the selectors and of the roles' names.
///
/// A role may have very many selectors, of which most are equal: each is looked at once, and each role until it is selected.
async fn aggregated<'a>(role: &RoleTexts, roles: &'a [RoleTexts]) -> Vec<(&'a str, &'a Json)> {
    let (mut rules, mut seen) = (Vec::new(), HashSet::new());
    let mut left: Vec<_> = roles.iter().filter(|other| !std::ptr::eq(*other, role)).collect();
    let mut known = HashSet::new();
    for selector in role.object.list("/aggregationRule/clusterRoleSelectors") {
        if left.is_empty() {
            break;
        }
        if !known.insert(selector.to_string()) {
            continue;
        }
        let Some(selector) = selector::structured(selector) else { continue };
        left.retain(|other| {
            let selects = selector::selects(&selector, &other.object);
            rules.extend(other.rules().filter(|(text, _)| selects && seen.insert(*text)));
            !selects
        });
        tokio::task::yield_now().await;
    }
    rules
}

/// Gives a role these rules, if it is still as it was read: a write that came between brings another round.
fn write(registry: &Arc<Registry>, role: &Json, rules: Vec<Json>) {
    let kinds = registry.kinds();
    let Some(kind) = kinds.group_kind(RBAC_GROUP, "ClusterRole") else { return };
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        if new.text("/metadata/resourceVersion") != role.text("/metadata/resourceVersion") {
            return Err(Failure::modified(&kind.resource(), metadata::name(role)));
        }
        new["rules"] = rules.clone().into();
        Ok(new)
    };
    let options = options();
    let by = Writer::new(&options, AGGREGATION_CONTROLLER, registry.clock.now_text());
    let place = Place::new(kind.clone(), "", metadata::name(role));
    if let Err(failure) = registry.update(&place, &Wish::Patch(&make), &by) {
        tracing::debug!(name = place.name, message = failure.status.message, "a role was not aggregated");
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;
    use crate::clock::effort::{is_linear, turns};
    use crate::config::ApiServerConfig;
    use crate::store::Expect;

    #[test]
    fn a_role_that_somebody_else_has_written_since_is_not_given_its_old_rules() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let put = |expect, rules: Json| {
            let metadata = json!({"name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"});
            let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules});
            registry.db.put(&ROLES.into(), "a", expect, object).expect("as expected").new.clone()
        };
        let rules = || registry.db.get(ROLES, "a").expect("it is there").decode()["rules"].clone();
        let read = put(Expect::Absent, json!([]));
        let written = put(Expect::At(read.revision()), json!([rule("get")]));
        write(&registry, &read.decode(), vec![rule("delete")]);
        assert_eq!(rules(), json!([rule("get")]));
        write(&registry, &written.decode(), vec![rule("list")]);
        assert_eq!(rules(), json!([rule("list")]), "one that is as it was read is");
    }

    /// A role of so many selectors, and others whose rules are to be had.
    fn roles(selectors: impl Iterator<Item = Json>, others: usize, rules: usize) -> Vec<RoleTexts> {
        let selectors: Vec<_> = selectors.collect();
        let all = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}});
        let other = |at: usize| {
            let rules: Vec<_> = (0..rules).map(|rule| json!({"verbs": [format!("v{at}/{rule}")]})).collect();
            json!({"metadata": {"name": format!("r{at}"), "labels": {"a": at.to_string()}}, "rules": rules})
        };
        std::iter::once(all).chain((0..others).map(other)).map(RoleTexts::new).collect()
    }

    #[test]
    fn what_many_equal_selectors_select_is_looked_at_once() {
        let gathers = |count: usize| {
            let roles = roles((0..count).map(|_| json!({})), 1, count);
            assert_eq!(turns(aggregated(&roles[0], &roles)).0.len(), count);
        };
        assert!(is_linear(200, gathers));
    }

    #[test]
    fn others_have_their_turns_while_a_role_of_many_selectors_is_looked_at() {
        const SELECTORS: usize = 100;
        let selectors = (0..SELECTORS).map(|at| json!({"matchLabels": {"a": at.to_string()}}));
        let roles = roles(selectors, SELECTORS, 2);
        let (rules, turns) = turns(aggregated(&roles[0], &roles));
        assert!(rules.len() == 2 * SELECTORS && turns >= SELECTORS / 2, "{turns}");
    }
}
