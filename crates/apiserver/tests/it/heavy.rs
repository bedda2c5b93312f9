//! Beside each heavy body, and each heavy answer, other requests are answered: also by a server that has one thread.

mod answers;

use std::sync::Arc;
use std::time::Duration;

use answers::answers;
use pintle_apiserver::ApiServer;
use rustix::time::ClockId;
use tokio::time::Instant;

use crate::heavy_bodies::{begin, bodies};
use crate::support::*;

async fn assert_ready(server: &ApiServer) {
    let ready = tokio::time::timeout(PATIENCE, get(server, "/readyz")).await;
    assert_eq!(ready.map(|answer| answer.code), Ok(200));
}

#[tokio::test]
async fn a_server_of_one_thread_tells_its_readiness_within_a_second_beside_each_heavy_body() {
    // They nest too deeply, so that nobody goes on to read them.
    const REFUSED: &str = "nested flow lists";
    for heavy in bodies(1000).iter().filter(|heavy| heavy.name != REFUSED) {
        assert_done_apart(heavy.name, async || begin(heavy, false).await).await;
    }
}

#[tokio::test]
async fn a_server_of_one_thread_tells_its_readiness_within_a_second_beside_each_heavy_answer() {
    for heavy in answers() {
        // What is made of an object is kept with it: each try has another.
        let begin = async || {
            let server = heavy.serve().await;
            let work = heavy.clone().ask(server.clone());
            (server, work)
        };
        assert_done_apart(heavy.name, begin).await;
    }
}

/// Holds for how long this thread works between two answers, which it shares with the server, against what other threads do meanwhile, by
/// the time that the processors give to them: who else wants them makes that no longer, nor does it hang on how fast they are.
async fn assert_done_apart<W>(name: &str, begin: impl AsyncFn() -> (Arc<ApiServer>, W))
where
    W: Future<Output = ()> + Send + 'static,
{
    // A thread that works so long has answered within a second where ten others want its processor.
    const LONGEST: Duration = Duration::from_millis(100);
    // This thread takes some 4 ms, and the others 13 to 700; hardly any where all is done on this one. Of a few tries
    // the best counts.
    const TRIES: usize = 4;
    let mut tries: Vec<(Duration, Duration)> = Vec::new();
    while tries.last().is_none_or(|(longest, others)| *longest >= LONGEST.min(*others / 2)) {
        assert!(tries.len() < TRIES, "{name}: {tries:?}");
        let (server, work) = begin().await;
        let before = cpu_time_of_other_threads();
        let longest = longest_between_answers(&server, work).await;
        tries.push((longest, cpu_time_of_other_threads().saturating_sub(before)));
    }
}

/// For how long this thread works at most between two answers while it does that work, too.
async fn longest_between_answers(server: &ApiServer, work: impl Future<Output = ()> + Send + 'static) -> Duration {
    assert_ready(server).await;
    let mut longest = Duration::ZERO;
    let mut answered = cpu_time(ClockId::ThreadCPUTime);
    let work = tokio::spawn(work);
    while !work.is_finished() {
        assert_ready(server).await;
        let now = cpu_time(ClockId::ThreadCPUTime);
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
