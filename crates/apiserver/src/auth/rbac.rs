//! Who may do what, by the roles and bindings that are stored.

use std::fmt;

use serde_json::Value;

use super::Attributes;
use crate::kinds::{Cluster, GroupResource};
use crate::request::user::User;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// What the rules say of a request. It cannot be compared: only a match on [`Allowed`](Self::Allowed) lets anybody through,
/// whatever was found wrong on the way.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// It is allowed, and by what.
    Allowed(String),
    /// No rule allows it; and what was found wrong on the way, if anything.
    NoOpinion(Option<String>),
}

/// A rule that a user has, and through which binding.
pub(crate) struct Grant {
    pub(crate) rule: Value,
    reason: String,
}

/// A role that is bound but not there.
pub(crate) struct Lost {
    kind: String,
    pub(super) name: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RBAC: {}.{GROUP} {:?} not found", self.kind.to_lowercase(), self.name)
    }
}

/// Decides by the roles that are bound to the user.
pub(crate) fn decide(cluster: &dyn Cluster, user: &User, attributes: &Attributes<'_>) -> Decision {
    let namespace = match attributes {
        Attributes::Resource { path, .. } => path.namespace.as_str(),
        Attributes::Path { .. } => "",
    };
    let (grants, wrong) = grants(cluster, user, namespace);
    match grants.into_iter().find(|grant| covers(&grant.rule, attributes)) {
        Some(grant) => Decision::Allowed(grant.reason),
        None => Decision::NoOpinion(wrong.map(|lost| lost.to_string())),
    }
}

/// All rules that hold for the user in a namespace, those for the whole cluster first.
pub(crate) fn grants(cluster: &dyn Cluster, user: &User, namespace: &str) -> (Vec<Grant>, Option<Lost>) {
    let mut found = Vec::new();
    let mut wrong = None;
    for binding in cluster.objects(&GroupResource::new(GROUP, "clusterrolebindings"), None) {
        let name = text(&binding["metadata"], "name");
        add(cluster, user, &binding, "", &format!("ClusterRoleBinding {name:?}"), &mut found, &mut wrong);
    }
    if !namespace.is_empty() {
        for binding in cluster.objects(&GroupResource::new(GROUP, "rolebindings"), Some(namespace)) {
            let name = format!("{}/{namespace}", text(&binding["metadata"], "name"));
            add(cluster, user, &binding, namespace, &format!("RoleBinding {name:?}"), &mut found, &mut wrong);
        }
    }
    (found, wrong)
}

fn add(
    cluster: &dyn Cluster,
    user: &User,
    binding: &Value,
    namespace: &str,
    told: &str,
    found: &mut Vec<Grant>,
    wrong: &mut Option<Lost>,
) {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    let Some(subject) = subjects.into_iter().find(|subject| is_meant(subject, user, namespace)) else { return };
    let (kind, name) = (text(&binding["roleRef"], "kind"), text(&binding["roleRef"], "name"));
    let role = match kind {
        "ClusterRole" => cluster.object(&GroupResource::new(GROUP, "clusterroles"), "", name),
        _ => cluster.object(&GroupResource::new(GROUP, "roles"), namespace, name),
    };
    let Some(role) = role else {
        *wrong = Some(Lost { kind: kind.into(), name: name.into() });
        return;
    };
    let subject = format!("{} {:?}", text(subject, "kind"), subject_name(subject));
    let reason = format!("RBAC: allowed by {told} of {kind} {name:?} to {subject}");
    let rules = role["rules"].as_array().into_iter().flatten();
    found.extend(rules.map(|rule| Grant { rule: rule.clone(), reason: reason.clone() }));
}

fn subject_name(subject: &Value) -> String {
    match text(subject, "kind") {
        "ServiceAccount" => format!("{}/{}", text(subject, "name"), text(subject, "namespace")),
        _ => text(subject, "name").to_owned(),
    }
}

fn is_meant(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let of = match text(subject, "namespace") {
                "" => namespace,
                of => of,
            };
            // Nobody is an account without a namespace, whatever they are called.
            !of.is_empty() && user.name == format!("system:serviceaccount:{of}:{name}")
        }
        _ => false,
    }
}

/// Whether a rule allows it.
fn covers(rule: &Value, attributes: &Attributes<'_>) -> bool {
    let has = |field: &str, wanted: &str| list(rule, field).any(|item| item == "*" || item == wanted);
    match attributes {
        Attributes::Path { verb, path } => {
            let matches = |url: &str| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == *path,
            };
            has("verbs", verb) && list(rule, "nonResourceURLs").any(matches)
        }
        Attributes::Resource { verb, path, name } => {
            let resource = path.full_resource();
            let below = format!("*/{}", path.subresource);
            let is_resource =
                |item: &str| item == "*" || item == resource || (!path.subresource.is_empty() && item == below);
            let mut names = list(rule, "resourceNames").peekable();
            has("verbs", verb)
                && has("apiGroups", &path.group)
                && list(rule, "resources").any(is_resource)
                && (names.peek().is_none() || (!name.is_empty() && names.any(|known| known == *name)))
        }
    }
}

/// The texts of a list in a rule.
pub(super) fn list<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::path::ResourcePath;
    use serde_json::json;

    fn allows(rule: Value, verb: &str, resource: &str, name: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let path = ResourcePath {
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            ..ResourcePath::default()
        };
        covers(&rule, &Attributes::Resource { verb, path: &path, name })
    }

    #[test]
    fn a_rule_covers_what_it_names_and_nothing_beside() {
        let rule = |resources: Value, names: Value| json!({"verbs": ["get"], "apiGroups": [""], "resources": resources, "resourceNames": names});
        assert!(allows(rule(json!(["pods"]), json!([])), "get", "pods", "a"));
        assert!(!allows(rule(json!(["pods"]), json!([])), "list", "pods", ""));
        assert!(!allows(rule(json!(["pods"]), json!([])), "get", "pods/status", "a"));
        assert!(allows(rule(json!(["*/status"]), json!([])), "get", "pods/status", "a"));
        assert!(!allows(rule(json!(["*/status"]), json!([])), "get", "pods", "a"));
        assert!(allows(rule(json!(["*"]), json!([])), "get", "pods/status", "a"));
        assert!(allows(rule(json!(["pods"]), json!(["a"])), "get", "pods", "a"));
        assert!(!allows(rule(json!(["pods"]), json!(["a"])), "get", "pods", ""));
        assert!(!allows(json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]}), "get", "pods", "a"));
    }

    #[test]
    fn an_account_is_meant_by_its_namespace_or_that_of_the_binding() {
        let user = |name: &str| User { name: name.into(), ..User::default() };
        for (of, namespace, name, meant) in [
            (json!("n"), "", "system:serviceaccount:n:a", true),
            (json!("n"), "m", "system:serviceaccount:m:a", false),
            (Value::Null, "m", "system:serviceaccount:m:a", true),
            (Value::Null, "", "system:serviceaccount::a", false),
        ] {
            let subject = json!({"kind": "ServiceAccount", "name": "a", "namespace": of});
            assert_eq!(is_meant(&subject, &user(name), namespace), meant, "{subject} in {namespace:?}: {name}");
        }
    }

    #[test]
    fn a_path_ends_in_a_star_or_is_exact() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]});
        for (path, expected) in [("/a", true), ("/a/x", false), ("/b", false), ("/b/x/y", true)] {
            assert_eq!(covers(&rule, &Attributes::Path { verb: "get", path }), expected, "{path}");
        }
    }
}
