//! Finds the kinds to which a policy's resource rules refer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pintle_json::Json;
use pintle_kinds::{Kind, Kinds};

/// The maximum number of kinds that kube-controller-manager uses from one rule. After a rule that reaches this maximum,
/// kube-controller-manager ignores all further rules.
const MAX_OF_RULE: usize = 10;

/// The served kinds. The outer key is a kind's version, and the inner key is the kind's plural or singular name.
pub struct MatchedKinds<'k>(HashMap<&'k str, HashMap<&'k str, Vec<&'k Arc<Kind>>>>);

/// The key that kube-controller-manager uses to look up a resource: the group in the rule, the version and the
/// resource. The status of a policy lists the kinds in the order of these lookup keys.
type Lookup<'a> = (&'a str, &'a str, &'a str);

impl<'k> MatchedKinds<'k> {
    /// Indexes the served kinds by version and name.
    pub fn new(kinds: &'k Kinds) -> Self {
        let mut by_version = HashMap::<_, HashMap<_, Vec<_>>>::new();
        for kind in kinds.kinds() {
            let names = by_version.entry(kind.version.as_str()).or_default();
            for name in BTreeSet::from([kind.plural.as_str(), &kind.singular]) {
                names.entry(name).or_default().push(kind);
            }
        }
        Self(by_version)
    }

    /// Returns the kinds that a policy's spec names, sorted by group, version and kind.
    ///
    /// As in kube-controller-manager, rules with a wildcard group or version are ignored. Resources with a wildcard or
    /// a subresource are also ignored.
    pub async fn matching(&self, spec: &Json) -> Vec<&'k Arc<Kind>> {
        let mut found = BTreeMap::new();
        for rule in spec.list("/matchConstraints/resourceRules") {
            tokio::task::yield_now().await;
            let of_rule = self.of_rule(rule);
            let is_full = of_rule.len() >= MAX_OF_RULE;
            let of_rule = of_rule.into_iter().take(MAX_OF_RULE);
            found.extend(of_rule.map(|(_, kind)| ((&kind.group, &kind.version, &kind.kind), kind)));
            if is_full {
                break;
            }
        }
        found.into_values().collect()
    }

    fn of_rule<'r>(&self, rule: &'r Json) -> Vec<(Lookup<'r>, &'k Arc<Kind>)>
    where
        'k: 'r,
    {
        let all = |list: &str| rule.texts(list).collect::<BTreeSet<&str>>();
        let (groups, versions) = (all("/apiGroups"), all("/apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            return Vec::new();
        }
        let resources: BTreeMap<String, &str> = rule
            .texts("/resources")
            .filter(|resource| !resource.contains(['*', '/']))
            .map(|resource| (resource.to_lowercase(), resource))
            .collect();
        let mut found = Vec::new();
        for version in versions {
            let Some(names) = self.0.get(version) else { continue };
            // Iterate over the rule's resources or the server's kinds, whichever are fewer.
            let named: Vec<_> = if resources.len() < names.len() {
                resources.iter().filter_map(|(name, text)| Some((*text, names.get(name.as_str())?))).collect()
            } else {
                names.iter().filter_map(|(name, kinds)| Some((*resources.get(*name)?, kinds))).collect()
            };
            for (resource, kinds) in named {
                for kind in kinds {
                    // The REST mapper does not distinguish the core group from a missing group, so it searches all
                    // groups.
                    let of_group = ["", kind.group.as_str()];
                    let of_group = if kind.group.is_empty() { &of_group[..1] } else { &of_group[..] };
                    let matching = of_group.iter().filter_map(|group| groups.get(group));
                    found.extend(matching.map(|group| ((*group, version, resource), *kind)));
                }
            }
        }
        found.sort_by(|(a, left), (b, right)| {
            a.cmp(b).then_with(|| (&left.group, &left.kind).cmp(&(&right.group, &right.kind)))
        });
        found
    }
}

/// Returns `true` if a policy refers to one of `groups` in its resource rules or in its `paramKind`.
pub fn names_group(spec: &Json, groups: &BTreeSet<&str>) -> bool {
    let of_params = spec.text("/paramKind/apiVersion").split_once('/').map(|(group, _)| group);
    let mut of_rules = spec.list("/matchConstraints/resourceRules").flat_map(|rule| rule.texts("/apiGroups"));
    of_params.is_some_and(|group| groups.contains(group))
        || of_rules.any(|group| group.is_empty() || groups.contains(group))
}

#[cfg(test)]
mod tests {
    use pintle_effort::turns;
    use pintle_json::json;

    use super::*;

    #[track_caller]
    fn check(rules: &[(&[&str], &[&str], &[&str])], expected: &[&str]) {
        let rules: Vec<Json> = rules
            .iter()
            .map(|(groups, versions, resources)| {
                json!({"apiGroups": groups.to_vec(), "apiVersions": versions.to_vec(), "resources": resources.to_vec()})
            })
            .collect();
        let spec = json!({"matchConstraints": {"resourceRules": rules}});
        let kinds = pintle_builtin::kinds();
        let (found, _) = turns(MatchedKinds::new(&kinds).matching(&spec));
        let found: Vec<_> = found.into_iter().map(|kind| format!("{} {}", kind.api_version(), kind.kind)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn kinds_are_sorted_and_wildcards_are_ignored() {
        let (core, apps, v1): (&[&str], &[&str], &[&str]) = (&[""], &["apps"], &["v1"]);
        check(
            &[(apps, v1, &["replicasets", "deployments"]), (core, v1, &["pods"])],
            &["v1 Pod", "apps/v1 Deployment", "apps/v1 ReplicaSet"],
        );
        check(&[(apps, v1, &["deployments"]), (apps, &["*"], &["replicasets"])], &["apps/v1 Deployment"]);
        check(&[(apps, v1, &["deployments", "*", "pods/status", "replicasets/*"])], &["apps/v1 Deployment"]);
        check(&[(&["*"], v1, &["pods"])], &[]);
        check(&[(apps, &["v2"], &["deployments"]), (&["nope"], v1, &["deployments"])], &[]);
    }

    #[test]
    fn resources_are_found_as_in_the_rest_mapper() {
        let (core, apps, v1): (&[&str], &[&str], &[&str]) = (&[""], &["apps"], &["v1"]);
        check(&[(apps, v1, &["deployment", "ReplicaSets"])], &["apps/v1 Deployment", "apps/v1 ReplicaSet"]);
        check(&[(core, v1, &["events"])], &["v1 Event", "events.k8s.io/v1 Event"]);
        check(&[(core, v1, &["deployments"])], &["apps/v1 Deployment"]);
    }

    #[test]
    fn rule_with_many_kinds_ends_the_search() {
        let names = [
            "bindings",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "secrets",
            "services",
        ];
        let (core, apps, v1): (&[&str], &[&str], &[&str]) = (&[""], &["apps"], &["v1"]);
        let expected = [
            "v1 Binding",
            "v1 ConfigMap",
            "v1 Endpoints",
            "v1 Event",
            "v1 LimitRange",
            "v1 Namespace",
            "v1 Node",
            "v1 PersistentVolume",
            "v1 PersistentVolumeClaim",
            "events.k8s.io/v1 Event",
        ];
        check(&[(core, v1, &names), (apps, v1, &["deployments"])], &expected);
    }
}
