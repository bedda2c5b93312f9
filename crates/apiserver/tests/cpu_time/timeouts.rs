//! Tests of timeouts while another thread processes a body.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::json;
use tokio::time::Instant;
use tower_service::Service;

use crate::support::{CONFIG_MAPS, get};
use crate::{TURN, cpu_time_of_other_threads};

#[tokio::test(start_paused = true)]
async fn slow_work_times_out_and_writes_nothing_afterwards() {
    let _turn = TURN.lock().await;
    let server = Arc::new(ApiServer::start(ApiServerConfig::default()).await.expect("a server"));
    let data: pintle_json::Map = (0..60_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "heavy"}, "data": data}).to_string();
    let request = http::Request::post(format!("{CONFIG_MAPS}?timeout=20s")).header("content-type", "application/yaml");
    let request = request.body(http_body_util::Full::new(Bytes::from(object))).expect("a request");
    let (begun, others) = (Instant::now(), cpu_time_of_other_threads());
    let work = tokio::spawn(server.in_process().call(request));
    // Wait until the CPU time of the other threads shows that the offloaded work has begun.
    while cpu_time_of_other_threads().saturating_sub(others) < Duration::from_millis(20) {
        assert!(!work.is_finished());
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(20)).await;
    let answer = work.await.expect("no panic").expect("an answer");
    assert_eq!((answer.status().as_u16(), begun.elapsed()), (504, Duration::from_secs(20)));
    assert!(answer.headers().contains_key("audit-id"));
    assert!(server.audit().is_empty(), "the work still runs");
    while server.audit().is_empty() {
        tokio::task::yield_now().await;
    }
    let audit = server.audit();
    let record = &audit.records()[0];
    assert_eq!((record.code, record.name.as_str(), record.committed), (504, "", None));
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/heavy")).await.code, 404);
}
