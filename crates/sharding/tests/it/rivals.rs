//! Tests of replicas with different numbers of shards, as in a rollout that changes this number.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_leaderelect::{LeaderElectionRecord, Lease};
use pintle_meta::{ObjectMeta, Reason};
use pintle_sharding::SHARDS_LABEL;
use pintle_testing::{Break, Collection, Outcome, Verb};

use crate::contender::pass;
use crate::ledger::Ledger;
use crate::replicas::{Replica, Setup, usual};

fn of(shards: u32) -> Setup {
    Setup { shards, ..usual() }
}

/// Starts two replicas with six shards, and later two replicas with nine shards.
async fn rollout(server: &Collection<Lease>, ledger: &Ledger) -> ([Replica; 2], [Replica; 2]) {
    let old = ["a", "b"].map(|identity| of(6).start(server, ledger, identity));
    pass(10.0).await;
    let starts = ledger.starts_so_far();
    let new = ["c", "d"].map(|identity| of(9).start(server, ledger, identity));
    pass(60.0).await;
    assert_eq!((ledger.shards().len(), ledger.starts_so_far()), (6, starts), "waiting replicas move no shards");
    assert!(ledger.shards().iter().all(|shard| shard.count() == 6));
    (old, new)
}

#[tokio::test(start_paused = true)]
async fn new_shard_count_works_once_old_replicas_stop() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let ([a, b], _new) = rollout(&server, &ledger).await;
    a.stop.cancel();
    pass(1.0).await;
    assert_eq!(ledger.owners().values().filter(|owner| *owner == "b").count(), 6);
    b.stop.cancel();
    pass(0.2).await;
    assert!(ledger.shards().len() == 9 && ledger.shards().iter().all(|shard| shard.count() == 9));
    assert_eq!(
        ledger.owners().values().collect::<std::collections::BTreeSet<_>>().len(),
        2,
        "both replicas have a share"
    );
    ledger.check(0);
}

#[tokio::test(start_paused = true)]
async fn new_shard_count_waits_for_leases_of_dead_replicas() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let (old, _new) = rollout(&server, &ledger).await;
    ledger.forget_gaps();
    old.into_iter().for_each(|replica| replica.run.abort());
    pass(12.0).await;
    assert_eq!(ledger.shards(), []);
    pass(8.0).await;
    assert_eq!(ledger.shards().len(), 9);
    assert!(ledger.longest_gap() <= Duration::from_millis(15_500), "{:?}", ledger.longest_gap());
}

/// The replicas with the old number of shards lose their connection to the server. When they are connected again, their
/// leases are free, and the replicas with the new number of shards do the work.
#[tokio::test(start_paused = true)]
async fn returning_replicas_with_old_shard_count_wait() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let (old, new) = rollout(&server, &ledger).await;
    old.iter().for_each(|replica| replica.client.faults().cut_off());
    pass(30.0).await;
    assert!(ledger.shards().len() == 9 && ledger.shards().iter().all(|shard| shard.count() == 9));
    let starts = ledger.starts_so_far();
    old.iter().for_each(|replica| replica.client.faults().heal());
    pass(60.0).await;
    assert_eq!((ledger.shards().len(), ledger.starts_so_far()), (9, starts));
    let leases = server.objects().into_iter().filter(|lease| lease.metadata.name.ends_with("-of-6"));
    let held = leases.filter(|lease| !lease.metadata.name.contains("member") && !lease.spec.record().is_vacant());
    assert_eq!(held.map(|lease| lease.metadata.name).collect::<Vec<_>>(), Vec::<String>::new());
    new.iter().for_each(|replica| replica.stop.cancel());
    pass(3.0).await;
    assert!(ledger.shards().len() == 6 && ledger.shards().iter().all(|shard| shard.count() == 6));
    ledger.check(0);
}

#[tokio::test(start_paused = true)]
async fn replicas_with_different_shard_counts_do_not_deadlock() {
    for (seed, watched) in [true, true, false, false].into_iter().enumerate() {
        let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
        let rng = Mutex::new(fastrand::Rng::with_seed(seed as u64));
        server.faults().when(move |request| match request.verb() {
            Verb::Watch => (!watched).then(|| Outcome::refused(403, Reason::Forbidden)),
            _ => Some(Outcome::AnswerSlow(Duration::from_millis(rng.lock().unwrap().u64(..40)))),
        });
        let _replicas = [6, 4].map(|shards| of(shards).start(&server, &ledger, &format!("of-{shards}")));
        let all_of_one_number = || {
            let shards = ledger.shards();
            let number = shards.first().map(|shard| shard.count() as usize);
            Some(shards.len()) == number
        };
        // Without a watch, a replica waits up to one lease duration after each conflict with a rival.
        let patience = if watched { 60 } else { 900 };
        let mut waited = 0;
        while !all_of_one_number() && waited < patience {
            pass(1.0).await;
            waited += 1;
            ledger.check(seed as u64);
        }
        pass(20.0).await;
        ledger.check(seed as u64);
        assert!(all_of_one_number(), "{:?}, watched: {watched}", ledger.shards());
    }
}

#[tokio::test(start_paused = true)]
async fn replica_without_list_access_does_not_work() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    server.faults().when(|request| (request.verb() == Verb::List).then(|| Outcome::refused(403, Reason::Forbidden)));
    let _a = of(6).start(&server, &ledger, "a");
    pass(60.0).await;
    assert_eq!(ledger.starts_so_far(), 0);
    server.faults().heal();
    pass(3.0).await;
    assert_eq!(ledger.shards().len(), 6);
}

/// A replica without list permission must not become a member. Other replicas would release shards for this member,
/// which would hold the leases without working on the shards.
#[tokio::test(start_paused = true)]
async fn replica_without_list_access_is_not_a_member() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let _b = of(6).start(&server, &ledger, "b");
    pass(20.0).await;
    let starts = ledger.starts_so_far();
    let a = of(6).start(&server, &ledger, "a");
    a.client.faults().when(|request| (request.verb() == Verb::List).then(|| Outcome::refused(403, Reason::Forbidden)));
    pass(60.0).await;
    assert_eq!((ledger.shards().len(), ledger.starts_so_far()), (6, starts));
    assert_eq!(server.objects().iter().filter(|lease| lease.metadata.name.contains("member")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn shard_is_given_up_when_list_access_is_lost() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let _b = of(6).start(&server, &ledger, "b");
    pass(20.0).await;
    let a = of(6).start(&server, &ledger, "a");
    let took = AtomicBool::new(false);
    a.client.faults().when(move |request| {
        let takes = request.verb() == Verb::Update && !request.key().is_some_and(|key| key.name().contains("member"));
        took.fetch_or(takes, Ordering::Relaxed);
        let refused = request.verb() == Verb::List && took.load(Ordering::Relaxed);
        refused.then(|| Outcome::refused(403, Reason::Forbidden))
    });
    pass(5.0).await;
    assert!(ledger.shards().len() < 6, "some shards are taken but have no worker");
    pass(60.0).await;
    assert_eq!(ledger.owners().values().filter(|owner| *owner == "b").count(), 6);
}

#[tokio::test(start_paused = true)]
async fn rivals_with_other_labels_are_detected() {
    let (server, ledger) = (Collection::default(), Ledger::default());
    let a = of(6).start(&server, &ledger, "a");
    pass(10.0).await;
    let _b = Setup { version: "2", ..of(9) }.start(&server, &ledger, "b");
    pass(60.0).await;
    assert!(ledger.shards().len() == 6 && ledger.shards().iter().all(|shard| shard.count() == 6));
    a.stop.cancel();
    pass(0.2).await;
    assert!(ledger.shards().len() == 9 && ledger.shards().iter().all(|shard| shard.count() == 9));
    ledger.check(0);
    let labels = server.objects().into_iter().map(|lease| lease.metadata.labels["app.kubernetes.io/version"].clone());
    assert_eq!(labels.collect::<std::collections::BTreeSet<_>>().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn shard_taken_while_rivals_work_is_always_released() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    // Without a watch, a replica only detects changes in its first list and in the lists after each acquisition.
    server.faults().when(|request| (request.verb() == Verb::Watch).then(|| Outcome::refused(403, Reason::Forbidden)));
    let _a = Setup { release_on_cancel: false, ..of(6) }.start(&server, &ledger, "a");
    pass(5.0).await;
    let record = LeaderElectionRecord { holder_identity: "x".into(), lease_duration_seconds: 15, ..Default::default() };
    let mut rival = Lease::new(ObjectMeta::new("kube-system", "site-0-of-4"), &record);
    rival.metadata.labels.insert(SHARDS_LABEL.into(), "site".into());
    server.put(rival);
    let taken = || {
        let leases = server.objects().into_iter().map(|lease| (lease.metadata.name.clone(), lease.spec.record()));
        let of_shards = leases.filter(|(name, _)| name.ends_with("-of-6") && !name.contains("member"));
        of_shards.map(|(_, record)| record).collect::<Vec<_>>()
    };
    for _ in 0..300 {
        if taken().is_empty() {
            pass(0.1).await;
        }
    }
    pass(1.0).await;
    assert!(taken().len() == 6 && ledger.starts_so_far() == 0);
    assert!(taken().iter().all(LeaderElectionRecord::is_vacant), "{:?}", taken());
}

/// The server's data is restored from a backup, after which all leases have lower versions than before.
#[tokio::test(start_paused = true)]
async fn rivals_keep_waiting_after_a_restore() {
    for is_vacant in [false, true] {
        rivals_survive_a_restore(is_vacant).await;
    }
}

/// `is_vacant` means that the backup was made while no replica held a lease.
async fn rivals_survive_a_restore(is_vacant: bool) {
    let (server, restored, ledger) = (Collection::<Lease>::default(), Collection::default(), Ledger::default());
    (0..100_000).for_each(|_| server.advance());
    let ([a, b], [c, d]) = rollout(&server, &ledger).await;
    for mut lease in server.objects() {
        if is_vacant {
            lease.spec.holder_identity = None;
        }
        restored.put(lease);
    }
    for (replica, identity) in [(&a, "a"), (&b, "b"), (&c, "c"), (&d, "d")] {
        assert!(replica.restored.set(restored.client(identity)).is_ok());
    }
    server.break_watches(Break::End);
    for second in 0..120 {
        pass(1.0).await;
        ledger.check(second);
        assert!(ledger.shards().iter().all(|shard| shard.count() == 6), "{is_vacant}, {second}: {:?}", ledger.shards());
    }
    assert_eq!(ledger.shards().len(), 6);
    a.stop.cancel();
    b.stop.cancel();
    pass(20.0).await;
    assert!(ledger.shards().len() == 9 && ledger.shards().iter().all(|shard| shard.count() == 9));
    ledger.check(0);
}

#[tokio::test(start_paused = true)]
async fn unreadable_lease_counts_as_rival_for_its_duration() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    server.put_raw(serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": "site-0-of-4", "labels": {SHARDS_LABEL: "site"}},
        "spec": {"holderIdentity": 7},
    }));
    let _a = of(6).start(&server, &ledger, "a");
    pass(14.0).await;
    assert_eq!(ledger.starts_so_far(), 0);
    pass(3.0).await;
    assert_eq!(ledger.shards().len(), 6);
}

/// Two fleets have the same name in different namespaces, and the API covers all namespaces.
#[tokio::test(start_paused = true)]
async fn other_namespaces_are_ignored() {
    let (server, ledger) = (Collection::<Lease>::default(), Ledger::default());
    let _a = of(6).start(&server, &ledger, "a");
    pass(5.0).await;
    for lease in server.objects() {
        let name = lease.metadata.name.replace("-of-6", "-of-4");
        let mut other = Lease::new(ObjectMeta::new("elsewhere", &name), &lease.spec.record());
        other.metadata.labels = lease.metadata.labels;
        server.put(other);
    }
    let starts = ledger.starts_so_far();
    let _b = of(6).start(&server, &ledger, "b");
    pass(10.0).await;
    let moved = ledger.starts_so_far() - starts;
    assert!((1..=5).contains(&moved), "{moved}");
    assert_eq!(ledger.owners().values().filter(|owner| *owner == "b").count(), moved);
}
