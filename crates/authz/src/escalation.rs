//! Prevents privilege escalation: the author of a role or binding can grant only permissions that the author already
//! has.

use std::collections::BTreeMap;

use pintle_apimachinery::failure::{Failure, Outcome, quoted};
use pintle_apimachinery::object::{metadata, remove_metadata};
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::{MASTERS, User};
use pintle_json::Json;
use pintle_kinds::{RBAC_GROUP, RequestTarget};

use super::attributes::Attributes;
use super::authorize::{Decision, decide};
use super::authorizer::{PolicyRule, Rbac};
use super::rights::{self, Right, Thing};

/// The maximum number of comparisons for one check of granted permissions. Without this limit, a rule of a few
/// kilobytes could expand to millions of permissions.
const MAX_COMPARISONS: usize = 20_000_000;

/// Returns `true` if writing an object of this kind grants permissions.
pub fn grants_rights(target: &RequestTarget) -> bool {
    target.kind.group == RBAC_GROUP
}

/// Returns an error if writing the role or binding would grant permissions that `user` does not have. The write is also
/// allowed if `user` has the verb `escalate` on the role, or the verb `bind` on the bound role. The name in `target`
/// must be the name in the request URL. `old` is the stored object, if it exists.
pub fn check_grant(rbac: Rbac<'_>, user: &User, target: &RequestTarget, new: &Json, old: Option<&Json>) -> Outcome<()> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let writer = Granter { rbac, user, target, name: metadata::name(new) };
    match target.kind.kind.as_str() {
        "Role" | "ClusterRole" => writer.check_role(new, old),
        _ => writer.check_binding(new, old),
    }
}

struct Granter<'a> {
    rbac: Rbac<'a>,
    user: &'a User,
    target: &'a RequestTarget,
    name: &'a str,
}

impl Granter<'_> {
    fn check_role(&self, new: &Json, old: Option<&Json>) -> Outcome<()> {
        if self.may("escalate", &self.target.kind.group, &self.target.kind.plural, &self.target.name)
            || old.is_some_and(|old| self.only_touches_ownership(new, old))
        {
            return Ok(());
        }
        self.check_rules(&PolicyRule::all_of(&new["rules"])).map_err(|why| self.forbidden(&why))?;
        let aggregates = |role: &Json| {
            role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
        };
        if aggregates(new) || old.is_some_and(aggregates) {
            let everything = pintle_json::json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]);
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.check_rules(&PolicyRule::all_of(&everything)).map_err(|_| self.forbidden(why))?;
        }
        Ok(())
    }

    fn check_binding(&self, new: &Json, old: Option<&Json>) -> Outcome<()> {
        let role_ref = |name: &str| new["roleRef"][name].text("");
        let (kind, name) = (role_ref("kind"), role_ref("name"));
        let group = if role_ref("apiGroup").is_empty() { RBAC_GROUP } else { role_ref("apiGroup") };
        let role = match kind {
            "Role" => Some(("roles", self.target.namespace.as_str())),
            "ClusterRole" => Some(("clusterroles", "")),
            _ => None,
        };
        if old.is_some_and(|old| self.only_touches_ownership(new, old))
            || role.is_some_and(|(resource, _)| self.may("bind", group, resource, name))
        {
            return Ok(());
        }
        let Some((_, namespace)) = role else {
            return Err(Failure::plain(500, format!("unsupported role reference kind: {}", quoted(kind))));
        };
        if kind == "Role" && namespace.is_empty() {
            return Err(Failure::bad_request("Namespace parameter required."));
        }
        let role = self.rbac.role(namespace, name);
        let role = role.ok_or_else(|| Failure::not_found(&self.target.kind.resource(), name))?;
        self.check_rules(&role.rules).map_err(|why| self.forbidden(&why))
    }

    fn may(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let path = ResourcePath {
            group: group.into(),
            namespace: self.target.namespace.clone(),
            resource: resource.into(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let attributes = Attributes::Resource { verb, path: &path, name };
        matches!(decide(self.rbac, self.user, &attributes), Decision::Allowed(_))
    }

    /// Returns an error with the reason if the writer does not have all permissions in `rules`. The writer needs the
    /// permissions in the object's namespace.
    fn check_rules(&self, rules: &[PolicyRule]) -> Result<(), String> {
        let held = self.rbac.granted(self.user, &self.target.namespace);
        let given = rules.iter().map(Right::count).fold(0, usize::saturating_add);
        let known = held.rules().map(rights::length).sum::<usize>();
        if given.saturating_mul(known) > MAX_COMPARISONS {
            return Err(format!(
                "user {} gives {given} rights by it, which are too many to check: grant fewer at a time, or use a wildcard",
                quoted(&self.user.name)
            ));
        }
        let given = rules.iter().flat_map(Right::all_of);
        let lacking: Vec<Right> = given.filter(|right| !held.rules().any(|rule| right.is_in(rule))).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let groups: Vec<_> = self.user.groups.iter().map(|group| quoted(group)).collect();
        // As in kube-apiserver, the error contains the resource of the written object, even if the missing role has
        // another resource.
        let error = held.missing.map_or_else(String::new, |missing| {
            format!("; resolution errors: [{} {} not found]", self.target.kind.resource(), quoted(&missing.name))
        });
        Err(format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}{error}",
            quoted(&self.user.name),
            groups.join(" "),
            describe(&lacking).join("\n"),
        ))
    }

    /// Returns `true` if the write only changes metadata that the garbage collector writes, such as owner references
    /// and finalizers.
    fn only_touches_ownership(&self, new: &Json, old: &Json) -> bool {
        let rest = |object: &Json| {
            let mut object = object.clone();
            let kind = &self.target.kind;
            kind.set_defaults(&mut object);
            kind.normalise(&mut object);
            for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
                remove_metadata(&mut object, field);
            }
            if let Some(members) = object.as_object_mut() {
                members.retain(|_, value| !value.is_empty());
            }
            object
        };
        rest(new) == rest(old)
    }

    fn forbidden(&self, why: &str) -> Failure {
        Failure::forbidden(&self.target.kind.resource(), self.name, why)
    }
}

/// Formats permissions as sorted strings, each of which combines all verbs for one resource.
fn describe(rights: &[Right]) -> Vec<String> {
    let mut verbs: BTreeMap<&Thing, Vec<&str>> = BTreeMap::new();
    let mut texts = Vec::new();
    for Right { verb, thing } in rights {
        match thing {
            Thing::Url(_) => texts.push(thing.text(&[verb])),
            Thing::Resource { .. } => verbs.entry(thing).or_default().push(verb),
        }
    }
    texts.extend(verbs.into_iter().map(|(thing, verbs)| thing.text(&verbs)));
    texts.sort();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use pintle_storage::Db;

    use super::super::authorizer::{Authorizer, db_of};
    use super::*;

    /// Returns a store in which the user `u` has these rules, and is also bound to a missing role. Also contains a role
    /// `strong`, which can read secrets.
    fn cluster(rules: Json) -> Db {
        let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "get"]}]);
        db_of(&[
            ("clusterroles", json!({"metadata": {"name": "mine"}, "rules": rules})),
            ("clusterroles", json!({"metadata": {"name": "strong"}, "rules": secrets})),
            (
                "clusterrolebindings",
                json!({
                    "metadata": {"name": "mine"},
                    "roleRef": {"kind": "ClusterRole", "name": "mine"},
                    "subjects": [{"kind": "User", "name": "u"}],
                }),
            ),
            (
                "clusterrolebindings",
                json!({
                    "metadata": {"name": "broken"},
                    "roleRef": {"kind": "ClusterRole", "name": "lost"},
                    "subjects": [{"kind": "User", "name": "u"}],
                }),
            ),
        ])
    }

    fn check(rules: Json, plural: &str, new: Json, old: Option<Json>) -> Result<(), String> {
        let user = User { name: "u".into(), groups: ["g".to_owned(), "h".to_owned()].into(), ..User::default() };
        let kind = pintle_builtin::kinds().resource(RBAC_GROUP, "v1", plural).expect("a built-in kind").clone();
        let namespace = if kind.is_namespaced() { "n" } else { "" };
        let target = RequestTarget::new(kind, namespace, "a");
        let (authorizer, db) = (Authorizer::default(), cluster(rules));
        let granted = check_grant(authorizer.rules_in(&db), &user, &target, &new, old.as_ref());
        granted.map_err(|failure| failure.status.message)
    }

    fn role(rules: Json) -> Json {
        json!({"metadata": {"name": "a"}, "rules": rules})
    }

    fn binding(name: &str) -> Json {
        json!({"metadata": {"name": "a"}, "roleRef": {"kind": "ClusterRole", "name": name}})
    }

    #[test]
    fn role_must_not_exceed_its_writers_permissions() {
        let pods = |verbs: Json| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
        assert_eq!(check(pods(json!(["get", "list"])), "roles", role(pods(json!(["list"]))), None), Ok(()));
        let refused = check(pods(json!(["get"])), "roles", role(pods(json!(["list", "get", "watch"]))), None);
        assert_eq!(
            refused.unwrap_err(),
            "roles.rbac.authorization.k8s.io \"a\" is forbidden: user \"u\" (groups=[\"g\" \"h\"]) is attempting to grant RBAC \
             permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}; resolution \
             errors: [roles.rbac.authorization.k8s.io \"lost\" not found]"
        );
        let escalate = json!([{"apiGroups": [RBAC_GROUP], "resources": ["roles"], "verbs": ["escalate"]}]);
        assert_eq!(check(escalate.clone(), "roles", role(pods(json!(["*"]))), None), Ok(()));
        assert!(check(escalate, "clusterroles", role(pods(json!(["*"]))), None).is_err());
    }

    #[test]
    fn binding_needs_granted_permissions_or_bind() {
        let secrets = json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["get", "list"]}]);
        assert_eq!(check(secrets, "rolebindings", binding("strong"), None), Ok(()));
        let bind = |name: &str| json!([{"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": [name]}]);
        assert_eq!(check(bind("strong"), "rolebindings", binding("strong"), None), Ok(()));
        assert!(check(bind("other"), "clusterrolebindings", binding("strong"), None).is_err());
        let absent = check(json!([]), "rolebindings", binding("none"), None);
        assert_eq!(absent.unwrap_err(), "rolebindings.rbac.authorization.k8s.io \"none\" not found");
    }

    #[test]
    fn change_of_owners_or_finalizers_needs_no_permissions() {
        let old = role(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x.io/y"]);
        assert_eq!(check(json!([]), "roles", new.clone(), Some(old.clone())), Ok(()));
        new["metadata"]["labels"] = json!({"a": "b"});
        assert!(check(json!([]), "roles", new, Some(old)).is_err());
    }

    #[test]
    fn aggregated_role_needs_all_permissions() {
        let mut aggregated = role(json!([]));
        aggregated["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        let everything = json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]);
        assert_eq!(check(everything, "clusterroles", aggregated.clone(), None), Ok(()));
        let why = check(json!([]), "clusterroles", role(json!([])), Some(aggregated)).unwrap_err();
        assert!(why.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{why}");
    }
}
