//! The rights that the operator needs. A test runs the operator with only these rights.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};

use crate::NAME;

/// Returns the rights that the operator needs in all namespaces.
pub fn role() -> ClusterRole {
    let mut role = ClusterRole::default();
    role.metadata.name = Some(NAME.to_owned());
    role.rules = Some(vec![
        // `install` applies the definition and waits until the server serves the resource. If you do not use `install`,
        // delete this rule.
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
        // This right is needed to set an owner reference that blocks the deletion of the owner.
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

/// Returns the rights that the operator needs in its own namespace, for the leader election.
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
