//! Tests that expensive request bodies and responses do not delay other requests of a server with a single thread.

use std::sync::Arc;
use std::time::Duration;

use pintle_apiserver::ApiServer;
use rustix::time::ClockId;
use tokio::time::Instant;

use crate::answers::answers;
use crate::bodies::{begin, bodies};
use crate::support::{PATIENCE, get};
use crate::{TURN, cpu_time, cpu_time_of_other_threads};

async fn assert_ready(server: &ApiServer) {
    let ready = tokio::time::timeout(PATIENCE, get(server, "/readyz")).await;
    assert_eq!(ready.map(|answer| answer.code), Ok(200));
}

#[tokio::test]
async fn heavy_bodies_do_not_block_a_single_threaded_server() {
    // The body that the server rejects early because of its deep nesting.
    const REFUSED: &str = "nested flow lists";
    let _turn = TURN.lock().await;
    for heavy in bodies(400).iter().filter(|heavy| heavy.name != REFUSED) {
        assert_offloaded(heavy.name, async || begin(heavy, false).await).await;
    }
}

#[tokio::test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
async fn heavy_responses_do_not_block_a_single_threaded_server() {
    let _turn = TURN.lock().await;
    for heavy in answers() {
        // Each attempt uses new objects, because objects cache their encodings.
        let begin = async || {
            let server = heavy.serve().await;
            let work = heavy.clone().read(server.clone());
            (server, work)
        };
        assert_offloaded(heavy.name, begin).await;
    }
}

/// Asserts that the server, which runs on this thread, processes a request on other threads. Compares the CPU time of
/// this thread between two responses with the CPU time of all other threads. The comparison of CPU times does not
/// depend on the load or the speed of the machine.
async fn assert_offloaded<W>(name: &str, begin: impl AsyncFn() -> (Arc<ApiServer>, W))
where
    W: Future<Output = ()> + Send + 'static,
{
    // With this limit, a response takes at most a second, even if ten other threads compete for the processor.
    const LONGEST: Duration = Duration::from_millis(100);
    // This thread uses about 4 ms of CPU time, and the other threads use 13 to 700 ms. Without offloading, the other
    // threads would use almost none. The test passes after one successful attempt.
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

/// Returns the maximum CPU time that this thread uses between two responses while the server processes `work`.
async fn longest_between_answers(server: &ApiServer, work: impl Future<Output = ()> + Send + 'static) -> Duration {
    assert_ready(server).await;
    let mut longest = Duration::ZERO;
    let mut last_response = cpu_time(ClockId::ThreadCPUTime);
    let work = tokio::spawn(work);
    while !work.is_finished() {
        assert_ready(server).await;
        let now = cpu_time(ClockId::ThreadCPUTime);
        longest = longest.max(now.saturating_sub(last_response));
        last_response = now;
    }
    work.await.expect("no panic");
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
async fn heavy_bodies_do_not_hold_locks_that_readiness_needs() {
    const LIMIT: Duration = Duration::from_millis(300);
    let _turn = TURN.lock().await;
    // The test passes if at least one attempt is fast, because other processes can slow down attempts. If the server
    // held a lock while processing a body, all attempts would be slow.
    const TRIES: usize = 5;
    let is_long = |(wait, whole): &(Duration, Duration)| *wait > LIMIT && *wait > *whole / 4;
    for heavy in bodies(400) {
        let mut waits = Vec::new();
        while waits.last().is_none_or(is_long) {
            assert!(waits.len() < TRIES, "{}: {waits:?}", heavy.name);
            let (server, work) = begin(&heavy, true).await;
            let (work, start) = (tokio::spawn(work), Instant::now());
            let mut longest = Duration::ZERO;
            while !work.is_finished() {
                let began = Instant::now();
                assert_ready(&server).await;
                longest = longest.max(began.elapsed());
            }
            work.await.expect("no panic");
            waits.push((longest, start.elapsed()));
        }
    }
}
