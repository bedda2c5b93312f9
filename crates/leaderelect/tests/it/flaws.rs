//! Tests that this crate's elector does not share the flaws of client-go's elector (rows F1 to F7 in `tests/ROWS.md`).

use std::time::Duration;

use pintle_leaderelect::{EndReason, LeaderElectionRecord};
use pintle_meta::Object;
use pintle_testing::Outcome;

use crate::contender::{Setup, Story, pass};
use crate::server::{delete, holder, lease, put, record, server};

fn held_by(holder: &str, transitions: i32) -> LeaderElectionRecord {
    LeaderElectionRecord {
        holder_identity: holder.into(),
        lease_duration_seconds: 15,
        leader_transitions: transitions,
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn f1_release_never_blanks_the_record_of_successor() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    // A partition begins at the same time as the stop. Therefore, the release reads the lock after the next leader has
    // acquired it.
    a.client.faults().cut_off();
    a.stop.cancel();
    pass(2.0).await;
    put(&server, &held_by("b", 1));
    a.client.faults().heal();
    assert_eq!(a.run.await.unwrap(), Some(EndReason::Cancelled));
    assert_eq!(record(&server), held_by("b", 1));
}

#[tokio::test(start_paused = true)]
async fn f2_hanging_release_does_not_keep_work_alive() {
    let server = server();
    let story = Story::new();
    let shared = || Some(story.clone());
    let a = Setup { drain: Duration::from_secs(60), story: shared(), ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    let b = Setup { story: shared(), ..Setup::new("b") }.start(&server);
    pass(2.5).await;
    a.client.faults().cut_off();
    a.stop.cancel();
    pass(30.0).await;
    let deeds: Vec<_> = story.take_deeds().into_iter().filter(|deed| !deed.contains("sees")).collect();
    assert_eq!(deeds, ["a works", "a rests", "a stopped: Deadline", "b works"]);
    assert!(a.run.await.unwrap() == Some(EndReason::Deadline) && b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn f3_lock_is_released_only_after_work_has_ended() {
    let server = server();
    let a = Setup { drain: Duration::from_secs(40), ..Setup::new("a") }.start(&server);
    pass(1.0).await;
    a.stop.cancel();
    let b = Setup::new("b").start(&server);
    pass(39.5).await;
    assert!(a.guard().check().is_ok(), "a draining term is renewed");
    assert_eq!(holder(&server), "a");
    assert_eq!(a.run.await.unwrap(), Some(EndReason::Cancelled));
    assert_eq!(a.story.take_deeds(), ["a sees \"a\"", "a works", "a rests", "a stopped: Cancelled", "a sees \"\""]);
    pass(5.0).await;
    assert!(b.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn f4_leader_ends_work_when_it_reads_another_holder() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    put(&server, &held_by("b", 1));
    // The next renewal is due two seconds after the term began.
    pass(1.1).await;
    let expected = ["0.0 a sees \"a\"", "0.0 a works", "2.0 a rests", "2.0 a stopped: TakenBy { by: \"b\" }"];
    let story = a.story.take();
    assert!(expected.iter().all(|line| story.contains(&(*line).to_owned())), "{story:?}");
    assert!(!a.status.is_leader());
}

#[tokio::test(start_paused = true)]
async fn f4_watch_event_ends_the_work_before_the_renewal() {
    let server = server();
    let a = Setup { watch: true, ..Setup::new("a") }.start(&server);
    pass(0.5).await;
    put(&server, &held_by("b", 1));
    pass(0.1).await;
    assert!(a.story.take().contains(&"0.5 a stopped: TakenBy { by: \"b\" }".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn f5_term_never_resumes_after_another_holder() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let first = a.guard();
    put(&server, &held_by("", 0));
    pass(30.0).await;
    let deeds = a.story.take_deeds();
    let works = deeds.iter().filter(|deed| *deed == "a works").count();
    assert_eq!(works, 2, "{deeds:?}");
    assert!(deeds.contains(&"a stopped: TakenBy { by: \"\" }".to_owned()), "{deeds:?}");
    assert!(first.check().is_err(), "the guard of the first term is valid again");
    assert!(a.guard().check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn f6_deadline_counts_from_sending_the_last_stored_renewal() {
    let server = server();
    let client = server.client("a");
    // The get and the create succeed. The response to one renewal takes three seconds, and no later request gets a
    // response.
    client.faults().next([Outcome::Pass, Outcome::Pass, Outcome::AnswerSlow(Duration::from_secs(3))]);
    let a = Setup::new("a").start_with(client);
    pass(4.0).await;
    a.client.faults().cut_off();
    pass(20.0).await;
    let story = a.story.take();
    assert!(
        story.contains(&"12.0 a stopped: Deadline".to_owned()),
        "the renewal was sent at 2.0, so the term is over at 12.0: {story:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn f7_deleted_lock_ends_the_term() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(1.0).await;
    let first = lease(&server).unwrap();
    delete(&server);
    pass(3.0).await;
    let deeds = a.story.take_deeds();
    let expected = ["a works", "a rests", "a stopped: Deleted", "a works"];
    let deeds: Vec<_> = deeds.iter().filter(|deed| !deed.contains("sees")).collect();
    assert_eq!(deeds, expected);
    let second = lease(&server).unwrap();
    assert_ne!(second.uid(), first.uid());
    assert_eq!(a.guard().term().version.uid, second.uid());
}
