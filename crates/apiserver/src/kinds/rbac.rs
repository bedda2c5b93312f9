//! Roles and their bindings.

mod role;
mod role_binding;

pub(super) use role::Role;
pub(super) use role_binding::RoleBinding;

/// That of roles and bindings.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
