//! Tests of programs without a tracing subscriber.

use std::env;
use std::process::{Command, Output};

use pintle_controller::{Controller, ReconcileError};

use crate::recorder::{Recorder, pass, run};
use crate::support::{forbid, informer, sites_named};

const CHILD: &str = "PINTLE_TEST_SILENT_CHILD";

/// Runs one test in a separate process, where the subscribers of other tests have no effect.
fn alone(name: &str) -> Option<Output> {
    if env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", &format!("silence::{name}"), "--nocapture"]).env(CHILD, "1");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

fn assert_prints(output: &Output, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("pintle: ")).collect();
    assert!(lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part)), "{text}");
}

#[test]
fn unsynced_cache_is_printed_once_without_a_subscriber() {
    if let Some(output) = alone("unsynced_cache_is_printed_once_without_a_subscriber") {
        return assert_prints(&output, &["controller \"site\"", "you may not list this", "tracing"]);
    }
    paused(async {
        let sites = sites_named(&["x"]);
        forbid(sites.faults());
        let controller = Controller::of(&informer(&sites)).reconciler(Recorder::new());
        let running = run(&controller).await;
        pass(60.0).await;
        running.stop().await.unwrap();
    });
}

#[test]
fn first_error_is_printed_without_a_subscriber() {
    if let Some(output) = alone("first_error_is_printed_without_a_subscriber") {
        return assert_prints(&output, &["controller \"site\"", "ns/x", "the disk is full"]);
    }
    paused(async {
        let calls = Recorder::new();
        calls.plan("x", |_| Err(ReconcileError::new("the disk is full")));
        let controller = Controller::of(&informer(&sites_named(&["x"]))).reconciler(calls);
        let running = run(&controller).await;
        pass(60.0).await;
        running.stop().await.unwrap();
    });
}

fn paused(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(test);
}
