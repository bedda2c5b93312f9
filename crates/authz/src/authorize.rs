//! Authorizes requests with RBAC rules. Members of `system:masters` have all permissions.

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::user::{MASTERS, User};
use pintle_meta::{GroupResource, Reason, StatusDetails};

use super::attributes::Attributes;
use super::authorizer::{Grant, Granted, Rbac};

/// The decision whether a request is allowed. `Decision` does not implement `PartialEq`, so that a caller must match on
/// [`Allowed`](Self::Allowed) to permit a request.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The request is allowed, for this reason.
    Allowed(String),
    /// No rule allows the request. If the user is bound to a missing role, the variant contains an error.
    NoOpinion(Option<String>),
}

/// Decides whether `user` may send the request.
pub fn decide(rbac: Rbac<'_>, user: &User, attributes: &Attributes<'_>) -> Decision {
    if user.is_in(MASTERS) {
        return Decision::Allowed(String::new());
    }
    let namespace = match attributes {
        Attributes::Resource { path, .. } => path.namespace.as_str(),
        Attributes::Path { .. } => "",
    };
    let granted = rbac.granted(user, namespace);
    let covers = |grant: &&Grant| grant.role.rules.iter().any(|rule| rule.covers(attributes));
    match granted.grants.iter().find(covers) {
        Some(grant) => Decision::Allowed(grant.reason()),
        None => Decision::NoOpinion(granted.resolution_error()),
    }
}

/// Returns a 403 error if `user` is not allowed to send the request.
pub fn authorize(rbac: Rbac<'_>, user: &User, attributes: &Attributes<'_>) -> Outcome<()> {
    match decide(rbac, user, attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::NoOpinion(error) => Err(forbidden(user, attributes, error)),
    }
}

/// Returns all rules that apply to `user` in a namespace.
pub fn rules(rbac: Rbac<'_>, user: &User, namespace: &str) -> Granted {
    rbac.granted(user, namespace)
}

pub(crate) fn forbidden(user: &User, attributes: &Attributes<'_>, error: Option<String>) -> Failure {
    let error = error.map_or_else(String::new, |error| format!(": {error}"));
    match attributes {
        Attributes::Path { verb, path } => {
            let message = format!("forbidden: User {:?} cannot {verb} path {path:?}{error}", user.name);
            Failure::new(403, Reason::Forbidden, message).with(StatusDetails::default())
        }
        Attributes::Resource { verb, path, name } => {
            let scope = match path.namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let why = format!(
                "User {:?} cannot {verb} resource {:?} in API group {:?} {scope}{error}",
                user.name,
                path.full_resource(),
                path.group
            );
            Failure::forbidden(&GroupResource::new(&path.group, &path.resource), name, &why)
        }
    }
}
