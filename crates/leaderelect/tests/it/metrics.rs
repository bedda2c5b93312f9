//! Tests of an elector's metrics and of their removal.

use std::sync::Arc;
use std::time::Duration;

use pintle_leaderelect::{
    EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeaseLock, Lock,
};
use pintle_metrics::{InMemoryProvider, MetricKind, Provider};
use pintle_testing::{Outcome, PanickingProvider};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::contender::{Setup, pass};
use crate::log::Log;
use crate::server::{NAME, NAMESPACE, delete, server, take_verbs};

fn status(memory: &InMemoryProvider) -> Option<f64> {
    memory.value("leader_election_master_status", &[("name", NAME)])
}

fn elector(memory: &InMemoryProvider) -> LeaderElector<impl Lock> {
    let lock = LeaseLock::new(server().client("a"), NAMESPACE, NAME);
    let mut config = LeaderElectionConfig { identity: "a".into(), ..LeaderElectionConfig::default() };
    config.metrics = Some(Arc::new(memory.clone()));
    LeaderElector::new(lock, config).unwrap()
}

#[test]
fn metrics_match_client_go_and_end_with_elector() {
    let memory = InMemoryProvider::new();
    let (one, other) = (elector(&memory), elector(&memory));
    let mut found: Vec<_> =
        memory.samples().into_iter().map(|sample| (sample.metric.name, sample.metric.kind)).collect();
    found.dedup();
    let (histogram, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, kind)| matches!(kind, MetricKind::Histogram(_)));
    assert_eq!(histogram.len(), 1);
    assert_eq!(histogram[0].0, "leader_election_renewal_duration_seconds");
    assert_eq!(
        found,
        [
            ("leader_election_malformed_records_total", MetricKind::Counter),
            ("leader_election_master_status", MetricKind::Gauge),
            ("leader_election_renewals_total", MetricKind::Counter),
            ("leader_election_slowpath_total", MetricKind::Counter),
            ("leader_election_term_ends_total", MetricKind::Counter),
            ("leader_election_terms_total", MetricKind::Counter),
            ("leader_election_validity_seconds", MetricKind::Gauge),
        ]
    );
    assert!(memory.samples().iter().all(|sample| sample.metric.labels[0] == "name" && sample.labels[0] == NAME));
    let count = memory.samples().len();
    drop(one);
    assert_eq!(memory.samples().len(), count);
    drop(other);
    assert!(memory.samples().is_empty());
}

#[tokio::test(start_paused = true)]
async fn master_status_follows_the_guard() {
    let server = server();
    let a = Setup::new("a").start(&server);
    assert_eq!(status(&a.memory), Some(0.0));
    pass(1.0).await;
    let b = Setup::new("b").start(&server);
    pass(1.0).await;
    assert_eq!((status(&a.memory), status(&b.memory)), (Some(1.0), Some(0.0)));
    assert_eq!((a.count("terms_total"), b.count("terms_total")), (Some(1.0), Some(0.0)));
    // No task runs while the clock advances, so no task can report the expired deadline.
    a.clock.0.advance(Duration::from_secs(60));
    assert_eq!(status(&a.memory), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn metrics_of_dropped_election_disappear() {
    let memory = InMemoryProvider::new();
    let mut elector = elector(&memory);
    let stop = CancellationToken::new();
    let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
    let ended = tokio::time::timeout(Duration::from_secs(5), elector.run(&stop, work)).await;
    assert!(ended.is_err());
    assert_eq!(memory.value("leader_election_terms_total", &[]), Some(1.0));
    drop(elector);
    assert!(memory.samples().is_empty(), "{:?}", memory.samples());
}

#[tokio::test(start_paused = true)]
async fn panicking_metrics_cost_no_term() {
    let lock = LeaseLock::new(server().client("a"), NAMESPACE, NAME);
    let metrics = Some(Arc::new(PanickingProvider) as Arc<dyn Provider>);
    let mut elector = LeaderElector::new(lock, LeaderElectionConfig { metrics, ..Default::default() }).unwrap();
    let stop = CancellationToken::new();
    let work = LeaderCallbacks::new(async |leadership: Leadership| {
        pass(60.0).await;
        stop.cancel();
        leadership.cancelled().await;
    });
    assert_eq!(elector.run(&stop, work).await.unwrap().reason, EndReason::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn metrics_report_validity_renewals_and_end_reasons() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    assert_eq!(a.count("validity_seconds"), Some(9.0));
    a.client.faults().next([Outcome::AnswerSlow(Duration::from_millis(300))]);
    pass(2.0).await;
    assert_eq!(a.count("validity_seconds"), Some(9.0));
    let took = a.memory.distribution("leader_election_renewal_duration_seconds", &[("name", NAME)]).unwrap();
    assert_eq!((took.count(), took.sum()), (1, 0.3));
    a.client.faults().cut_off();
    pass(20.0).await;
    assert_eq!(a.count("validity_seconds"), Some(0.0));
    a.client.faults().heal();
    pass(10.0).await;
    delete(&server);
    pass(5.0).await;
    let ended = |reason| a.memory.value("leader_election_term_ends_total", &[("name", NAME), ("reason", reason)]);
    assert_eq!(["Deadline", "Deleted", "TakenBy", "Cancelled"].map(ended), [1.0, 1.0, 0.0, 0.0].map(Some));
    assert_eq!(a.count("terms_total"), Some(3.0));
}

#[tokio::test(start_paused = true)]
async fn malformed_records_are_counted_and_logged_once() {
    let (log, _here) = Log::here();
    let server = server();
    server.put_raw(json!({"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": {"leaseTransitions": "many"}}));
    let a = Setup::new("a").start(&server);
    pass(60.0).await;
    let requests = take_verbs(&server).len();
    assert!(requests > 10);
    assert_eq!(a.count("malformed_records_total"), Some(requests as f64));
    assert_eq!(log.count("WARN"), 1);
}
