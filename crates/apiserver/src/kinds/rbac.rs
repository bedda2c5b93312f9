//! Roles and their bindings.

mod role;
mod role_binding;

pub(super) use role::Role;
pub(super) use role_binding::RoleBinding;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
