//! Tests that reproduce bugs of other electors. Each of these bugs caused two leaders at the same time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_leaderelect::{EndReason, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeaseLock};
use pintle_testing::Outcome;
use tokio_util::sync::CancellationToken;

use crate::contender::{Setup, Story, pass};
use crate::server::{NAME, NAMESPACE, holder, server};

/// The stop hook of the leader's work hangs, and the elector can no longer renew the term.
#[tokio::test(start_paused = true)]
async fn cilium_42920_hanging_stop_hook_is_dropped_at_deadline() {
    let server = server();
    let story = Story::new();
    let a = Setup { drain: Duration::from_secs(3_600), story: Some(story.clone()), ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    let _b = Setup { watch: true, story: Some(story.clone()), ..Setup::new("b") }.start(&server);
    a.stop.cancel();
    pass(8.5).await;
    a.client.faults().cut_off();
    pass(30.0).await;
    let deeds: Vec<_> = story.take().into_iter().filter(|deed| !deed.contains("sees")).collect();
    assert_eq!(deeds[..3], ["0.0 a works", "18.0 a rests", "18.0 a stopped: Deadline"]);
    let [_, _, _, taken] = &deeds[..] else { panic!("{deeds:?}") };
    assert!(taken.ends_with("b works") && taken.as_str() > "23.0", "{deeds:?}");
}

/// In kyverno, a task that runs the leader's work ends with the process instead of the term.
#[tokio::test(start_paused = true)]
async fn kyverno_14984_spawned_work_ends_with_its_term() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let (guard, steps) = (a.guard(), Arc::new(Mutex::new(0)));
    let counted = steps.clone();
    let task = tokio::spawn(async move {
        let ran = guard.run(async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                *counted.lock().unwrap() += 1;
            }
        });
        ran.await.map_err(|lost: pintle_leaderelect::LeadershipLost| lost.reason)
    });
    pass(2.5).await;
    a.client.faults().cut_off();
    pass(60.0).await;
    let ended: Result<(), _> = task.await.unwrap();
    assert_eq!(ended, Err(EndReason::Deadline));
    // The leader's work makes one step per second until its deadline, which is ten seconds after the renewal at
    // second 2.0.
    assert_eq!(*steps.lock().unwrap(), 10);
}

/// The process exits immediately after its election has ended, so the lock must be released before.
#[tokio::test(start_paused = true)]
async fn datadog_agent_55626_lock_is_released_before_run_returns() {
    for slow in [0, 2] {
        let server = server();
        let a = Setup::new("a").start(&server);
        pass(1.0).await;
        a.client.faults().next([Outcome::Pass, Outcome::AnswerSlow(Duration::from_secs(slow))]);
        let status = a.status.clone();
        assert_eq!(a.stop().await, Some(EndReason::Cancelled));
        assert_eq!(holder(&server), "");
        assert!(!status.is_leader());
    }
}

/// In fabric8, the leader's work started before the elector knew the result of its write.
#[tokio::test(start_paused = true)]
async fn fabric8_7350_work_begins_after_record_is_stored() {
    let server = server();
    let client = server.client("a");
    client.faults().next([Outcome::Pass, Outcome::AnswerSlow(Duration::from_secs(2))]);
    let mut elector =
        LeaderElector::new(LeaseLock::new(client, NAMESPACE, NAME), LeaderElectionConfig::default()).unwrap();
    let status = elector.status();
    let begun = Mutex::new(Vec::new());
    let start = tokio::time::Instant::now();
    let callbacks = LeaderCallbacks::new(async |leadership: Leadership| {
        let holder = holder(&server);
        begun.lock().unwrap().push((start.elapsed().as_secs(), holder == leadership.term().record.holder_identity));
    });
    let ended = elector.run(&CancellationToken::new(), callbacks).await;
    assert_eq!(ended.map(|end| end.reason), Some(EndReason::Completed));
    assert_eq!(*begun.lock().unwrap(), [(2, true)]);
    assert!(!status.is_leader());
}
