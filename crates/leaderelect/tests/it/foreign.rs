//! Tests with other programs that change labels, annotations and other data of the lock object.

use std::time::Duration;

use pintle_leaderelect::{
    AnnotationLock, EndReason, LEADER_ANNOTATION, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership,
    Lease, LeaseLock, Lock, MultiLock,
};
use pintle_meta::{ApiResource, DynamicObject, ObjectMeta, Scope};
use pintle_testing::{Collection, CollectionConfig, Outcome, Verb};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::contender::{Contender, Setup, TestClock, pass};
use crate::server::{holder, key, server};

fn label(server: &Collection<Lease>, text: &str) {
    server.change(&key(), |lease| drop(lease.metadata.labels.insert("seen".into(), text.into())));
}

fn maps() -> Collection<DynamicObject> {
    let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
    Collection::dynamic(resource, CollectionConfig::default())
}

struct Candidate {
    status: pintle_leaderelect::ElectionStatus,
    run: JoinHandle<()>,
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.run.abort();
    }
}

fn candidate(lock: impl Lock, identity: &str) -> Candidate {
    candidate_with(lock, identity, LeaderElectionConfig::default())
}

fn candidate_with(lock: impl Lock, identity: &str, timing: LeaderElectionConfig) -> Candidate {
    let config = LeaderElectionConfig { identity: identity.into(), clocks: TestClock::new(), seed: Some(7), ..timing };
    let mut elector = LeaderElector::new(lock, config).unwrap();
    let status = elector.status();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
        elector.run(&CancellationToken::new(), work).await;
    });
    Candidate { status, run }
}

/// Returns the number of seconds until the candidate leads. While the candidate waits, calls `meanwhile` every `period`
/// seconds.
async fn leads_after(candidate: &Candidate, period: f64, mut meanwhile: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    let mut count = 0;
    while !candidate.status.is_leader() && start.elapsed() < Duration::from_secs(300) {
        pass(period).await;
        count += 1;
        meanwhile(count);
    }
    start.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn label_changes_do_not_delay_a_takeover() {
    for (watch, limit) in [(true, 15.2), (false, 15.0 + 4.4)] {
        for period in [0.1, 1.0, 5.0] {
            let server = server();
            let a = Setup::new("a").start(&server);
            pass(1.0).await;
            let lock = LeaseLock { watch, ..LeaseLock::new(server.client("b"), "kube-system", "lock") };
            let b = candidate(lock, "b");
            pass(5.0).await;
            a.run.abort();
            let after = leads_after(&b, period, |count| label(&server, &count.to_string())).await;
            // The leader died at most two seconds after its last renewal, so its lease expires after at least 13 s.
            assert!((13.0..=limit + period).contains(&after), "watch {watch}, each {period} s: {after} s");
        }
    }
}

/// With a long retry period, a candidate may read the lock less often than once per renew deadline.
#[tokio::test(start_paused = true)]
async fn rare_reads_do_not_let_labels_delay_takeover() {
    for (seconds, watch, period) in [
        ([60, 10, 5], true, 11.0),
        ([60, 10, 8], true, 11.0),
        ([60, 10, 8], false, 5.0),
        ([30, 10, 8], false, 5.0),
        ([30, 10, 8], true, 25.0),
        ([60, 10, 2], true, 11.0),
    ] {
        let [lease_duration, renew_deadline, retry_period] = seconds.map(Duration::from_secs);
        let timing = LeaderElectionConfig { lease_duration, renew_deadline, retry_period, ..Default::default() };
        let server = server();
        let lock =
            |client: &str, watch| LeaseLock { watch, ..LeaseLock::new(server.client(client), "kube-system", "lock") };
        let a = candidate_with(lock("a", true), "a", timing.clone());
        pass(1.0).await;
        let b = candidate_with(lock("b", watch), "b", timing);
        pass(20.0).await;
        drop(a);
        let after = leads_after(&b, period, |count| label(&server, &count.to_string())).await;
        let [lease, _, retry] = seconds.map(|seconds| seconds as f64);
        assert!(after <= lease + 2.0 * 2.2 * retry + period, "{seconds:?}, watch {watch}, each {period} s: {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn unrelated_annotation_writes_do_not_delay_a_takeover() {
    for (watch, limit) in [(true, 15.2), (false, 15.0 + 4.4)] {
        let maps = maps();
        let lock = |client: &str| {
            let mut lock = AnnotationLock::config_map(maps.client(client), "kube-system", "lock");
            lock.watch = watch;
            lock
        };
        let a = candidate(lock("a"), "a");
        pass(1.0).await;
        let b = candidate(lock("b"), "b");
        pass(5.0).await;
        drop(a);
        let after = leads_after(&b, 1.0, |count| {
            maps.change(&key(), |map| {
                map.data.insert("data".into(), serde_json::json!({ "count": count.to_string() }));
                map.metadata.labels.insert("count".into(), count.to_string());
                map.metadata.annotations.insert("other".into(), count.to_string());
            });
        });
        let after = after.await;
        assert!((13.0..=limit + 1.0).contains(&after), "watch {watch}: {after} s");
        let map = maps.object(&key()).unwrap();
        assert_eq!(map.data["data"]["count"].as_str(), Some(&*map.metadata.labels["count"]), "other data is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn unrelated_writes_of_either_half_do_not_delay_takeover() {
    for half in [0, 1] {
        let (maps, leases) = (maps(), Collection::<Lease>::default());
        let lock = |client: &str| {
            MultiLock::new(
                AnnotationLock::config_map(maps.client(client), "kube-system", "lock"),
                LeaseLock::new(leases.client(client), "kube-system", "lock"),
            )
        };
        let a = candidate(lock("a"), "a");
        pass(1.0).await;
        let b = candidate(lock("b"), "b");
        pass(5.0).await;
        drop(a);
        let after = leads_after(&b, 1.0, |count| match half {
            0 => drop(maps.change(&key(), |map| drop(map.metadata.labels.insert("seen".into(), count.to_string())))),
            _ => label(&leases, &count.to_string()),
        });
        let after = after.await;
        assert!((13.0..=15.0 + 4.4 + 1.0).contains(&after), "half {half}: {after} s");
    }
}

/// Contenders wait as long as one lock of a `MultiLock` is renewed, even if the two locks have different holders.
#[tokio::test(start_paused = true)]
async fn renewal_of_one_half_keeps_candidates_waiting() {
    let (maps, leases) = (maps(), Collection::<Lease>::default());
    let annotation = |holder: &str, second: u64| {
        format!(
            r#"{{"holderIdentity":"{holder}","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:{:02}:{:02}Z"}}"#,
            second / 60,
            second % 60
        )
    };
    let annotate = |holder: &str, second: u64| {
        let mut metadata = ObjectMeta::new("kube-system", "lock");
        metadata.annotations.insert(LEADER_ANNOTATION.into(), annotation(holder, second));
        maps.put(DynamicObject { metadata, ..DynamicObject::default() });
    };
    for annotated in [true, false] {
        annotate(if annotated { "alive" } else { "dead" }, 0);
        let alive = candidate(LeaseLock::new(leases.client("lease"), "kube-system", "lock"), "lease");
        pass(1.0).await;
        if annotated {
            drop(alive);
        }
        let lock = MultiLock::new(
            AnnotationLock::config_map(maps.client("both"), "kube-system", "lock"),
            LeaseLock::new(leases.client("both"), "kube-system", "lock"),
        );
        let both = candidate(lock, "both");
        for second in 1..60 {
            pass(2.0).await;
            if annotated {
                annotate("alive", 2 * second);
            }
            assert!(!both.status.is_leader(), "annotated {annotated}, after {second} renewals");
        }
        drop(both);
        leases.remove(&key());
    }
}

/// Every change of the stored record counts as a renewal, even if a time is invalid or the change is below the lock's
/// precision.
#[tokio::test(start_paused = true)]
async fn unparsable_record_changes_count_as_renewals() {
    for time in ["2026-01-01T00:00:00.{}00Z", "yesterday {}"] {
        let leases = Collection::<Lease>::default();
        let put = |count: u64| {
            let time = time.replace("{}", &count.to_string());
            leases.put_raw(serde_json::json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"namespace": "kube-system", "name": "lock"},
                "spec": {"holderIdentity": "alive", "leaseDurationSeconds": 15, "renewTime": time},
            }));
        };
        put(0);
        let watched = candidate(LeaseLock::new(leases.client("b"), "kube-system", "lock"), "b");
        let lock = LeaseLock { watch: false, ..LeaseLock::new(leases.client("c"), "kube-system", "lock") };
        let polling = candidate(lock, "c");
        for count in 1..9 {
            pass(10.0).await;
            put(count);
        }
        assert!(!watched.status.is_leader() && !polling.status.is_leader(), "{time}");
        pass(20.0).await;
        assert!(watched.status.is_leader() || polling.status.is_leader(), "{time}");
    }
    let maps = maps();
    let put = |count: u64| {
        let mut metadata = ObjectMeta::new("kube-system", "lock");
        let record = format!(
            r#"{{"holderIdentity":"alive","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.{count}00Z"}}"#
        );
        metadata.annotations.insert(LEADER_ANNOTATION.into(), record);
        maps.put(DynamicObject { metadata, ..DynamicObject::default() });
    };
    put(0);
    let b = candidate(AnnotationLock::config_map(maps.client("b"), "kube-system", "lock"), "b");
    for count in 1..9 {
        pass(10.0).await;
        put(count);
    }
    assert!(!b.status.is_leader());
    pass(20.0).await;
    assert!(b.status.is_leader());
}

fn busy_labeller(server: &Collection<Lease>, millis: u64) -> tokio_util::task::AbortOnDropHandle<()> {
    let server = server.clone();
    tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        for count in 0_u64.. {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            if server.object(&key()).is_some() {
                label(&server, &count.to_string());
            }
        }
    }))
}

fn slow(contender: &Contender, latency: f64) {
    contender.client.faults().when(move |request| {
        (request.verb() != Verb::Watch).then_some(Outcome::AnswerSlow(Duration::from_secs_f64(latency)))
    });
}

#[tokio::test(start_paused = true)]
async fn holder_keeps_its_term_despite_foreign_writes() {
    for watch in [true, false] {
        // The interval between writes of the other program, and the response latency of the server. In some cases, the
        // other program writes at the same time as a retry of the elector. In the last case, the elector can only write
        // if the watch reports each write of the other program.
        let paces = [(500, 0.1), (500, 0.0), (250, 0.05), (100, 0.02), (400, 0.2), (2_000, 1.5)];
        for (millis, latency) in paces.into_iter().filter(|(_, latency)| watch || *latency < 1.0) {
            let server = server();
            let a = Setup { watch, ..Setup::new("a") }.start(&server);
            pass(1.0).await;
            let term = a.guard();
            slow(&a, latency);
            let _busy = busy_labeller(&server, millis);
            pass(120.0).await;
            assert!(
                term.check().is_ok(),
                "watch {watch}, each {millis} ms, answers after {latency} s: {:?}",
                a.story.take()
            );
            assert_eq!(a.stop().await, Some(EndReason::Cancelled));
            assert_eq!(holder(&server), "", "the lock is released anyway");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn successor_takes_over_despite_foreign_writes() {
    for watch in [true, false] {
        for (millis, latency) in [(100, 0.05), (500, 0.4)] {
            let server = server();
            let a = Setup::new("a").start(&server);
            pass(1.0).await;
            let b = Setup { watch, ..Setup::new("b") }.start(&server);
            slow(&b, latency);
            pass(5.0).await;
            a.run.abort();
            let _busy = busy_labeller(&server, millis);
            pass(15.0 + 4.4 + 10.0).await;
            assert!(b.status.is_leader(), "watch {watch}, each {millis} ms, answers after {latency} s");
        }
    }
}

/// If the watch reports the writes of another program, the holder replaces the newest version and avoids conflicts.
#[tokio::test(start_paused = true)]
async fn watching_holder_avoids_conflicts() {
    let server = server();
    let a = Setup { watch: true, ..Setup::new("a") }.start(&server);
    pass(1.5).await;
    let _busy = busy_labeller(&server, 1_000);
    pass(60.0).await;
    assert!(a.status.is_leader());
    assert_eq!(a.count("slowpath_total"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn recreated_lease_restarts_the_wait() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let lock = LeaseLock { watch: false, ..LeaseLock::new(server.client("b"), "kube-system", "lock") };
    let b = candidate(lock, "b");
    pass(5.0).await;
    a.run.abort();
    pass(10.0).await;
    let mut lease = server.object(&key()).unwrap();
    assert!(server.remove(&key()));
    (lease.metadata.uid, lease.metadata.resource_version) = (String::new(), String::new());
    server.put(lease);
    let after = leads_after(&b, 0.1, |_| {}).await;
    assert!((15.0..=15.0 + 2.0 * 4.4).contains(&after), "{after} s");
}
