//! The operator's RBAC permissions. A test runs the operator with exactly these permissions.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};

use crate::NAME;

/// Returns the permissions that the operator needs in all namespaces.
pub fn role() -> ClusterRole {
    let mut role = ClusterRole::default();
    role.metadata.name = Some(NAME.to_owned());
    role.rules = Some(vec![
        // `install` needs these permissions to apply the CustomResourceDefinition and to wait until the server serves
        // the resource. Delete this rule if you do not use `install`.
        rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "example.com",
            &["websites"],
            &["get", "list", "watch", "patch"],
        ),
        rule("example.com", &["websites/status"], &["patch"]),
        // This rule is required for `blockOwnerDeletion` in owner references.
        rule("example.com", &["websites/finalizers"], &["update"]),
        rule(
            "",
            &["configmaps"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule("", &["events"], &["create", "patch"]),
    ]);
    role
}

/// Returns the permissions for leader election in the operator's namespace.
pub fn lease_role() -> Role {
    let mut role = Role::default();
    role.metadata.name = Some(NAME.to_owned());
    role.metadata.namespace = Some(NAME.to_owned());
    role.rules = Some(vec![rule(
        "coordination.k8s.io",
        &["leases"],
        &["get", "list", "watch", "create", "update"],
    )]);
    role
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
