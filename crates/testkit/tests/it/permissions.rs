//! Tests that the least role is sufficient, and that each of its permissions is needed.

use pintle_testkit::{Kit, LeastRole, Violation};

use crate::website::{Website, operator, site};

fn kit() -> Kit {
    Kit::new(operator).create(site("blog")).delete::<Website>("blog")
}

/// Publishes a site with only the permissions of this role.
fn publish(role: &LeastRole) -> Result<(), Violation> {
    Kit::new(operator).restricted(role).run(async |lab| {
        lab.create(&site("blog")).await?;
        let is_ready = |site: Option<&Website>| site.is_some_and(Website::is_ready);
        lab.until("blog", "is ready", is_ready).await?;
        lab.delete::<Website>("blog").await?;
        lab.until("blog", "is deleted", |site: Option<&Website>| site.is_none()).await?;
        Ok(())
    })
}

#[test]
fn website_runs_with_its_least_role_only() {
    let role = kit().role("website-controller").unwrap();
    kit().restricted(&role).second_run_writes_nothing().unwrap();
    publish(&role).unwrap();
    for (verb, resource) in [
        ("create", "customresourcedefinitions"),
        ("create", "configmaps"),
        ("patch", "configmaps"),
        ("list", "configmaps"),
        ("patch", "websites/status"),
        ("patch", "websites"),
        ("create", "leases"),
        ("update", "leases"),
    ] {
        let smaller = role.clone().without(verb, resource);
        assert_ne!(smaller, role, "the role allows {verb} of {resource}");
        // The Lease is renewed after 2 s. The site is published before this renewal.
        let is_needed = (verb, resource) != ("update", "leases");
        assert_eq!(publish(&smaller).is_err(), is_needed, "{verb} of {resource}");
    }
}

#[test]
fn role_prints_rules_by_group_and_scope() {
    let role = kit().role("website-controller").unwrap().to_string();
    let expected = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: website-controller
  namespace: default
rules:
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
  - get
  - update
  - watch
---
";
    assert!(role.contains(expected), "{role}");
    for (resources, verbs) in [
        ("  - ''\n  resources:\n  - configmaps\n", "  verbs:\n  - create\n  - list\n  - patch\n  - watch\n"),
        ("  - example.com\n  resources:\n  - websites/status\n", "  verbs:\n  - patch\n"),
        (
            "  - apiextensions.k8s.io\n  resources:\n  - customresourcedefinitions\n",
            "  verbs:\n  - create\n  - list\n  - patch\n  - watch\n",
        ),
    ] {
        assert!(role.contains(&format!("- apiGroups:\n{resources}{verbs}")), "{role}");
    }
}
