//! Tests of operators that generate values, and of the progress that a check logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_cluster::Cluster;
use pintle_meta::{Conditions, ObjectMeta};
use pintle_operator::{Action, Context, Controller, Manager};
use pintle_testkit::{Kit, Violation};
use serde::{Deserialize, Serialize};

use crate::log::Log;
use crate::website::{ConfigMap, Status, Website, config_map, operator, site};

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Secret {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}
pintle_meta::resource!(Secret, "v1", "Secret", "secrets", Namespaced);

/// Returns a different value in each call. The value is valid base64.
fn generated() -> String {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    format!("{:08}", CALLS.fetch_add(1, Ordering::Relaxed))
}

fn secret(site: &Website) -> Secret {
    let data = [("password".into(), generated()), ("user".into(), "YWRtaW4=".into())].into();
    Secret { metadata: ObjectMeta::new("", &site.metadata.name), data }
}

/// Generates a password and a URL once.
fn generates_once(cluster: Cluster) -> Manager {
    let publish = |site: Arc<Website>, cx: Context<Website>| async move {
        match cx.create(secret(&site)).await {
            Err(error) if error.api_error().is_some_and(|error| error.is_already_exists()) => {}
            created => drop(created?),
        }
        if site.status.is_none() {
            cx.apply_status(Status { url: generated(), conditions: Conditions::default() }).await?;
        }
        Ok(Action::await_change())
    };
    let controller = Controller::new().owns::<Secret>().reconcile(publish);
    Manager::new("website", cluster).install::<Website>().controller(controller)
}

/// Generates a new password in each process.
fn generates_at_each_start(cluster: Cluster) -> Manager {
    let data = secret(&site("blog")).data;
    let publish = move |site: Arc<Website>, cx: Context<Website>| {
        let secret = Secret { data: data.clone(), ..secret(&site) };
        async move {
            cx.apply(secret).await?;
            Ok(Action::await_change())
        }
    };
    let controller = Controller::new().owns::<Secret>().reconcile(publish);
    Manager::new("website", cluster).install::<Website>().controller(controller)
}

#[test]
fn generated_values_are_ignored_between_runs() {
    let kit = || Kit::new(generates_once).create(site("blog"));
    for (kit, field) in [
        (kit().ignore::<Website>("/status/url"), "secrets default/blog.data.password: "),
        (kit().ignore::<Secret>("/data/password"), "custom/websites default/blog.status.url: "),
        // The pointer belongs to another kind.
        (
            kit().ignore::<Website>("/data/password").ignore::<Website>("/status/url"),
            "secrets default/blog.data.password: ",
        ),
    ] {
        let Err(violation @ Violation::NotConverged { .. }) = kit.survives_crashes() else { panic!("not caught") };
        let Violation::NotConverged { differences, .. } = &violation else { unreachable!() };
        assert!(matches!(&differences[..], [difference] if difference.starts_with(field)), "{differences:?}");
        assert!(violation.to_string().contains("`Kit::ignore` accepts"), "{violation}");
    }
    let kit = kit().ignore::<Secret>("/data/password").ignore::<Website>("/status/url");
    kit.survives_crashes().unwrap();
    kit.survives_chaos(0..2).unwrap();
}

#[test]
fn ignored_field_must_not_change_in_a_second_run() {
    let kit = Kit::new(generates_at_each_start).create(site("blog")).ignore::<Secret>("/data/password");
    let checked = kit.second_run_writes_nothing();
    let Err(Violation::Wrote { requests, .. }) = &checked else { panic!("{checked:?}") };
    assert!(requests[0].changes[0].starts_with(".data.password: "), "{requests:?}");
}

#[test]
#[should_panic(expected = "\"data\" is no JSON pointer to a field")]
fn ignored_field_without_a_slash_is_refused() {
    let _ = Kit::new(operator).ignore::<ConfigMap>("data");
}

#[test]
fn check_logs_the_progress_of_its_runs() {
    let (log, _here) = Log::here();
    let publish = async |site: Arc<Website>, cx: Context<Website>| {
        cx.apply(config_map(&site)).await?;
        Ok(Action::await_change())
    };
    let operator = move |cluster| {
        let controller = Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish);
        Manager::new("website", cluster).install::<Website>().controller(controller)
    };
    let report = Kit::new(operator).create(site("blog")).survives_crashes().unwrap();
    let runs = format!("runs={}", report.runs);
    log.assert_tells(&["INFO", "starting the runs", "survives_crashes", &runs]);
    assert_eq!(log.count("finished runs"), report.runs / 20);
    log.assert_tells(&["INFO", "finished runs", "survives_crashes", "done=20", &runs]);
}
