//! What a user may do: members of `system:masters` everything, others what their roles say.

use pintle_meta::{Reason, StatusDetails};

use super::rbac::{self, Decision};
use super::{MASTERS, User};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource};
use crate::request::path::ResourcePath;

/// What a request does, as rules see it.
#[derive(Clone, Debug)]
pub(crate) enum Attributes<'a> {
    /// Something to a resource.
    Resource {
        verb: &'a str,
        path: &'a ResourcePath,
        /// The object; empty for collections. A list that selects one name is about that object.
        name: &'a str,
    },
    /// Something else, such as health or discovery.
    Path { verb: &'a str, path: &'a str },
}

/// Decides whether the user may.
pub(crate) fn decide(cluster: &dyn Cluster, user: &User, attributes: &Attributes<'_>) -> Decision {
    match user.is_in(MASTERS) {
        true => Decision::Allowed(String::new()),
        false => rbac::decide(cluster, user, attributes),
    }
}

/// Fails if the user may not.
pub(crate) fn authorize(cluster: &dyn Cluster, user: &User, attributes: &Attributes<'_>) -> Outcome<()> {
    match decide(cluster, user, attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::NoOpinion(wrong) => Err(forbidden(user, attributes, wrong)),
    }
}

/// The answer to a user who may not.
pub(crate) fn forbidden(user: &User, attributes: &Attributes<'_>, wrong: Option<String>) -> Failure {
    let wrong = wrong.map_or_else(String::new, |wrong| format!(": {wrong}"));
    match attributes {
        Attributes::Path { verb, path } => {
            let message = format!("forbidden: User {:?} cannot {verb} path {path:?}{wrong}", user.name);
            Failure::new(403, Reason::Forbidden, message).with(StatusDetails::default())
        }
        Attributes::Resource { verb, path, name } => {
            let scope = match path.namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let why = format!(
                "User {:?} cannot {verb} resource {:?} in API group {:?} {scope}{wrong}",
                user.name,
                path.full_resource(),
                path.group
            );
            Failure::forbidden(&GroupResource::new(&path.group, &path.resource), name, &why)
        }
    }
}

/// Fails if the user may not act as `target`. One who has a right to impersonate anybody at all is told which part is refused;
/// others are told that they may not do this on somebody's behalf.
pub(crate) fn authorize_impersonation(
    cluster: &dyn Cluster,
    user: &User,
    target: &User,
    attributes: &Attributes<'_>,
) -> Outcome<()> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let mut parts: Vec<(&str, &str, &str)> = Vec::new();
    match target.name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => parts.push(("serviceaccounts", namespace, name)),
        None => parts.push(("users", "", &target.name)),
    }
    let implied =
        |group: &str| group.starts_with("system:authenticated") || group.starts_with("system:serviceaccounts");
    parts.extend(target.groups.iter().filter(|group| !implied(group)).map(|group| ("groups", "", group.as_str())));
    for (resource, namespace, name) in parts {
        let path = ResourcePath {
            version: "v1".into(),
            namespace: namespace.into(),
            resource: resource.into(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let part = Attributes::Resource { verb: "impersonate", path: &path, name };
        if decide(cluster, user, &part) == Decision::NoOpinion(None) {
            let (grants, _) = rbac::grants(cluster, user, "");
            let may_at_all = grants.iter().any(|grant| {
                grant.rule["verbs"].as_array().into_iter().flatten().any(|verb| verb == "impersonate" || verb == "*")
            });
            return Err(if may_at_all { forbidden(user, &part, None) } else { on_behalf(user, attributes) });
        }
    }
    Ok(())
}

fn on_behalf(user: &User, attributes: &Attributes<'_>) -> Failure {
    let constrained = |verb: &str| format!("impersonate-on:user-info:{verb}");
    match attributes {
        Attributes::Resource { verb, path, name } => {
            forbidden(user, &Attributes::Resource { verb: &constrained(verb), path, name }, None)
        }
        Attributes::Path { verb, path } => forbidden(user, &Attributes::Path { verb: &constrained(verb), path }, None),
    }
}
