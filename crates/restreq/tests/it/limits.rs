//! Tests of rate limiters and backoffs that belong to a single request.

use std::time::Duration;

use pintle_ratelimit::{ItemBackoffConfig, Throttle, TokioClock};
use pintle_restreq::{RestClient, RestClientConfig};
use tokio::time::Instant;

use crate::support::{Reply, Server, steady_clock};

#[tokio::test(start_paused = true)]
async fn limiter_of_a_request_replaces_that_of_the_client() {
    let server = Server::start([]).await;
    let mut config = server.config();
    (config.qps, config.burst) = (Some(0.001), Some(1));
    let client = RestClient::new(config).unwrap();
    let _clock = steady_clock();
    let limiter = Throttle::new(0.1, 1, TokioClock);
    let started = Instant::now();
    for _ in 0..3 {
        client.get().abs_path(["/a"]).limiter(limiter.clone()).send().await.unwrap();
    }
    let waited = started.elapsed().as_secs();
    assert!((20..60).contains(&waited), "{waited}");
    client.get().abs_path(["/a"]).send().await.expect("the limiter's only token is still available");
    assert!(started.elapsed().as_secs() < 100);
    client.get().abs_path(["/a"]).limiter(limiter).unthrottled().send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn backoff_of_a_request_is_its_own() {
    let server = Server::always(Reply::json(500, "{}")).await;
    let client = RestClient::new(RestClientConfig { backoff: None, ..server.config().into() }).unwrap();
    let _clock = steady_clock();
    let backoff = ItemBackoffConfig { base: Duration::from_secs(10), ..ItemBackoffConfig::default() };
    let request = client.get().abs_path(["/a"]).backoff(backoff);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        request.clone().send().await.unwrap_err();
        waits.push(started.elapsed().as_secs() / 10);
    }
    assert_eq!(waits, [0, 1, 2], "clones share the backoff, which doubles");
    let started = Instant::now();
    client.get().abs_path(["/a"]).send().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5), "other requests do not wait");
}
