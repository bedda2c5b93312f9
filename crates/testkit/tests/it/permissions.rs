//! Tests that the minimal role is sufficient, and that each of its permissions is required.

use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_events::EventType;
use pintle_meta::{ObjectMeta, Patch, WriteOptions};
use pintle_operator::{Action, Cleanup, Context, Controller, Manager};
use pintle_testkit::{Kit, LeastRole, SentRequest, Violation};

use crate::website::{ConfigMap, Status, Website, config_map, operator, site};

fn kit() -> Kit {
    Kit::new(operator).create(site("blog")).delete::<Website>("blog")
}

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
        // The site is published before the Lease is first renewed, which happens after 2 s. Therefore, the permission
        // to update Leases is not required in this test.
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
        ("  - example.com\n  resources:\n  - websites/finalizers\n", "  verbs:\n  - update\n"),
        (
            "  - apiextensions.k8s.io\n  resources:\n  - customresourcedefinitions\n",
            "  verbs:\n  - create\n  - get\n  - list\n  - patch\n  - watch\n",
        ),
    ] {
        assert!(role.contains(&format!("- apiGroups:\n{resources}{verbs}")), "{role}");
    }
}

#[test]
fn role_covers_changed_owner_references() {
    let adopts = |cluster| {
        let publish = |site: Arc<Website>, cx: Context<Website>| async move {
            cx.apply(config_map(&site)).await?;
            Ok(Action::await_change())
        };
        let controller = Controller::new().namespace("default").owns::<ConfigMap>().reconcile(publish);
        Manager::new("website", cluster).install::<Website>().controller(controller)
    };
    let map = ConfigMap { metadata: ObjectMeta::new("default", "blog"), data: [].into() };
    let role = Kit::new(adopts).create(map).create(site("blog")).role("website").unwrap();
    assert_ne!(role.clone().without("delete", "configmaps"), role);
    let role = role.to_string();
    let finalizers = "  - example.com\n  resources:\n  - websites/finalizers\n  verbs:\n  - update\n";
    let roles: Vec<&str> = role.split("---\n").filter(|document| document.contains(finalizers)).collect();
    assert!(matches!(&roles[..], [role] if role.contains("\nkind: Role\n")), "{role}");
}

/// Records the same Event at each reconciliation.
fn records_events(cluster: Cluster) -> Manager {
    let publish = |site: Arc<Website>, cx: Context<Website>| async move {
        cx.apply(config_map(&site)).await?;
        cx.event(EventType::Normal, "Seen", "it exists");
        Ok(Action::await_change())
    };
    let controller = Controller::new().owns::<ConfigMap>().reconcile(publish);
    Manager::new("website", cluster).install::<Website>().controller(controller)
}

/// Changes the site, so that the operator reconciles the site again.
fn change(kit: Kit, replicas: u32) -> Kit {
    kit.step(format!("{replicas} replicas"), async move |user: Cluster| {
        let patch = Patch::Merge(serde_json::json!({"spec": {"replicas": replicas}}));
        user.namespaced::<Website>("default").patch("blog", &patch, &WriteOptions::default()).await.map(drop)
    })
}

#[test]
fn role_allows_repeated_events() {
    let once = Kit::new(records_events).create(site("blog"));
    let role = once.role("website").unwrap();
    assert_ne!(role.clone().without("patch", "events"), role, "{role}");
    let repeated = || change(change(Kit::new(records_events).create(site("blog")), 2), 3);
    repeated().restricted(&role).second_run_writes_nothing().unwrap();
    let smaller = role.without("patch", "events");
    let kit = || repeated().restricted(&smaller);
    let run = kit().run(async |lab| {
        lab.create(&site("blog")).await?;
        lab.steady().await?;
        lab.stop("operator-1").await?;
        lab.start()?;
        lab.steady().await
    });
    let silent = kit().stays_silent(Duration::from_secs(60));
    let checks = [kit().second_run_writes_nothing(), silent, run, kit().survives_chaos(0..2).map(drop)];
    for check in checks {
        let Err(Violation::Forbidden { requests, .. }) = &check else { panic!("{check:?}") };
        assert!(matches!(&requests[..], [request] if request.resource == "events"), "{requests:?}");
        let text = check.unwrap_err().to_string();
        assert!(text.contains("the role of website does not allow") && text.contains(": patch events "), "{text}");
    }
    kit().may_lack("patch", "events").second_run_writes_nothing().unwrap();
}

#[test]
fn injected_403_is_no_missing_permission() {
    let role = kit().role("website-controller").unwrap();
    let run = Kit::new(operator).restricted(&role).run(async |lab| {
        lab.fail("patch configmaps", 403, 1);
        lab.create(&site("blog")).await?;
        lab.steady().await
    });
    run.unwrap();
}

#[test]
fn role_of_an_operator_without_effect_is_refused() {
    let fails = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { Err::<Action, _>("no zone".into()) };
        let controller = Controller::new().owns::<ConfigMap>().reconcile(publish);
        Manager::new("website", cluster).install::<Website>().controller(controller)
    };
    let role = Kit::new(fails).create(site("blog")).role("website");
    assert!(matches!(role, Err(Violation::NoEffect { .. })), "{role:?}");
}

#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn role_of_a_namespaced_operator_is_sufficient() {
    let restricted = |cluster| {
        let publish = |site: Arc<Website>, cx: Context<Website>| async move {
            cx.apply(config_map(&site)).await?;
            cx.event(EventType::Normal, "Seen", "it exists");
            cx.apply_status(Status { url: "x".into(), conditions: cx.ready("Published") }).await?;
            Ok(Action::await_change())
        };
        let retire = |_: Arc<Website>, _: Context<Website>| async { Ok(Cleanup::Done) };
        let controller = Controller::new().namespace("default").owns::<ConfigMap>().cleanup("example.com/dns", retire);
        let manager = Manager::new("website", cluster).install::<Website>().leader_election();
        manager.controller(controller.reconcile(publish))
    };
    let kit = || Kit::new(restricted).create(site("blog")).delete::<Website>("blog");
    let role = kit().role("website").unwrap();
    kit().restricted(&role).second_run_writes_nothing().unwrap();
    kit().restricted(&role).survives_crashes().unwrap();
    kit().restricted(&role).survives_chaos(0..2).unwrap();
}

#[test]
fn custom_resource_named_leases_needs_a_cluster_role() {
    let request = |group: &str, namespace: &str| {
        let mut request = SentRequest::default();
        request.verb = Some("list".parse().unwrap());
        request.group = group.into();
        request.resource = "leases".into();
        request.namespace = namespace.into();
        request
    };
    let requests = [request("dhcp.example.com", ""), request("dhcp.example.com", "a")];
    let role = LeastRole::of("dhcp", &requests).to_string();
    assert!(role.contains("kind: ClusterRole\n") && !role.contains("kind: Role\n"), "{role}");
}
