//! Splits RBAC rules into rights, each of which permits a single verb on a single URL or resource.

use pintle_apimachinery::failure::quoted;

use super::authorizer::{PolicyRule, has};

/// A permission for one verb on one URL or resource. The verb and each name can be the wildcard `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: String,
    pub(super) thing: Thing,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    Url(String),
    Resource { group: String, resource: String, name: Option<String> },
}

impl Right {
    pub(super) fn count(rule: &PolicyRule) -> usize {
        let things = [rule.groups.len(), rule.resources.len(), rule.names.len().max(1)];
        let things = things.into_iter().fold(1, usize::saturating_mul).saturating_add(rule.urls.len());
        things.saturating_mul(rule.verbs.len())
    }

    pub(super) fn all_of(rule: &PolicyRule) -> Vec<Self> {
        let mut names: Vec<_> = rule.names.iter().map(|name| Some(name.to_string())).collect();
        if names.is_empty() {
            names.push(None);
        }
        let mut things = Vec::new();
        for group in &rule.groups {
            for resource in &rule.resources {
                let thing = |name: &Option<String>| Thing::Resource {
                    group: group.to_string(),
                    resource: resource.to_string(),
                    name: name.clone(),
                };
                things.extend(names.iter().map(thing));
            }
        }
        things.extend(rule.urls.iter().map(|url| Thing::Url(url.to_string())));
        let each =
            |thing: Thing| rule.verbs.iter().map(move |verb| Self { verb: verb.to_string(), thing: thing.clone() });
        things.into_iter().flat_map(each).collect()
    }

    pub(super) fn is_in(&self, rule: &PolicyRule) -> bool {
        let any_name = rule.names.is_empty();
        has(&rule.verbs, &self.verb)
            && match &self.thing {
                Thing::Url(url) => any_name && rule.urls.iter().any(|known| url_covers(known, url)),
                Thing::Resource { group, resource, name } => {
                    let below = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
                    has(&rule.groups, group)
                        && (has(&rule.resources, resource) || below.is_some_and(|below| has(&rule.resources, &below)))
                        && (any_name
                            || name.as_deref().is_some_and(|name| rule.names.iter().any(|known| **known == *name)))
                }
            }
    }
}

/// Returns the maximum number of comparisons that are needed to check whether a rule grants a permission.
pub(super) fn length(rule: &PolicyRule) -> usize {
    1 + [&rule.verbs, &rule.groups, &rule.resources, &rule.names, &rule.urls]
        .map(|names| names.len())
        .iter()
        .sum::<usize>()
}

impl Thing {
    /// Formats a rule with these verbs as in kube-apiserver's error messages.
    pub(super) fn text(&self, verbs: &[&str]) -> String {
        let verbs: Vec<_> = verbs.iter().map(|verb| quoted(verb)).collect();
        let on = match self {
            Self::Url(url) => format!("NonResourceURLs:[{}]", quoted(url)),
            Self::Resource { group, resource, name } => {
                let name = name.as_ref().map_or_else(String::new, |name| format!(", ResourceNames:[{}]", quoted(name)));
                format!("APIGroups:[{}], Resources:[{}]{name}", quoted(group), quoted(resource))
            }
        };
        format!("{{{on}, Verbs:[{}]}}", verbs.join(" "))
    }
}

/// Returns `true` if the URL `known` in a rule covers `url`. A `*` at the end of `known` matches any
/// text.
fn url_covers(known: &str, url: &str) -> bool {
    known == url || known.ends_with('*') && url.starts_with(known.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use pintle_json::{Json, json};

    use super::*;

    #[test]
    fn rule_expands_to_each_verb_on_each_thing() {
        let check = |rule: Json, expected: &[&str]| {
            let rights: Vec<_> = PolicyRule::all_of(&json!([rule])).iter().flat_map(Right::all_of).collect();
            let texts: Vec<_> = rights.iter().map(|right| right.thing.text(&[&right.verb])).collect();
            assert_eq!(texts, expected, "{rule}");
        };
        let rule =
            json!({"apiGroups": ["", "b"], "resources": ["r"], "verbs": ["get", "list"], "resourceNames": ["n"]});
        check(
            rule,
            &[
                r#"{APIGroups:[""], Resources:["r"], ResourceNames:["n"], Verbs:["get"]}"#,
                r#"{APIGroups:[""], Resources:["r"], ResourceNames:["n"], Verbs:["list"]}"#,
                r#"{APIGroups:["b"], Resources:["r"], ResourceNames:["n"], Verbs:["get"]}"#,
                r#"{APIGroups:["b"], Resources:["r"], ResourceNames:["n"], Verbs:["list"]}"#,
            ],
        );
        check(json!({"nonResourceURLs": ["/a"], "verbs": ["*"]}), &[r#"{NonResourceURLs:["/a"], Verbs:["*"]}"#]);
        check(json!({"resources": ["r"], "verbs": ["get"]}), &[]);
    }

    #[test]
    fn right_is_covered_by_a_wider_rule() {
        let on = |resource: &str, name: Option<&str>| Right {
            verb: "get".into(),
            thing: Thing::Resource { group: String::new(), resource: resource.into(), name: name.map(Into::into) },
        };
        let rule = |resources: Json, names: Json| {
            let rule = json!({"apiGroups": [""], "resources": resources, "verbs": ["get"], "resourceNames": names});
            PolicyRule::all_of(&json!([rule])).remove(0)
        };
        assert!(on("pods", None).is_in(&rule(json!(["pods"]), json!([]))));
        assert!(on("pods", Some("a")).is_in(&rule(json!(["pods"]), json!([]))));
        assert!(on("pods", Some("a")).is_in(&rule(json!(["pods"]), json!(["a"]))));
        assert!(!on("pods", None).is_in(&rule(json!(["pods"]), json!(["a"]))));
        assert!(on("pods/log", None).is_in(&rule(json!(["*/log"]), json!([]))));
        assert!(!on("*", None).is_in(&rule(json!(["pods"]), json!([]))));
        let url = |url: &str| Right { verb: "get".into(), thing: Thing::Url(url.into()) };
        let urls = PolicyRule::all_of(&json!([{"nonResourceURLs": ["/a/*"], "verbs": ["get"]}])).remove(0);
        assert!(url("/a/b").is_in(&urls) && url("/a/*").is_in(&urls) && !url("/a").is_in(&urls));
    }
}
