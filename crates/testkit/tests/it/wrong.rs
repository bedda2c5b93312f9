//! Tests that each check rejects an operator with a bug and accepts the same operator without the bug.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_events::EventType;
use pintle_meta::{ObjectKey, ObjectMeta, Patch, WriteOptions};
use pintle_operator::{Action, Cleanup, Context, Controller, Manager, Result};
use pintle_testkit::{Kit, Lab, SentRequest, Violation};

use crate::website::{ConfigMap, Website, config_map, operator, site};

const SECOND: Duration = Duration::from_secs(1);

fn manager(cluster: Cluster, controller: Controller<Website>) -> Manager {
    Manager::new("wrong", cluster).install::<Website>().controller(controller)
}

/// Writes the number of the process to the ConfigMap, so that each new process changes the ConfigMap.
fn counts_its_starts(cluster: Cluster, starts: &AtomicUsize) -> Manager {
    let start = starts.fetch_add(1, Ordering::Relaxed);
    let publish = move |site: Arc<Website>, cx: Context<Website>| async move {
        let data = BTreeMap::from([("start".to_owned(), start.to_string())]);
        cx.apply(ConfigMap { data, ..config_map(&site) }).await?;
        Ok(Action::await_change())
    };
    manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish))
}

#[test]
fn write_of_a_second_run_is_caught() {
    let starts = AtomicUsize::new(7);
    let kit = Kit::new(move |cluster| counts_its_starts(cluster, &starts)).create(site("blog"));
    let Err(Violation::Wrote { what, requests }) = kit.second_run_writes_nothing() else { panic!("not caught") };
    assert!(what.starts_with("operator-2 changed objects"), "{what}");
    let [SentRequest { resource, changes, .. }] = &*requests else { panic!("{requests:?}") };
    assert_eq!((resource.as_str(), &changes[..]), ("configmaps", &[r#".data.start: "7" -> "8""#.to_owned()][..]));
}

/// Sends a patch each minute that does not change the object.
async fn patches_each_minute(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    let maps = cx.cluster().namespaced::<ConfigMap>("default");
    cx.apply(config_map(&site)).await?;
    maps.patch("blog", &Patch::Merge(serde_json::json!({"data": {"a": "b"}})), &WriteOptions::default()).await?;
    Ok(Action::requeue_after(60 * SECOND))
}

#[test]
fn write_of_an_idle_operator_is_caught() {
    let wrong = |cluster| manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(patches_each_minute));
    let kit = Kit::new(wrong).create(site("blog"));
    let Err(Violation::Wrote { requests, .. }) = kit.stays_silent(600 * SECOND) else { panic!("not caught") };
    assert!(requests.len() >= 9 && requests.iter().all(|request| request.changes.is_empty()), "{requests:?}");
}

/// Changes a ConfigMap each second. If `is_watching` is `true`, the operator watches the ConfigMap, so each change
/// immediately causes the next one.
fn never_ends(cluster: Cluster, is_watching: bool) -> Manager {
    let count = AtomicUsize::new(0);
    let publish = move |_: Arc<Website>, cx: Context<Website>| {
        let data = BTreeMap::from([("count".to_owned(), count.fetch_add(1, Ordering::Relaxed).to_string())]);
        async move {
            cx.apply_unowned(ConfigMap { metadata: ObjectMeta::new("default", "blog"), data }).await?;
            Ok(Action::requeue_after(SECOND))
        }
    };
    let blog = |_: &ConfigMap| [ObjectKey::new("default", "blog")];
    let controller = if is_watching { Controller::new().watches(blog) } else { Controller::new().reads::<ConfigMap>() };
    manager(cluster, controller.reconcile(publish))
}

#[test]
fn operator_without_an_effect_is_caught() {
    let fails = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { Err::<Action, _>("no zone".into()) };
        manager(cluster, Controller::new().reconcile(publish))
    };
    let kit = Kit::new(fails).create(site("blog"));
    let second_run = kit.second_run_writes_nothing();
    for caught in [kit.survives_crashes().map(drop), kit.survives_chaos(0..3).map(drop), second_run] {
        assert!(matches!(caught, Err(Violation::NoEffect { .. })), "{caught:?}");
    }
    Kit::new(fails).survives_crashes().expect("without steps, only the start is tested");
}

#[test]
fn failing_operator_with_finalizer_has_no_effect() {
    let fails = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { Err::<Action, _>("no zone".into()) };
        let retire = |_: Arc<Website>, _: Context<Website>| async { Ok(Cleanup::Done) };
        manager(cluster, Controller::new().cleanup("example.com/dns", retire).reconcile(publish))
    };
    let caught = Kit::new(fails).create(site("blog")).survives_crashes();
    assert!(matches!(caught, Err(Violation::NoEffect { .. })), "{caught:?}");
}

type Zone = Arc<Mutex<BTreeMap<String, String>>>;

fn keeps_a_zone(cluster: Cluster, zone: Zone) -> Manager {
    let other = zone.clone();
    let publish = move |site: Arc<Website>, cx: Context<Website>| {
        zone.lock().unwrap().insert(cx.key().to_string(), site.spec.domain.clone());
        async { Ok(Action::await_change()) }
    };
    let gone = move |key: ObjectKey, _: Context<Website>| {
        other.lock().unwrap().remove(&key.to_string());
        async { Ok(()) }
    };
    manager(cluster, Controller::new().gone(gone).reconcile(publish))
}

#[test]
fn world_that_changed_and_changed_back_is_an_effect() {
    let kit = Kit::with_world(keeps_a_zone).create(site("blog")).delete::<Website>("blog");
    kit.second_run_writes_nothing().unwrap();
}

#[test]
fn events_are_an_effect() {
    let warns = |cluster| {
        let publish = |_: Arc<Website>, cx: Context<Website>| async move {
            cx.event(EventType::Warning, "BadDomain", "the domain is reserved");
            Ok(Action::await_change())
        };
        manager(cluster, Controller::new().reconcile(publish))
    };
    Kit::new(warns).create(site("blog")).second_run_writes_nothing().unwrap();
}

#[test]
fn rule_without_a_failed_request_is_caught() {
    let kit = Kit::new(operator);
    let test = async |lab: &Lab| {
        lab.fail("patch configmaps", 503, 1);
        lab.fail("patch secrets", 503, 1);
        lab.create(&site("blog")).await?;
        lab.until::<ConfigMap>("blog", "it is published", |found| found.is_some()).await
    };
    let Err(Violation::UnusedRule { rule, requests, .. }) = kit.run(test) else { panic!("not caught") };
    assert!(rule == "patch secrets: 503" && !requests.is_empty(), "{rule} {requests:?}");
}

#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn endless_work_is_caught() {
    for (is_watching, expected) in [(false, "it still writes after 90 s"), (true, "it sends requests in a loop, 20")] {
        let kit = Kit::new(move |cluster| never_ends(cluster, is_watching)).create(site("blog")).limit(90 * SECOND);
        let Err(Violation::NotSteady { what, requests, .. }) = kit.survives_crashes() else { panic!("not caught") };
        assert!(what.starts_with(expected) && requests.len() > 10, "{what}");
    }
}

/// The first process of the test, which belongs to the undisturbed run, sends additional reads.
fn reads_in_the_first_process(cluster: Cluster, starts: &AtomicUsize) -> Manager {
    let reads = if starts.fetch_add(1, Ordering::Relaxed) == 0 { 10 } else { 0 };
    let publish = move |site: Arc<Website>, cx: Context<Website>| async move {
        cx.apply(config_map(&site)).await?;
        for _ in 0..reads {
            cx.get_live::<ConfigMap>("x").await?;
        }
        Ok(Action::await_change())
    };
    manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish))
}

#[test]
fn crash_that_never_happens_is_caught() {
    let starts = AtomicUsize::new(0);
    let kit = Kit::new(move |cluster| reads_in_the_first_process(cluster, &starts)).create(site("blog"));
    let Err(Violation::NoCrash { what, runs, .. }) = kit.survives_crashes() else { panic!("not caught") };
    assert!(what.contains("get configmaps default/x") && runs == 8, "{what}");
}

#[test]
fn loop_without_requests_is_caught() {
    let spins = |cluster| {
        let publish = |site: Arc<Website>, cx: Context<Website>| async move {
            cx.apply(config_map(&site)).await?;
            while cx.failures() == 0 {
                tokio::task::yield_now().await;
            }
            Ok(Action::await_change())
        };
        manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish))
    };
    let kit = Kit::new(spins).create(site("blog")).stall_limit(SECOND);
    let chaos = kit.survives_chaos(0..1).map(drop);
    for caught in [kit.second_run_writes_nothing(), kit.survives_crashes().map(drop), chaos] {
        let Err(Violation::NotSteady { what, .. }) = caught else { panic!("not caught: {caught:?}") };
        assert!(what.contains("did not advance for 1 s of real time, and operator-1 was running"), "{what}");
    }
}

/// Runs a service that writes on each replica, even if the replica is not the leader.
fn writes_before_it_leads(cluster: Cluster) -> Manager {
    let maps = cluster.namespaced::<ConfigMap>("default");
    operator(cluster).service("rogue", move |_| async move {
        let map = ConfigMap { metadata: ObjectMeta::new("default", "rogue"), data: BTreeMap::new() };
        match maps.create(&map, &WriteOptions::default()).await {
            Err(error) if !error.is_already_exists() => Err(error.into()),
            _ => Ok(()),
        }
    })
}

#[test]
fn write_without_leading_is_caught() {
    let kit = Kit::new(writes_before_it_leads).create(site("blog"));
    match kit.survives_reordering(0..4) {
        Err(Violation::TwoLeaders { writes, .. }) => {
            assert!(writes[0].contains(" sent create configmaps "), "{writes:?}");
        }
        other => panic!("not caught: {other:?}"),
    }
}

fn leaks_tasks(cluster: Cluster) -> Manager {
    (0..100).for_each(|_| drop(tokio::spawn(pending::<()>())));
    operator(cluster)
}

#[test]
fn tasks_of_dead_processes_are_caught() {
    let kit = Kit::new(leaks_tasks).create(site("blog")).delete::<Website>("blog");
    match kit.survives_chaos(0..8) {
        Err(Violation::Leak { found, expected, .. }) => assert!(found > expected, "{found} {expected}"),
        other => panic!("not caught: {other:?}"),
    }
}

#[test]
fn panic_of_the_operator_is_reported() {
    let starts = AtomicUsize::new(0);
    let wrong = move |cluster| match starts.fetch_add(1, Ordering::Relaxed) {
        0 => operator(cluster),
        _ => panic!("no second process"),
    };
    let kit = Kit::new(wrong).create(site("blog"));
    match kit.second_run_writes_nothing() {
        Err(Violation::Ended { process, cause }) => {
            assert_eq!((process.as_str(), cause.as_str()), ("operator-2", "it panicked: no second process"));
        }
        other => panic!("not caught: {other:?}"),
    }
}

#[test]
fn wait_fails_with_the_error_of_the_operator() {
    let kit = Kit::new(|_| -> Manager { panic!("no start") });
    let created = kit.run(async |lab| lab.create(&site("blog")).await.map(drop));
    let observed =
        kit.run(async |lab| lab.until("blog", "exists", |map: Option<&ConfigMap>| map.is_some()).await.map(drop));
    for outcome in [created, observed] {
        let Err(Violation::Ended { process, cause }) = outcome else { panic!("not reported: {outcome:?}") };
        assert_eq!((process.as_str(), cause.as_str()), ("operator-1", "it panicked: no start"));
    }
}

/// Creates a kit that calls `operator` with `true` for the first process, which belongs to the undisturbed run.
fn differs_after_the_first_process(operator: impl Fn(Cluster, bool) -> Manager + Send + Sync + 'static) -> Kit {
    let starts = AtomicUsize::new(0);
    Kit::new(move |cluster| operator(cluster, starts.fetch_add(1, Ordering::Relaxed) == 0)).create(site("blog"))
}

/// In each process except the first, reconciliations fail after they have written all objects.
#[test]
fn call_that_fails_after_a_crash_is_caught() {
    let wrong = |cluster, is_first| {
        let publish = move |site: Arc<Website>, cx: Context<Website>| async move {
            cx.apply(config_map(&site)).await?;
            if is_first { Ok(Action::await_change()) } else { Err("the state is inconsistent".into()) }
        };
        manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish))
    };
    let kit = || differs_after_the_first_process(wrong);
    for (caught, disturbance) in [
        (kit().survives_crashes().map(drop), "killed before the effect of "),
        (kit().survives_reordering(7..8).map(drop), "Order seed 7 "),
    ] {
        let violation = caught.unwrap_err();
        let text = violation.to_string();
        assert!(matches!(violation, Violation::FailedCalls { .. }) && text.starts_with(disturbance), "{text}");
        assert!(text.contains("the state is inconsistent") && !text.contains("nothing disturbs"), "{text}");
    }
}

/// In each process except the first, reconciliations fail at first. In these processes, a retry after 164 s writes
/// wrong data.
#[test]
fn late_retry_that_writes_wrong_data_is_caught() {
    let wrong = |cluster, is_first| {
        let is_wrong = Arc::new(AtomicBool::new(false));
        let publish = move |site: Arc<Website>, cx: Context<Website>| {
            is_wrong.fetch_or(cx.failures() == 15, Ordering::Relaxed);
            let is_wrong = is_wrong.load(Ordering::Relaxed);
            let data = if is_wrong { BTreeMap::new() } else { config_map(&site).data };
            async move {
                cx.apply(ConfigMap { data, ..config_map(&site) }).await?;
                if is_first || is_wrong { Ok(Action::await_change()) } else { Err("the zone is locked".into()) }
            }
        };
        manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish))
    };
    let kit = || differs_after_the_first_process(wrong);
    for caught in [kit().survives_crashes().map(drop), kit().survives_reordering(0..1).map(drop)] {
        let Err(Violation::NotConverged { differences, .. }) = caught else { panic!("not caught: {caught:?}") };
        assert!(differences[0].starts_with("configmaps default/blog.data"), "{differences:?}");
    }
}

#[test]
fn step_that_never_ends_fails_the_check() {
    let kit = Kit::new(operator).step("never", async |_| {
        pending::<()>().await;
        Ok::<(), Violation>(())
    });
    let Err(Violation::NotInTime { what, within, observed, .. }) = kit.survives_crashes() else { panic!("not caught") };
    assert!(what.contains("never") && within == 120 * SECOND, "{what} {within:?}");
    assert_eq!(observed, "it has not ended yet");
}

#[test]
fn parallel_processes_do_not_use_the_same_port() {
    let serves = |cluster| operator(cluster).serve(([127, 0, 0, 1], 1));
    let kit = Kit::new(serves).create(site("blog"));
    kit.second_run_writes_nothing().unwrap();
}

#[test]
fn rule_that_fired_and_was_cleared_is_used() {
    let test = async |lab: &Lab| {
        lab.fail("patch configmaps", 503, 3_000);
        lab.create(&site("blog")).await?;
        tokio::time::sleep(10 * SECOND).await;
        lab.faults().clear();
        lab.until::<ConfigMap>("blog", "it is published", |found| found.is_some()).await.map(drop)
    };
    Kit::new(operator).run(test).unwrap();
}

#[test]
fn fail_panics_for_a_status_that_is_no_failure() {
    for status in [0, 99, 200, 399, 600, 1_000] {
        let test = async |lab: &Lab| {
            lab.fail("patch configmaps", status, 1);
            Ok(())
        };
        let panic = std::panic::catch_unwind(|| Kit::new(operator).run(test)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("use a status from 400 to 599"), "{message}");
    }
}

#[test]
fn reconciler_that_always_panics_is_reported() {
    let fails = |cluster| {
        let publish = |_: Arc<Website>, _: Context<Website>| async { panic!("bug") };
        manager(cluster, Controller::new().owns::<ConfigMap>().reconcile(publish))
    };
    assert!(Kit::new(fails).create(site("blog")).survives_crashes().is_err());
}
