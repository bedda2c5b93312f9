//! Tests of the sizes of futures. A future can grow unnoticed, because it stores the futures that it
//! awaits.

use pintle_leaderelect::{Leadership, Lease};
use pintle_sharding::{Shard, Shards, ShardsConfig};
use pintle_testing::Collection;
use tokio_util::sync::CancellationToken;

/// Work with a large future.
async fn large(leadership: Leadership) -> u8 {
    let large = [1; 64 * 1024];
    leadership.cancelled().await;
    large.iter().fold(0, |sum: u8, one| sum.wrapping_add(*one))
}

#[tokio::test]
async fn run_future_of_shards_is_small_for_any_work() {
    let leases = Collection::<Lease>::default();
    let mut shards = Shards::start(leases, "kube-system", "site", ShardsConfig::default()).unwrap();
    let size =
        size_of_val(&shards.run(&CancellationToken::new(), async |_: Shard, leadership| large(leadership).await));
    assert!(size <= 8_192, "{size}");
}
