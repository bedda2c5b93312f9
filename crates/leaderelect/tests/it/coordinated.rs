//! Tests of coordinated elections, where the control plane chooses the leader.

use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::{LeaderElectionRecord, Lease, OLDEST_EMULATION_VERSION};
use pintle_meta::MicroTime;
use pintle_testing::Collection;

use crate::contender::{Setup, Story, pass};
use crate::server::{delete, holder, put, record, server, take_verbs};

/// Returns the record that the control plane writes to assign the lease to `holder` for five seconds.
fn given_to(holder: &str) -> LeaderElectionRecord {
    LeaderElectionRecord {
        holder_identity: holder.into(),
        lease_duration_seconds: 5,
        renew_time: Some(MicroTime(Timestamp::from_second(1_000_000_000).unwrap())),
        leader_transitions: 0,
        strategy: Some(OLDEST_EMULATION_VERSION.into()),
        ..LeaderElectionRecord::default()
    }
}

fn preferring(server: &Collection<Lease>, other: &str) {
    put(server, &LeaderElectionRecord { preferred_holder: Some(other.into()), ..record(server) });
}

fn baz() -> Setup {
    let mut setup = Setup::new("baz");
    setup.config.coordinated = true;
    setup
}

#[tokio::test(start_paused = true)]
async fn named_candidate_leads() {
    let server = server();
    put(&server, &given_to("baz"));
    let elector = baz().start(&server);
    pass(0.1).await;
    assert_eq!(take_verbs(&server), ["get", "update"]);
    assert!(elector.status.is_leader());
    let written = record(&server);
    assert_eq!((written.leader_transitions, written.lease_duration_seconds), (0, 15));
    assert_eq!(written.strategy.as_deref(), Some(OLDEST_EMULATION_VERSION));
    assert!(written.acquire_time.is_some(), "the assignment had no acquire time");
    pass(60.0).await;
    assert!(elector.status.is_leader());
    let renewed = record(&server);
    assert_eq!((renewed.acquire_time, renewed.strategy), (written.acquire_time, written.strategy));
}

#[tokio::test(start_paused = true)]
async fn candidate_named_by_watch_leads_at_once() {
    let server = server();
    put(&server, &given_to("bing"));
    let elector = Setup { watch: true, ..baz() }.start(&server);
    pass(1.0).await;
    assert!(!elector.status.is_leader());
    take_verbs(&server);
    put(&server, &given_to("baz"));
    pass(0.01).await;
    assert!(elector.status.is_leader());
    assert_eq!(take_verbs(&server), ["update"]);
}

#[tokio::test(start_paused = true)]
async fn coordinated_elector_never_takes_an_unassigned_lock() {
    let preferred = LeaderElectionRecord { preferred_holder: Some("bing".into()), ..given_to("baz") };
    let myself = LeaderElectionRecord { preferred_holder: Some("baz".into()), ..given_to("baz") };
    for given in [None, Some(given_to("bing")), Some(given_to("")), Some(preferred), Some(myself)] {
        for watch in [false, true] {
            let server = server();
            if let Some(given) = &given {
                put(&server, given);
            }
            let elector = Setup { watch, ..baz() }.start(&server);
            pass(60.0).await;
            let verbs = take_verbs(&server);
            assert!(verbs.iter().all(|verb| verb == "get" || verb == "watch"), "{given:?}: {verbs:?}");
            assert!(!elector.status.is_leader());
            elector.stop().await;
            assert!(take_verbs(&server).is_empty(), "{given:?}");
        }
    }
}

/// The control plane may assign an expired lock to another candidate, but writes nothing if it selects the same
/// candidate.
#[tokio::test(start_paused = true)]
async fn expired_assignment_is_taken_after_another_lease_duration() {
    let server = server();
    put(&server, &given_to("baz"));
    let client = server.client("baz");
    client.faults().when(|request| {
        (request.verb() == pintle_testing::Verb::Update)
            .then(|| pintle_testing::Outcome::refused(503, pintle_meta::Reason::ServiceUnavailable))
    });
    let elector = baz().start_with(client);
    pass(5.5).await;
    elector.client.faults().heal();
    take_verbs(&server);
    // The candidate has read the assignment immediately, and the assignment is valid for five seconds.
    pass(14.4).await;
    assert!(take_verbs(&server).iter().all(|verb| verb == "get"));
    assert!(!elector.status.is_leader());
    pass(4.6).await;
    assert!(elector.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn partitioned_leader_leads_again_if_still_named() {
    for watch in [false, true] {
        let server = server();
        put(&server, &given_to("baz"));
        let elector = Setup { watch, ..baz() }.start(&server);
        pass(3.0).await;
        assert!(elector.status.is_leader());
        elector.client.faults().cut_off();
        pass(40.0).await;
        assert!(!elector.status.is_leader());
        elector.client.faults().heal();
        pass(35.0).await;
        assert!(elector.status.is_leader(), "watched: {watch}");
    }
}

/// The control plane immediately creates a new lock, while the leader of the deleted lock may still be active.
#[tokio::test(start_paused = true)]
async fn named_candidate_waits_for_leader_of_deleted_lock() {
    for (watch, wait_after_deletion, waits) in [(true, true, true), (false, true, true), (true, false, false)] {
        let server = server();
        put(&server, &given_to("bing"));
        let mut setup = Setup { watch, ..baz() };
        setup.config.wait_after_deletion = wait_after_deletion;
        let elector = setup.start(&server);
        pass(2.0).await;
        delete(&server);
        put(&server, &given_to("baz"));
        pass(if waits { 19.9 } else { 0.1 }).await;
        assert_eq!(elector.status.is_leader(), !waits, "watched: {watch}");
        pass(9.0).await;
        assert!(elector.status.is_leader(), "watched: {watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn unpreferred_leader_drains_without_renewal_and_releases() {
    for watch in [false, true] {
        let server = server();
        put(&server, &given_to("baz"));
        let story = Story::new();
        let drain = Duration::from_secs(3);
        let elector = Setup { watch, drain, story: Some(story.clone()), ..baz() }.start(&server);
        pass(1.0).await;
        preferring(&server, "bing");
        let preferred = record(&server);
        // Without a watch, the leader notices the preferred holder at its next renewal, and leads until its work has
        // ended.
        pass(2.5).await;
        assert!(elector.status.is_leader());
        assert_eq!(record(&server), preferred, "the leader does not renew while another candidate is preferred");
        pass(2.0).await;
        assert!(!elector.status.is_leader());
        let released = record(&server);
        assert_eq!((holder(&server).as_str(), released.strategy, released.preferred_holder), ("", None, None));
        let deeds = story.take_deeds();
        assert_eq!(deeds[1..4], ["baz works", "baz rests", "baz stopped: Preferred { other: \"bing\" }"]);
        put(&server, &given_to("baz"));
        pass(5.0).await;
        assert!(elector.status.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_ignores_a_preferred_holder_is_dropped() {
    let server = server();
    put(&server, &given_to("baz"));
    let story = Story::new();
    let drain = Duration::from_secs(3_600);
    let _elector = Setup { watch: true, drain, story: Some(story.clone()), ..baz() }.start(&server);
    pass(7.0).await;
    preferring(&server, "bing");
    pass(60.0).await;
    let deeds = story.take();
    assert!(deeds.contains(&"16.0 baz stopped: Deadline".to_owned()), "the last renewal was at 6.0: {deeds:?}");
    // bing is still the preferred holder, so baz does not acquire the lease again.
    assert_eq!((holder(&server).as_str(), record(&server).preferred_holder.as_deref()), ("baz", Some("bing")));
}

#[tokio::test(start_paused = true)]
async fn uncoordinated_elector_keeps_coordination_fields() {
    let server = server();
    put(&server, &LeaderElectionRecord { preferred_holder: Some("bing".into()), ..given_to("") });
    let elector = Setup::new("baz").start(&server);
    pass(5.0).await;
    assert!(elector.status.is_leader());
    let found = record(&server);
    assert_eq!(
        (found.strategy.as_deref(), found.preferred_holder.as_deref()),
        (Some(OLDEST_EMULATION_VERSION), Some("bing"))
    );
}
