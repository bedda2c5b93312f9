//! Determines which requests a policy or binding matches.

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::selector;
use pintle_json::Json;

/// The attributes of a request for one group and version. If a resource is served in several groups or versions, a
/// request has several candidates.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub group: &'a str,
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource, or an empty string for the object itself.
    pub subresource: &'a str,
    /// The operation in upper case, such as `CREATE`.
    pub operation: &'a str,
    pub name: &'a str,
    /// Whether the object belongs to a namespace, which is `false` for a Namespace.
    pub is_namespaced: bool,
}

/// The objects whose labels `objectSelector` and `namespaceSelector` match.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    pub object: Option<&'a Json>,
    pub old_object: Option<&'a Json>,
    /// The namespace of the object, or the object itself if it is a Namespace. `None` for other cluster-scoped objects.
    pub namespace: Option<&'a Json>,
}

/// Returns the index of the first matching candidate, if any. The first candidate describes the request in the client's
/// version of the resource, and the other candidates describe it in other versions. If the match policy is `Exact`,
/// only the first candidate can match.
pub fn matches(resources: &Json, candidates: &[Candidate<'_>], matched: &Matched<'_>) -> Option<usize> {
    let selects = |field: &str, object: &Json| {
        let selector = selector::structured(&resources[field]);
        selector.is_some_and(|selector| selector::selects(&selector, object))
    };
    let is_unrestricted = |field: &str| resources[field].is_null() || resources[field].is_empty();
    if !is_unrestricted("namespaceSelector")
        && matched.namespace.is_some_and(|namespace| !selects("namespaceSelector", namespace))
    {
        return None;
    }
    let mut objects = matched.object.into_iter().chain(matched.old_object);
    if !is_unrestricted("objectSelector") && !objects.any(|object| selects("objectSelector", object)) {
        return None;
    }
    let is_exact = resources.text("/matchPolicy") == "Exact";
    let considered = if is_exact { &candidates[..candidates.len().min(1)] } else { candidates };
    // Prefer a rule for the request's version to a rule for another version.
    let position = |rules: &str| {
        let first_match = |candidates: &[Candidate<'_>]| {
            resources.list(rules).find_map(|rule| candidates.iter().position(|candidate| rule_matches(rule, candidate)))
        };
        first_match(&considered[..considered.len().min(1)]).or_else(|| first_match(considered))
    };
    if position("/excludeResourceRules").is_some() {
        return None;
    }
    match resources.list("/resourceRules").next() {
        None => Some(0),
        Some(_) => position("/resourceRules"),
    }
}

fn rule_matches(rule: &Json, candidate: &Candidate<'_>) -> bool {
    let list_contains = |list: &str, value: &str| rule.texts(list).any(|item| item == "*" || item == value);
    let scope = match rule.text("/scope") {
        "Namespaced" => candidate.is_namespaced,
        "Cluster" => !candidate.is_namespaced,
        _ => true,
    };
    let names = || {
        rule.list("/resourceNames").next().is_none() || rule.texts("/resourceNames").any(|name| name == candidate.name)
    };
    scope
        && list_contains("/operations", candidate.operation)
        && list_contains("/apiGroups", candidate.group)
        && list_contains("/apiVersions", candidate.version)
        && rule.texts("/resources").any(|pattern| resource_matches(pattern, candidate))
        && names()
}

/// Returns `true` if `pattern` matches the resource. The patterns `*` and `pods` do not match subresources.
fn resource_matches(pattern: &str, candidate: &Candidate<'_>) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == candidate.resource)
        && (subresource == candidate.subresource || subresource == "*" && pattern.contains('/'))
}

/// Returns the object's name for messages. If the object has no name yet, returns its `generateName` or `Unknown`.
pub fn name_of(object: Option<&Json>) -> String {
    let Some(object) = object else { return "Unknown".into() };
    match (metadata::name(object), object.text("/metadata/generateName")) {
        ("", "") => "Unknown".into(),
        ("", prefix) => prefix.into(),
        (name, _) => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn candidate<'a>(version: &'a str, resource: &'a str, subresource: &'a str) -> Candidate<'a> {
        Candidate {
            group: "apps",
            version,
            resource,
            subresource,
            operation: "CREATE",
            name: "web",
            is_namespaced: true,
        }
    }

    fn rule(resources: &[&str]) -> Json {
        json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources, "scope": "*"})
    }

    #[test]
    fn wildcards_cover_resources_and_subresources() {
        for (pattern, resource, subresource, expected) in [
            ("deployments", "deployments", "", true),
            ("deployments", "deployments", "status", false),
            ("deployments/status", "deployments", "status", true),
            ("deployments/*", "deployments", "scale", true),
            ("*", "deployments", "", true),
            ("*", "deployments", "status", false),
            ("*/status", "deployments", "status", true),
            ("*/*", "deployments", "status", true),
            ("*/*", "deployments", "", true),
            ("pods", "deployments", "", false),
        ] {
            let found = resource_matches(pattern, &candidate("v1", resource, subresource));
            assert_eq!(found, expected, "{pattern} {resource} {subresource}");
        }
    }

    #[test]
    fn equivalent_version_matches_unless_the_policy_is_exact() {
        let candidates = [candidate("v1beta1", "deployments", ""), candidate("v1", "deployments", "")];
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let matched = Matched { object: Some(&object), old_object: None, namespace: None };
        let first_match = |extra: Json| {
            let mut resources = json!({"resourceRules": [rule(&["deployments"])]});
            for (name, value) in extra.members("") {
                resources.set(name.as_str(), value.clone());
            }
            matches(&resources, &candidates, &matched)
        };
        assert_eq!(first_match(json!({})), Some(1));
        assert_eq!(first_match(json!({"matchPolicy": "Exact"})), None);
        assert_eq!(first_match(json!({"excludeResourceRules": [rule(&["*"])]})), None);
        assert_eq!(first_match(json!({"objectSelector": {"matchLabels": {"a": "b"}}})), Some(1));
        assert_eq!(first_match(json!({"objectSelector": {"matchLabels": {"a": "c"}}})), None);
        assert_eq!(first_match(json!({"resourceRules": []})), Some(0));
    }
}
