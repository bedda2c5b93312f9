//! Beside each heavy body, and each heavy answer, other requests are answered: also by a server that has one thread.

mod answers;

use std::time::Duration;

use answers::answers;
use pintle_apiserver::ApiServer;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::heavy_bodies::{begin, bodies};
use crate::support::*;

fn spent(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("less than a second"))
}

async fn assert_ready(server: &ApiServer) {
    let ready = tokio::time::timeout(PATIENCE, get(server, "/readyz")).await;
    assert_eq!(ready.map(|answer| answer.code), Ok(200));
}

// The server shares the only thread of this test. What is measured is for how long that thread works between two answers, by the time
// that the processors give to it: others who want them make that no longer, however many they are. It takes some 2 ms, and 60 to 700
// where all is done on that thread. A thread that works so long has answered within a second where ten others want its processor.
#[tokio::test]
async fn a_server_of_one_thread_tells_its_readiness_within_a_second_beside_each_heavy_body() {
    const LONGEST: Duration = Duration::from_millis(100);
    for heavy in bodies(1000) {
        let (server, work) = begin(&heavy, false).await;
        let longest = longest_between_answers(&server, work).await;
        assert!(longest < LONGEST, "{}: {longest:?}", heavy.name);
    }
}

#[tokio::test]
async fn a_server_of_one_thread_tells_its_readiness_within_a_second_beside_each_heavy_answer() {
    // It takes some 4 ms, and 13 to 160 where all is done on that thread. Of a few tries the least counts.
    const LONGEST: Duration = Duration::from_millis(10);
    const TRIES: usize = 4;
    for heavy in answers() {
        let mut tries = Vec::new();
        while tries.last().is_none_or(|longest| *longest >= LONGEST) {
            assert!(tries.len() < TRIES, "{}: {tries:?}", heavy.name);
            // What is made of an object is kept with it: each try has another.
            let server = heavy.serve().await;
            tries.push(longest_between_answers(&server, heavy.clone().ask(server.clone())).await);
        }
    }
}

/// For how long this thread works at most between two answers while it does that work, too.
async fn longest_between_answers(server: &ApiServer, work: impl Future<Output = ()> + Send + 'static) -> Duration {
    assert_ready(server).await;
    let mut longest = Duration::ZERO;
    let mut answered = spent(ClockId::ThreadCPUTime);
    let work = tokio::spawn(work);
    while !work.is_finished() {
        assert_ready(server).await;
        let now = spent(ClockId::ThreadCPUTime);
        longest = longest.max(now.saturating_sub(answered));
        answered = now;
    }
    work.await.expect("no panic");
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lock_is_held_for_a_heavy_body_that_readiness_waits_for() {
    const LIMIT: Duration = Duration::from_secs(1);
    // What is measured shares the processors with whatever runs beside this test, which now and then takes them for a while; a server that
    // holds its store for such a body does so each time.
    const TRIES: usize = 5;
    for heavy in bodies(1000) {
        let mut waits = Vec::new();
        while waits.last().is_none_or(|wait| *wait > LIMIT) {
            assert!(waits.len() < TRIES, "{}: {waits:?}", heavy.name);
            let (server, work) = begin(&heavy, true).await;
            let work = tokio::spawn(work);
            let mut longest = Duration::ZERO;
            while !work.is_finished() {
                let begun = Instant::now();
                assert_ready(&server).await;
                longest = longest.max(begun.elapsed());
            }
            work.await.expect("no panic");
            waits.push(longest);
        }
    }
}
