//! The controller that aggregates ClusterRoles. A role with an aggregation rule receives the rules of all roles that it
//! selects.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::selector;
use pintle_json::Json;
use pintle_kinds::writer::Writer;
use pintle_kinds::{RBAC_GROUP, RequestTarget};
use pintle_storage::Stored;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::reviews::{Reviews, now_text};
use super::{Controller, all, options};
use crate::registry::{Registry, UpdateSource};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const AGGREGATION_CONTROLLER: &str = "clusterrole-aggregation-controller";

#[derive(Debug)]
pub(super) struct Aggregator {
    /// The ClusterRoles that the last call to `work` read, without their rules, by revision.
    outlines: HashMap<u64, Json>,
    reviews: Reviews<String>,
    backoff: Backoff,
}

impl Default for Aggregator {
    fn default() -> Self {
        Self { outlines: HashMap::new(), reviews: Reviews::new(AGGREGATION_CONTROLLER), backoff: Backoff::default() }
    }
}

impl Controller for Aggregator {
    const RESOURCES: Option<&'static [&'static str]> = Some(&[ROLES]);

    /// Writes the aggregated roles whose rules are outdated. Each write triggers another call of `work` if another
    /// aggregated role selects the written role. Retries failed writes with exponential backoff.
    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let roles: Vec<_> = all(registry, ROLES)
            .map(|(_, role)| match self.outlines.remove(&role.revision()) {
                Some(outline) => AggregatedRole { stored: role, outline, rules: OnceLock::new() },
                None => AggregatedRole::new(role),
            })
            .collect();
        let mut has_failed = false;
        for role in roles.iter().filter(|role| role.outline["aggregationRule"].is_object()) {
            let (rules, name) = (aggregated(role, &roles).await, metadata::name(&role.outline).to_owned());
            let texts: HashSet<_> = rules.iter().map(|(text, _)| text).collect();
            if texts == role.rules().iter().map(|(text, _)| text).collect() {
                continue;
            }
            let Some(by) = self.reviews.requester(registry, &name) else { continue };
            let rules = rules.iter().map(|(_, rule)| rule.clone()).collect();
            if let Err(failure) = write(registry, &role.outline, rules, &by)
                && !self.reviews.call(registry, name, by, &failure)
            {
                // After a conflict, the change of the other writer triggers another call of `work`.
                has_failed |= !failure.is_conflict();
            }
        }
        self.reviews.forget_unused();
        self.outlines = roles.into_iter().map(|role| (role.stored.revision(), role.outline)).collect();
        self.backoff.next(has_failed, self.reviews.is_waiting())
    }

    fn is_busy(&self) -> bool {
        self.reviews.is_waiting()
    }

    async fn wait_for_event(&mut self) {
        self.reviews.next().await;
    }
}

/// A ClusterRole whose rules are decoded only when needed, because rules use a lot of memory and few roles are
/// aggregated.
struct AggregatedRole {
    stored: Arc<Stored>,
    outline: Json,
    rules: OnceLock<Vec<TextedRule>>,
}

/// A rule and its JSON text. Rules with the same text are duplicates.
type TextedRule = (String, Json);

impl AggregatedRole {
    fn new(stored: Arc<Stored>) -> Self {
        let outline = ["metadata.name", "metadata.labels", "metadata.resourceVersion", "aggregationRule"];
        Self { outline: stored.only(&outline), stored, rules: OnceLock::new() }
    }

    fn rules(&self) -> &[TextedRule] {
        self.rules.get_or_init(|| {
            let rules = self.stored.only(&["rules"]);
            rules.list("/rules").map(|rule| (rule.to_string(), rule.clone())).collect()
        })
    }
}

/// Returns the distinct rules of all roles that `role` selects, sorted by selector and then by the name of the selected
/// role.
///
/// The run time is bounded even if a role has many equal selectors. Each distinct selector is evaluated once, and roles
/// that are already selected are skipped.
async fn aggregated<'a>(role: &AggregatedRole, roles: &'a [AggregatedRole]) -> Vec<&'a TextedRule> {
    let (mut rules, mut seen) = (Vec::new(), HashSet::new());
    let mut left: Vec<_> = roles.iter().filter(|other| !std::ptr::eq(*other, role)).collect();
    let mut known = HashSet::new();
    for selector in role.outline.list("/aggregationRule/clusterRoleSelectors") {
        if left.is_empty() {
            break;
        }
        if !known.insert(selector.to_string()) {
            continue;
        }
        let Some(selector) = selector::structured(selector) else { continue };
        left.retain(|other| {
            let selects = selector::selects(&selector, &other.outline);
            if selects {
                rules.extend(other.rules().iter().filter(|(text, _)| seen.insert(text)));
            }
            !selects
        });
        tokio::task::yield_now().await;
    }
    rules
}

/// Writes a role's rules. Returns a conflict if the role has changed since it was read.
fn write(registry: &Arc<Registry>, role: &Json, rules: Vec<Json>, by: &Requester) -> Outcome<()> {
    let kinds = registry.kinds();
    let Some(kind) = kinds.group_kind(RBAC_GROUP, "ClusterRole") else { return Ok(()) };
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        if new.text("/metadata/resourceVersion") != role.text("/metadata/resourceVersion") {
            return Err(Failure::modified(&kind.resource(), metadata::name(role)));
        }
        new["rules"] = rules.clone().into();
        Ok(new)
    };
    let options = options();
    let writer = Writer::new(&options, AGGREGATION_CONTROLLER, now_text(registry, by)).with_requester(by.clone());
    let target = RequestTarget::new(kind.clone(), "", metadata::name(role));
    registry.update(&target, &UpdateSource::Patch(&make), &writer).map(drop).inspect_err(|failure| {
        if !failure.is_waiting() {
            tracing::debug!(name = target.name, error = failure.status.message, "cannot aggregate a role");
        }
    })
}

#[cfg(test)]
mod tests {
    use pintle_apimachinery::request::user::User;
    use pintle_effort::{is_linear, turns};
    use pintle_json::json;
    use pintle_storage::Expect;

    use super::*;
    use crate::config::ApiServerConfig;

    #[test]
    fn stale_role_is_not_overwritten() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let put = |expect, rules: Json| {
            let metadata = json!({"name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"});
            let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules});
            registry.db.put(&ROLES.into(), "a", expect, object).expect("as expected").new.clone()
        };
        let rules = || registry.db.get(ROLES, "a").expect("an existing role").decode()["rules"].clone();
        let read = put(Expect::Absent, json!([]));
        let written = put(Expect::At(read.revision()), json!([rule("get")]));
        let by = Requester::new(User::server());
        assert!(
            write(&registry, &read.decode(), vec![rule("delete")], &by).is_err_and(|failure| failure.is_conflict())
        );
        assert_eq!(rules(), json!([rule("get")]));
        write(&registry, &written.decode(), vec![rule("list")], &by).expect("an unchanged role");
        assert_eq!(rules(), json!([rule("list")]), "an unchanged role is written");
    }

    fn roles(selectors: impl Iterator<Item = Json>, others: usize, rules: usize) -> Vec<AggregatedRole> {
        let selectors: Vec<_> = selectors.collect();
        let all = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}});
        let other = |at: usize| {
            let rules: Vec<_> = (0..rules).map(|rule| json!({"verbs": [format!("v{at}/{rule}")]})).collect();
            json!({"metadata": {"name": format!("r{at}"), "labels": {"a": at.to_string()}}, "rules": rules})
        };
        std::iter::once(all)
            .chain((0..others).map(other))
            .map(|role| AggregatedRole::new(Arc::new(Stored::unversioned(&role))))
            .collect()
    }

    #[test]
    fn equal_selectors_are_evaluated_once() {
        let aggregates = |count: usize| {
            let roles = roles((0..count).map(|_| json!({})), 1, count);
            assert_eq!(turns(aggregated(&roles[0], &roles)).0.len(), count);
        };
        assert!(is_linear(200, aggregates));
    }

    #[test]
    fn aggregation_of_many_selectors_yields_to_other_tasks() {
        const SELECTORS: usize = 100;
        let selectors = (0..SELECTORS).map(|at| json!({"matchLabels": {"a": at.to_string()}}));
        let roles = roles(selectors, SELECTORS, 2);
        let (rules, turns) = turns(aggregated(&roles[0], &roles));
        assert!(rules.len() == 2 * SELECTORS && turns >= SELECTORS / 2, "{turns}");
    }
}
