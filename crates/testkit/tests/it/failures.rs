//! Tests of operators with failing reconciliations.

use std::env;
use std::io::{self, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_meta::ObjectMeta;
use pintle_operator::{Action, Context, Controller, Manager, ReconcileError, Result};
use pintle_testkit::{Kit, Violation};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::website::{ConfigMap, Website, config_map, operator, site};

/// An environment variable that is set only in the child process of the test.
const CHILD: &str = "PINTLE_TEST_FAILURES_CHILD";

fn manager(cluster: Cluster, controller: Controller<Website>) -> Manager {
    Manager::new("failures", cluster).install::<Website>().controller(controller)
}

/// Applies a ConfigMap twice. The second apply fails, because the controller does not own ConfigMaps.
async fn apply_twice(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    cx.apply_unowned(config_map(&site)).await?;
    cx.apply(config_map(&site)).await?;
    Ok(Action::await_change())
}

fn forgets_owns(cluster: Cluster) -> Manager {
    manager(cluster, Controller::new().reads::<ConfigMap>().reconcile(apply_twice))
}

#[track_caller]
fn fails_with(result: Result<(), Violation>, expected: &str) {
    match result {
        Err(Violation::FailedCalls { what, errors }) => {
            assert!(what == "without a disturbance" && errors[0].contains(expected), "{what} {errors:?}");
        }
        other => panic!("not caught: {other:?}"),
    }
}

#[test]
fn operator_whose_calls_all_fail_is_caught() {
    let kit = || Kit::new(forgets_owns).create(site("blog"));
    let with_deletion = || kit().delete::<Website>("blog");
    for kit in [&kit as &dyn Fn() -> Kit, &with_deletion] {
        let checks = [
            kit().second_run_writes_nothing(),
            kit().stays_silent(Duration::from_secs(60)),
            kit().survives_crashes().map(drop),
            kit().survives_chaos(0..2).map(drop),
            kit().role("failures").map(drop),
        ];
        for check in checks {
            fails_with(check, "operator-1: controller \"website\" fails for default/blog: ");
        }
    }
}

#[test]
fn accepted_failures_do_not_fail_a_check() {
    let publish = |site: Arc<Website>, cx: Context<Website>| async move {
        if site.spec.domain == "bad.example.com" {
            return Err(ReconcileError::terminal("the domain is reserved"));
        }
        cx.apply(config_map(&site)).await?;
        Ok(Action::await_change())
    };
    let kit = || {
        let operator = move |cluster| manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish));
        Kit::new(operator).create(site("blog")).create(site("bad")).delete::<Website>("bad")
    };
    fails_with(kit().second_run_writes_nothing(), "default/bad: the domain is reserved");
    kit().may_fail("default/bad").second_run_writes_nothing().unwrap();
}

#[test]
fn failure_that_ends_with_a_later_step_is_accepted() {
    let publish = |site: Arc<Website>, cx: Context<Website>| async move {
        cx.get::<ConfigMap>("template")?.ok_or("the template is missing")?;
        cx.apply(config_map(&site)).await?;
        Ok(Action::await_change())
    };
    let operator = move |cluster| {
        let all = |_: &ConfigMap| [pintle_meta::ObjectKey::new("default", "blog")];
        manager(cluster, Controller::new().owns::<ConfigMap>().watches(all).reconcile(publish))
    };
    let template = ConfigMap { metadata: ObjectMeta::new("default", "template"), data: [].into() };
    let kit = Kit::new(operator).create(site("blog")).create(template).delete::<Website>("blog");
    kit.second_run_writes_nothing().unwrap();
}

#[test]
fn operator_without_an_effect_shows_why_its_calls_failed() {
    let fails = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { Err::<Action, _>("no zone".into()) };
        manager(cluster, Controller::new().reconcile(publish))
    };
    let kit = || Kit::new(fails).create(site("blog"));
    for kit in [kit(), kit().delete::<Website>("blog")] {
        let Err(Violation::NoEffect { errors, .. }) = kit.survives_crashes() else { panic!("not caught") };
        assert_eq!(errors, ["operator-1: controller \"website\" fails for default/blog: no zone"]);
    }
}

#[test]
fn second_process_whose_calls_fail_is_caught() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let wrong = move |cluster| match counted.fetch_add(1, Ordering::Relaxed) {
        0 => operator(cluster),
        _ => forgets_owns(cluster),
    };
    let kit = Kit::new(wrong).create(site("blog"));
    fails_with(kit.second_run_writes_nothing(), "operator-2: controller \"website\"");
    starts.store(0, Ordering::Relaxed);
    fails_with(kit.role("failures").map(drop), "operator-2: controller \"website\"");
}

#[test]
fn failed_call_of_an_idle_operator_is_caught() {
    let publish = |site: Arc<Website>, cx: Context<Website>| async move {
        if cx.get::<ConfigMap>("blog")?.is_some() {
            return Err(ReconcileError::terminal("the certificate has expired"));
        }
        cx.apply_unowned(config_map(&site)).await?;
        Ok(Action::requeue_after(Duration::from_secs(300)))
    };
    let operator = move |cluster| manager(cluster, Controller::new().reads::<ConfigMap>().reconcile(publish));
    fails_with(Kit::new(operator).create(site("blog")).stays_silent(Duration::from_secs(600)), "expired");
}

#[test]
fn failed_service_of_an_idle_operator_is_caught() {
    let operator = |cluster| {
        let ends = async |_| {
            sleep(Duration::from_secs(300)).await;
            Err("the connection is lost".into())
        };
        operator(cluster).service("upload", ends)
    };
    match Kit::new(operator).create(site("blog")).stays_silent(Duration::from_secs(600)) {
        Err(Violation::Ended { process, cause }) => {
            assert!(process == "operator-1" && cause.contains("the connection is lost"), "{process} {cause}");
        }
        other => panic!("not caught: {other:?}"),
    }
}

#[test]
fn failed_wait_shows_the_error_of_the_reconciler() {
    let ended = Kit::new(forgets_owns).run(async |lab| {
        lab.create(&site("blog")).await?;
        lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
        Ok(())
    });
    let text = ended.unwrap_err().to_string();
    assert!(
        text.contains("\nthe operator reported:\n  operator-1: controller \"website\" fails for default/blog: "),
        "{text}"
    );
    assert!(text.contains(".owns::<ConfigMap>()"), "{text}");
}

/// This test runs the test program again as a child process, because other tests in the program also install log
/// subscribers.
#[test]
fn first_error_is_printed_only_in_undisturbed_runs() {
    if env::var_os(CHILD).is_some() {
        // In the child process, the operator reports errors in runs with injected faults.
        Kit::new(operator).create(site("blog")).survives_chaos(0..4).unwrap();
        writeln!(io::stderr(), "{CHILD}").unwrap();
        Kit::new(forgets_owns).create(site("blog")).second_run_writes_nothing().unwrap_err();
        return;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["failures::first_error_is_printed_only_in_undisturbed_runs", "--exact", "--nocapture"]);
    let output = command.env(CHILD, "1").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let (disturbed, undisturbed) = errors.split_once(CHILD).unwrap();
    assert!(!disturbed.contains("pintle: "), "{errors}");
    assert!(undisturbed.contains("pintle: controller \"website\" fails for default/blog: "), "{errors}");
}

/// A kind whose CustomResourceDefinition is not installed.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Certificate {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Certificate, "example.com/v1", "Certificate", "certificates", Namespaced);

/// A type that does not match the installed definition. The server accepts websites without an owner, but this type
/// requires an owner.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct OwnedWebsite {
    metadata: ObjectMeta,
    owner: String,
}
pintle_meta::resource!(OwnedWebsite, "example.com/v1", "Website", "websites", Namespaced);

#[test]
fn failed_wait_shows_why_no_reconciler_is_called() {
    let missing = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { Ok(Action::await_change()) };
        manager(cluster, Controller::new().reads::<Certificate>().reconcile(publish))
    };
    let undecodable = |cluster| {
        let publish = |_: Arc<OwnedWebsite>, _: Context<OwnedWebsite>| async { Ok(Action::await_change()) };
        Manager::new("failures", cluster)
            .install::<Website>()
            .controller(Controller::<OwnedWebsite>::new().reconcile(publish))
    };
    for (kit, expected) in [
        (Kit::new(missing), "controller \"website\" waits for its source \"Certificate\": "),
        (
            Kit::new(undecodable),
            "cannot decode 1 objects, such as default/blog cannot be decoded: missing field `owner`",
        ),
    ] {
        let ended = kit.run(async |lab| {
            lab.create(&site("blog")).await?;
            lab.until("blog", "is ready", |site: Option<&Website>| site.is_some_and(Website::is_ready)).await?;
            Ok(())
        });
        let text = ended.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}
