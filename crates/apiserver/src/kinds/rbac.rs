//! The RBAC kinds, which are roles and bindings.

mod role;
mod role_binding;

pub(super) use role::Role;
pub(super) use role_binding::RoleBinding;

/// The group of the RBAC kinds.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
