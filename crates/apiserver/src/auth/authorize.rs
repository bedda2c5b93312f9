//! What a user may do. Members of `system:masters` may do everything; others only what everybody may on a cluster with RBAC
//! and no bindings beyond the default ones.

use super::{AUTHENTICATED, MASTERS, User};
use crate::failure::Failure;
use crate::kinds::GroupResource;
use crate::request::path::ResourcePath;
use pintle_meta::{Reason, StatusDetails};

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

impl Attributes<'_> {
    /// Whether the user may.
    pub(crate) fn allowed(&self, user: &User) -> bool {
        if user.is_in(MASTERS) {
            return true;
        }
        match self {
            Self::Path { verb, path } => {
                let read = *verb == "get";
                let public = matches!(*path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/");
                let discovery = ["/api", "/apis", "/openapi"];
                let below =
                    |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                read && (public || (user.is_in(AUTHENTICATED) && discovery.iter().any(|root| below(root))))
            }
            Self::Resource { verb, path, .. } => {
                let reviews = match path.group.as_str() {
                    "authorization.k8s.io" => &["selfsubjectaccessreviews", "selfsubjectrulesreviews"][..],
                    "authentication.k8s.io" => &["selfsubjectreviews"],
                    _ => &[],
                };
                *verb == "create" && user.is_in(AUTHENTICATED) && reviews.contains(&path.resource.as_str())
            }
        }
    }
}

/// The answer to a user who may not.
pub(crate) fn forbidden(user: &User, attributes: &Attributes<'_>) -> Failure {
    match attributes {
        Attributes::Path { verb, path } => {
            let message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
            Failure::new(403, Reason::Forbidden, message).with(StatusDetails::default())
        }
        Attributes::Resource { verb, path, name } => {
            let scope = match path.namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let why = format!(
                "User {:?} cannot {verb} resource {:?} in API group {:?} {scope}",
                user.name,
                path.full_resource(),
                path.group
            );
            Failure::forbidden(&GroupResource::new(&path.group, &path.resource), name, &why)
        }
    }
}
