//! Tests of the sizes of futures that programs spawn or join. A future stores the futures that it awaits, so it can grow
//! unnoticed.

use pintle_leaderelect::{
    Candidate, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, LeaseCandidate, LeaseCandidateSpec,
    LeaseLock,
};
use pintle_testing::Collection;
use tokio_util::sync::CancellationToken;

use crate::server::{NAME, NAMESPACE, server};

async fn large(leadership: Leadership) -> u8 {
    let large = [1; 64 * 1024];
    leadership.cancelled().await;
    large.iter().fold(0, |sum: u8, one| sum.wrapping_add(*one))
}

#[tokio::test]
async fn run_futures_are_small_for_any_work() {
    let stop = CancellationToken::new();
    let lock = LeaseLock::new(server(), NAMESPACE, NAME);
    let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default()).unwrap();
    let candidates = Collection::<LeaseCandidate>::default();
    let candidate = Candidate::new(candidates, NAMESPACE, "me", LeaseCandidateSpec::new(NAME, "1.0.0"));
    let run = size_of_val(&elector.run(&stop, LeaderCallbacks::new(large)));
    let once = size_of_val(&elector.run_once(&stop, LeaderCallbacks::new(large)));
    let candidate = size_of_val(&candidate.run(&stop));
    let sizes = [run, once, candidate];
    assert!(sizes.iter().all(|size| *size <= 8_192), "{sizes:?}");
}
