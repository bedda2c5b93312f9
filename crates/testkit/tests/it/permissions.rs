//! The least role is sufficient, and each of its permissions is needed.

use pintle_testkit::{Kit, Violation};

use crate::website::{Website, operator, site};

fn kit() -> Kit {
    Kit::new(operator).create(site("blog")).delete::<Website>("blog")
}

#[test]
fn website_runs_with_its_least_role_only() {
    let role = kit().role("website-controller").unwrap();
    let expected = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: website-controller
rules:
";
    let text = role.to_string();
    assert!(text.contains(expected), "{text}");
    kit().restricted(&role).second_run_writes_nothing().unwrap();
    for (verb, resource) in [("patch", "configmaps"), ("patch", "websites/status"), ("watch", "configmaps")] {
        let smaller = role.clone().without(verb, resource);
        assert_ne!(smaller, role, "the role lets the operator {verb} {resource}");
        let quick = kit().limit(std::time::Duration::from_secs(300));
        let result = quick.restricted(&smaller).second_run_writes_nothing();
        assert!(
            matches!(result, Err(Violation::NotSteady { .. }) | Err(Violation::NotInTime { .. })),
            "{verb} {resource}: {result:?}"
        );
    }
}
