//! The RBAC kinds: roles and bindings.

mod role;
mod role_binding;

pub(super) use role::Role;
pub(super) use role_binding::RoleBinding;
