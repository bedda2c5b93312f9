//! Tests of the findings that an audit reports.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::{
    LeaderCallbacks, LeaderElectionConfig, LeaderElectionRecord, LeaderElector, Leadership, Lease, LeaseLock, Lock,
    LockKind, LockState, Now, ResourceLock, UNKNOWN_LEADER, Version,
};
use pintle_lock_audit::{Audit, AuditedEnd, Finding, LockAuditor};
use pintle_meta::{ApiError, DynamicObject, MicroTime};
use pintle_testing::{Client, Collection, CollectionConfig, Outcome, Verb};
use tokio_util::sync::CancellationToken;

use crate::contender::{TestClock, pass};
use crate::server::{NAME, NAMESPACE, put};

/// A lock and its audit, which reads the lock every half second. If `watched` is `true`, the audit also receives each
/// write from a watch.
struct Bench {
    audit: Audit,
    watched: bool,
    now: Duration,
    version: u64,
    state: Option<LockState>,
    findings: Vec<Finding>,
}

const START: i64 = 1_800_000_000;

fn at(now: Duration) -> Now {
    Now { boot: now, monotonic: now, wall: Timestamp::from_second(START).unwrap() + now }
}

impl Bench {
    fn new(watched: bool) -> Self {
        let (audit, now, findings) = (Audit::new(), Duration::ZERO, Vec::new());
        let mut bench = Self { audit, watched, now, version: 0, state: None, findings };
        bench.put(record("", 0, 0.0));
        bench.pass(1.0);
        bench
    }

    fn pass(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            let found = self.audit.read(self.state.as_ref(), self.now, at(self.now));
            self.findings.extend(found);
            self.now = end.min(self.now + Duration::from_millis(500));
        }
    }

    fn put(&mut self, record: LeaderElectionRecord) {
        self.version += 1;
        let version = Version { uid: "1".into(), resource_version: self.version.to_string() };
        self.change(Some(LockState::new(version, record)));
    }

    fn change(&mut self, state: Option<LockState>) {
        self.state = state;
        if self.watched {
            self.findings.extend(self.audit.record_event(self.state.as_ref(), at(self.now)));
        }
    }

    /// Returns the findings since the last call, except the beginnings and ends of terms.
    fn faults(&mut self) -> Vec<Finding> {
        let findings = std::mem::take(&mut self.findings).into_iter();
        findings.filter(|finding| !matches!(finding, Finding::Began { .. } | Finding::Ended { .. })).collect()
    }

    /// Writes the records of a term, in which `holder` renews every two seconds. The last renewal is written now.
    fn lead(&mut self, holder: &str, transitions: i32, renewals: u32) {
        for renewal in 0..=renewals {
            let acquired = self.now.as_secs_f64() - f64::from(renewal) * 2.0;
            let mut record = record(holder, transitions, acquired);
            record.renew_time = time(self.now.as_secs_f64());
            self.put(record);
            if renewal < renewals {
                self.pass(2.0);
            }
        }
    }
}

fn time(seconds: f64) -> Option<MicroTime> {
    let moment = Timestamp::from_microsecond(START * 1_000_000 + (seconds * 1e6).round() as i64).unwrap();
    Some(MicroTime(moment))
}

fn record(holder: &str, transitions: i32, acquired: f64) -> LeaderElectionRecord {
    LeaderElectionRecord {
        holder_identity: holder.into(),
        lease_duration_seconds: 15,
        acquire_time: time(acquired),
        renew_time: time(acquired),
        leader_transitions: transitions,
        ..LeaderElectionRecord::default()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn auditor_reports_terms_ends_and_gaps() {
    for watched in [true, false] {
        let mut bench = Bench::new(watched);
        bench.lead("a", 1, 3);
        bench.pass(1.0);
        bench.put(record("", 1, 8.0));
        bench.pass(3.0);
        bench.lead("b", 2, 0);
        bench.pass(20.0);
        bench.lead("c", 3, 0);
        bench.pass(1.0);
        let lines: Vec<_> = bench.findings.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(
            lines[0].starts_with("a leads, change 1") && lines[1].starts_with("a released the lock after 7."),
            "{lines:?}"
        );
        assert!(lines[2].starts_with("b leads, change 2, after 3."), "{lines:?}");
        assert!(lines[3].starts_with("b lost the lock to a successor after 20."), "{lines:?}");
        // The time without a leader is measured from the last renewal.
        assert!(lines[4].starts_with("c leads, change 3, after 20."), "{lines:?}");
        let seen = bench.audit.summary();
        assert_eq!((seen.terms, seen.unsafe_findings), (3, 0), "{seen:?}");
        assert!(seen.longest_gap >= seconds(20) && seen.slowest_renewal <= seconds(2), "{seen:?}");
    }
}

#[test]
fn only_early_takeovers_are_reported() {
    for (after, early) in [(5.0, true), (14.0, true), (15.6, false)] {
        let mut bench = Bench::new(true);
        bench.lead("a", 1, 3);
        bench.pass(after);
        bench.lead("b", 2, 0);
        match (&bench.faults()[..], early) {
            ([Finding::TakenEarly { by, from, after: bound, of }], true) => {
                assert_eq!((by.as_str(), from.as_str(), *of), ("b", "a", seconds(15)));
                // The last renewal may have been written directly after the previous read.
                assert!(bound.as_secs_f64() >= after && bound.as_secs_f64() <= after + 0.6, "{bound:?}");
            }
            ([], false) => {}
            (other, _) => panic!("{after}: {other:?}"),
        }
    }
}

#[test]
fn unwatched_takeover_is_not_judged() {
    let mut bench = Bench::new(false);
    bench.lead("a", 1, 3);
    bench.pass(5.0);
    bench.put(record("", 1, 12.0));
    bench.lead("b", 2, 0);
    bench.pass(1.0);
    assert_eq!(bench.faults(), []);
}

#[test]
fn takeover_after_deletion_can_be_early() {
    let mut bench = Bench::new(true);
    bench.lead("a", 1, 3);
    bench.pass(1.0);
    bench.change(None);
    bench.pass(2.0);
    bench.lead("b", 0, 0);
    let findings = std::mem::take(&mut bench.findings);
    assert!(findings.iter().any(|finding| matches!(finding, Finding::Ended { end: AuditedEnd::Deleted, .. })));
    let [.., Finding::TakenEarly { by, after, .. }] = &findings[..] else { panic!("{findings:?}") };
    assert!(by == "b" && *after < seconds(4), "{findings:?}");
}

#[test]
fn resumed_term_is_reported() {
    let mut bench = Bench::new(true);
    bench.lead("a", 1, 3);
    let of_a = bench.state.clone().unwrap().record;
    bench.pass(16.0);
    bench.lead("b", 2, 0);
    bench.pass(1.0);
    bench.put(LeaderElectionRecord { renew_time: time(25.0), ..of_a });
    assert_eq!(bench.faults(), [Finding::Resumed { holder: "a".into(), after: "b".into() }]);
    assert_eq!(bench.audit.summary().unsafe_findings, 1);
}

#[test]
fn resumed_term_is_reported_despite_a_silent_watch() {
    let mut bench = Bench::new(true);
    bench.lead("a", 1, 3);
    bench.pass(1.0);
    let of_a = bench.state.clone().unwrap().record;
    bench.watched = false;
    bench.lead("b", 2, 1);
    bench.pass(1.0);
    bench.put(LeaderElectionRecord { renew_time: time(25.0), ..of_a });
    bench.pass(1.0);
    assert_eq!(bench.faults(), [Finding::Resumed { holder: "a".into(), after: "b".into() }]);
    // Let the watch report events again, after which the audit relies on the watch again.
    bench.watched = true;
    bench.lead("c", 3, 1);
    bench.pass(1.0);
    bench.lead("d", 4, 0);
    let faults = bench.faults();
    assert!(faults.iter().any(|fault| matches!(fault, Finding::TakenEarly { by, .. } if by == "d")), "{faults:?}");
}

/// In these records, the control plane clears the acquire time and counts no transitions, while client-go keeps both.
#[test]
fn holder_assigned_again_by_control_plane_has_not_resumed() {
    for (is_cleared, strategy) in [(true, None), (false, Some("OldestEmulationVersion"))] {
        let mut bench = Bench::new(true);
        for (holder, renewed) in [("a", 1.0), ("b", 20.0), ("a", 40.0)] {
            let assigned = record(holder, 0, 0.0);
            let acquire_time = assigned.acquire_time.filter(|_| !is_cleared);
            let strategy = strategy.map(Into::into);
            bench.put(LeaderElectionRecord { renew_time: time(renewed), acquire_time, strategy, ..assigned });
            bench.pass(20.0);
        }
        let faults = bench.faults();
        assert!(!faults.iter().any(Finding::is_unsafe), "{faults:?}");
    }
}

#[test]
fn late_and_lapsed_renewals_are_reported() {
    for (pause, expected) in [(9.0, None), (11.0, Some(false)), (16.0, Some(true))] {
        let mut bench = Bench::new(true);
        bench.lead("a", 1, 1);
        let first = bench.state.clone().unwrap().record;
        bench.pass(pause);
        bench.put(LeaderElectionRecord { renew_time: time(bench.now.as_secs_f64()), ..first });
        let findings = bench.faults();
        assert_eq!(findings.first().map(Finding::is_unsafe), expected, "{findings:?}");
        assert!(
            findings.iter().all(|finding| matches!(finding, Finding::Late { .. } | Finding::Lapsed { .. })),
            "{findings:?}"
        );
    }
}

#[test]
fn unusable_records_are_reported_once_per_term() {
    let mut bench = Bench::new(true);
    let mut endless = record("a", 1, 1.0);
    endless.lease_duration_seconds = 0;
    bench.put(endless.clone());
    for tenths in 1..5 {
        bench.pass(0.1);
        bench.put(LeaderElectionRecord { renew_time: time(60.0 + f64::from(tenths) / 10.0), ..endless.clone() });
    }
    bench.pass(16.0);
    bench.put(record("b", 7, 20.0));
    let findings = bench.faults();
    let kinds: Vec<_> =
        findings.iter().map(|finding| format!("{finding:?}")).map(|text| text[..8].to_owned()).collect();
    // Only the first renewal has a `renewTime` in another second than the previous record. All later renewals have the
    // same second in their `renewTime`, so they do not count as renewals.
    assert_eq!(kinds, ["NoDurati", "Skewed {", "Invisibl", "Miscount"], "{findings:?}");
}

#[test]
fn lasting_disagreement_of_halves_is_reported() {
    let mut bench = Bench::new(false);
    bench.lead("a", 1, 0);
    bench.pass(0.6);
    bench.put(record(UNKNOWN_LEADER, 1, 3.0));
    bench.pass(0.4);
    bench.lead("b", 2, 0);
    bench.pass(1.0);
    assert_eq!(bench.faults(), []);
    bench.put(record(UNKNOWN_LEADER, 2, 3.0));
    bench.pass(5.0);
    assert_eq!(bench.faults(), [Finding::Disagree]);
}

fn locks(kind: LockKind) -> impl Fn(&str) -> ResourceLock<Client<DynamicObject>, Client<Lease>> {
    let leases = Collection::<Lease>::default();
    let annotated = kind.annotated().map(|resource| Collection::dynamic(resource, CollectionConfig::default()));
    move |client| {
        let api = |_| annotated.as_ref().unwrap().client(client);
        ResourceLock::new(kind, "kube-system", "lock", api, leases.client(client))
    }
}

#[tokio::test(start_paused = true)]
async fn auditor_supports_all_five_lock_kinds() {
    for name in ["leases", "configmaps", "endpoints", "configmapsleases", "endpointsleases"] {
        let lock = locks(name.parse().unwrap());
        let findings: Arc<Mutex<Vec<Finding>>> = Arc::default();
        let (stop, into, clock) = (CancellationToken::new(), findings.clone(), TestClock::new());
        let auditor = LockAuditor { clocks: clock.clone(), ..LockAuditor::new(lock("auditor")) };
        let stopped = stop.clone();
        let audit =
            tokio::spawn(
                async move { auditor.run(&stopped, |finding| into.lock().unwrap().push(finding.clone())).await },
            );
        pass(1.0).await;
        for identity in ["a", "b"] {
            let config =
                LeaderElectionConfig { identity: identity.into(), clocks: clock.clone(), ..Default::default() };
            let mut elector = LeaderElector::new(lock(identity), config).unwrap();
            let work = LeaderCallbacks::new(async |leadership: Leadership| {
                let _ = leadership.run(pass(9.0)).await;
            });
            elector.run(&CancellationToken::new(), work).await;
            pass(3.0).await;
        }
        stop.cancel();
        let seen = audit.await.unwrap();
        let findings = findings.lock().unwrap();
        assert_eq!((seen.terms, seen.unsafe_findings), (2, 0), "{name}: {findings:?}");
        let [Finding::Began { holder: a, .. }, Finding::Ended { end, .. }, Finding::Began { holder: b, gap, .. }, ..] =
            &findings[..]
        else {
            panic!("{name}: {findings:?}")
        };
        assert_eq!(
            (a.as_str(), *end, b.as_str(), findings.len()),
            ("a", AuditedEnd::Released, "b", 4),
            "{name}: {findings:?}"
        );
        let gap = gap.unwrap();
        assert!(gap >= seconds(2) && gap <= seconds(4), "{name}: {gap:?}");
    }
}

/// Returns a lock with a malformed record, and the collection of the lock object.
fn malformed_lock() -> (Collection<DynamicObject>, ResourceLock<Client<DynamicObject>, Client<Lease>>) {
    let resource = LockKind::ConfigMaps.annotated().unwrap();
    let maps = Collection::<DynamicObject>::dynamic(resource, CollectionConfig::default());
    maps.put_raw(serde_json::json!({"metadata": {"namespace": "kube-system", "name": "lock",
        "annotations": {"control-plane.alpha.kubernetes.io/leader": "{"}}}));
    let (api, leases) = (|_| maps.client("auditor"), Collection::default().client("auditor"));
    let lock = ResourceLock::new(LockKind::ConfigMaps, "kube-system", "lock", api, leases);
    (maps, lock)
}

/// Audits a lock for 10 s and returns the findings.
async fn findings_of<L: Lock>(lock: L) -> Vec<Finding> {
    let stop = CancellationToken::new();
    let auditor = LockAuditor { clocks: TestClock::new(), ..LockAuditor::new(lock) };
    let mut findings = Vec::new();
    tokio::join!(auditor.run(&stop, |finding| findings.push(finding.clone())), async {
        pass(10.0).await;
        stop.cancel();
    });
    findings
}

#[tokio::test(start_paused = true)]
async fn auditor_only_reads_and_reports_malformed_records_once() {
    let (maps, lock) = malformed_lock();
    let findings = findings_of(lock).await;
    let [Finding::Malformed { why }] = &findings[..] else { panic!("{findings:?}") };
    assert!(why.contains("leader"), "{why}");
    assert!(maps.take_requests().iter().all(|request| matches!(request.verb(), Verb::Get | Verb::Watch)));
}

#[tokio::test(start_paused = true)]
async fn malformed_record_is_reported_once_despite_failed_reads() {
    for first_reads in [vec![failed_read()], vec![Outcome::Pass, failed_read()]] {
        let (maps, lock) = malformed_lock();
        maps.faults().next_of(Verb::Get, first_reads);
        let findings = findings_of(lock).await;
        assert!(matches!(&findings[..], [Finding::Malformed { .. }]), "{findings:?}");
    }
}

fn failed_read() -> Outcome {
    Outcome::Fails(ApiError::timeout("later"))
}

#[tokio::test(start_paused = true)]
async fn auditor_without_reads_relies_on_the_watch() {
    let server = Collection::<Lease>::default();
    let lock = LeaseLock::new(server.client("auditor"), NAMESPACE, NAME);
    let auditor = LockAuditor { period: Duration::MAX, clocks: TestClock::new(), ..LockAuditor::new(lock) };
    let stop = CancellationToken::new();
    let (seen, ()) = tokio::join!(auditor.run(&stop, |_| {}), async {
        pass(1.0).await;
        put(&server, &LeaderElectionRecord { holder_identity: "a".into(), ..LeaderElectionRecord::default() });
        pass(10.0).await;
        stop.cancel();
    });
    assert_eq!(seen.terms, 1);
    let reads = server.take_requests().into_iter().filter(|request| request.verb() == Verb::Get);
    assert_eq!(reads.count(), 1);
}

/// After the server was restored from a backup, the watch reports lower versions, and more than one between two reads.
#[test]
fn early_takeover_after_a_restore_is_found() {
    let mut bench = Bench::new(true);
    bench.version = 1_000;
    bench.lead("a", 1, 3);
    bench.version = 10;
    let acquired = bench.now.as_secs_f64();
    for _ in 0..20 {
        for earlier in [0.1, 0.0] {
            let renew_time = time(bench.now.as_secs_f64() - earlier);
            bench.put(LeaderElectionRecord { renew_time, ..record("b", 2, acquired) });
        }
        bench.pass(0.5);
    }
    assert_eq!(bench.audit.summary().terms, 2, "{:?}", bench.findings);
    bench.faults();
    bench.put(record("c", 3, bench.now.as_secs_f64()));
    let faults = bench.faults();
    assert!(matches!(&faults[..], [Finding::TakenEarly { by, .. }] if by == "c"), "{faults:?}");
}
