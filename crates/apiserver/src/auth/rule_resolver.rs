//! Who may do what, by the roles and bindings that are stored.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use pintle_json::Json;

use super::Attributes;
use crate::kinds::{Cluster, GroupResource};
use crate::object::metadata;
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
    role: Arc<Json>,
    at: usize,
    reason: Arc<str>,
}

impl Grant {
    pub(crate) fn rule(&self) -> &Json {
        &self.role["rules"][self.at]
    }
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
    match grants.into_iter().find(|grant| covers(grant.rule(), attributes)) {
        Some(grant) => Decision::Allowed(grant.reason.to_string()),
        None => Decision::NoOpinion(wrong.map(|lost| lost.to_string())),
    }
}

/// All rules that hold for the user in a namespace, those for the whole cluster first. Those of a role that is bound more than once hold by
/// the first of its bindings.
pub(crate) fn grants(cluster: &dyn Cluster, user: &User, namespace: &str) -> (Vec<Grant>, Option<Lost>) {
    let mut rights = Rights { cluster, user, found: Vec::new(), roles: HashSet::new(), wrong: None };
    for binding in cluster.objects(&GroupResource::new(GROUP, "clusterrolebindings"), None) {
        let name = metadata::name(&binding);
        rights.add(&binding, "", &format!("ClusterRoleBinding {name:?}"));
    }
    if !namespace.is_empty() {
        for binding in cluster.objects(&GroupResource::new(GROUP, "rolebindings"), Some(namespace)) {
            let name = format!("{}/{namespace}", metadata::name(&binding));
            rights.add(&binding, namespace, &format!("RoleBinding {name:?}"));
        }
    }
    (rights.found, rights.wrong)
}

/// What has been found of the rules that hold for a user.
struct Rights<'a> {
    cluster: &'a dyn Cluster,
    user: &'a User,
    found: Vec<Grant>,
    /// The roles whose rules are among them, by kind and name.
    roles: HashSet<(String, String)>,
    wrong: Option<Lost>,
}

impl Rights<'_> {
    fn add(&mut self, binding: &Json, namespace: &str, told: &str) {
        let mut subjects = binding.list("/subjects");
        let Some(subject) = subjects.find(|subject| is_meant(subject, self.user, namespace)) else { return };
        let (kind, name) = (binding.text("/roleRef/kind"), binding.text("/roleRef/name"));
        let (resource, of) = if kind == "ClusterRole" { ("clusterroles", "") } else { ("roles", namespace) };
        let Some(role) = self.cluster.object(&GroupResource::new(GROUP, resource), of, name) else {
            self.wrong = Some(Lost { kind: kind.into(), name: name.into() });
            return;
        };
        if !self.roles.insert((resource.into(), name.into())) {
            return;
        }
        let subject = format!("{} {:?}", subject.text("/kind"), subject_name(subject));
        let reason: Arc<str> = format!("RBAC: allowed by {told} of {kind} {name:?} to {subject}").into();
        let count = role["rules"].as_array().map_or(0, Vec::len);
        self.found.extend((0..count).map(|at| Grant { role: role.clone(), at, reason: reason.clone() }));
    }
}

fn subject_name(subject: &Json) -> String {
    match subject.text("/kind") {
        "ServiceAccount" => format!("{}/{}", subject.text("/name"), subject.text("/namespace")),
        _ => subject.text("/name").to_owned(),
    }
}

fn is_meant(subject: &Json, user: &User, namespace: &str) -> bool {
    let name = subject.text("/name");
    match subject.text("/kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let of = match subject.text("/namespace") {
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
fn covers(rule: &Json, attributes: &Attributes<'_>) -> bool {
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
pub(super) fn list<'a>(rule: &'a Json, field: &str) -> impl Iterator<Item = &'a str> {
    rule[field].texts("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::path::ResourcePath;
    use pintle_json::json;

    fn allows(rule: Json, verb: &str, resource: &str, name: &str) -> bool {
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
        let rule = |resources: Json, names: Json| json!({"verbs": ["get"], "apiGroups": [""], "resources": resources, "resourceNames": names});
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

    /// One role, and bindings of it.
    struct Bindings(Vec<Arc<Json>>, Arc<Json>);

    impl Cluster for Bindings {
        fn object(&self, resource: &GroupResource, _: &str, _: &str) -> Option<Arc<Json>> {
            (resource.resource == "clusterroles").then(|| self.1.clone())
        }

        fn objects(&self, resource: &GroupResource, _: Option<&str>) -> Vec<Arc<Json>> {
            if resource.resource == "clusterrolebindings" { self.0.clone() } else { Vec::new() }
        }

        fn holder(&self, _: &str) -> Option<Arc<str>> {
            None
        }
    }

    #[test]
    fn a_role_that_is_bound_often_gives_its_rules_once_by_the_first_binding() {
        let binding = |name: &str| {
            let subjects = json!([{"kind": "User", "name": "u"}]);
            Arc::new(
                json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}),
            )
        };
        let rule = |resource: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
        let cluster = Bindings(
            vec![binding("a"), binding("b"), binding("c")],
            Arc::new(json!({"rules": [rule("x"), rule("y")]})),
        );
        let user = User { name: "u".into(), ..User::default() };
        let (grants, lost) = grants(&cluster, &user, "n");
        assert_eq!(grants.iter().map(Grant::rule).collect::<Vec<_>>(), [&rule("x"), &rule("y")]);
        assert!(lost.is_none());
        let path = ResourcePath { resource: "y".into(), ..ResourcePath::default() };
        let decided = decide(&cluster, &user, &Attributes::Resource { verb: "get", path: &path, name: "" });
        let told = r#"RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to User "u""#;
        assert!(matches!(&decided, Decision::Allowed(reason) if reason == told), "{decided:?}");
    }

    #[test]
    fn an_account_is_meant_by_its_namespace_or_that_of_the_binding() {
        let user = |name: &str| User { name: name.into(), ..User::default() };
        for (of, namespace, name, meant) in [
            (json!("n"), "", "system:serviceaccount:n:a", true),
            (json!("n"), "m", "system:serviceaccount:m:a", false),
            (Json::Null, "m", "system:serviceaccount:m:a", true),
            (Json::Null, "", "system:serviceaccount::a", false),
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
