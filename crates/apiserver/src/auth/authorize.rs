//! What a user may do: members of `system:masters` everything, others what their roles say.

use pintle_meta::{Reason, StatusDetails};

use super::rule_resolver::{self, Decision};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource};
use crate::request::path::ResourcePath;
use crate::request::user::{MASTERS, User};

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
        false => rule_resolver::decide(cluster, user, attributes),
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
