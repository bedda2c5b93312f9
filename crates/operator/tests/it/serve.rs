//! Tests of probes and metrics over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_leaderelect::LeaderElectionConfig;
use pintle_operator::{Controller, OperatorError};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http::{ReservedAddress, get, listen};
use crate::support::{ConfigMap, Running, Website, World, eventually, publish, soon};

#[tokio::test]
async fn probes_and_metrics_are_served() {
    let world = World::with_site("blog").await;
    let (reserved, is_broken) = (ReservedAddress::new(), Arc::new(AtomicBool::new(false)));
    let (address, broken) = (reserved.address, is_broken.clone());
    let manager = world
        .manager()
        .serve(address)
        .readiness("dns", move || if broken.load(Ordering::SeqCst) { Err("no answer".into()) } else { Ok(()) })
        .liveness("panics", || panic!("a user's check"))
        .controller(Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish));
    let running = Running::start(manager);
    eventually("ready", async || get(address, "/readyz").await.filter(|response| *response == (200, "ok".into())))
        .await;
    eventually("the child exists", async || world.child("blog").await.ok()).await;
    let (status, verbose) = get(address, "/readyz?verbose").await.unwrap();
    assert!(status == 200 && verbose.contains("[+]website ok\n") && verbose.contains("[+]dns ok\n"), "{verbose}");
    is_broken.store(true, Ordering::SeqCst);
    let (status, body) = get(address, "/readyz").await.unwrap();
    assert!(status == 500 && body.contains("[-]dns failed: no answer"), "{body}");
    let (status, body) = get(address, "/healthz").await.unwrap();
    assert!(status == 500 && body.contains("[-]panics failed: the check panicked"), "{body}");
    let (status, body) = get(address, "/metrics").await.unwrap();
    assert!(status == 200 && body.contains("controller_runtime_active_workers{controller=\"website\"}"), "{body}");
    assert!(body.ends_with("# EOF\n"));
    assert_eq!(get(address, "/other").await.unwrap().0, 404);
    running.stop().await.unwrap();
    assert!(get(address, "/healthz").await.is_none(), "the server ends with the manager");
}

#[tokio::test]
async fn forbidden_lease_makes_the_replica_unready() {
    let world = World::with_site("blog").await;
    let forbidden = Rule { resource: Some("leases".into()), times: None, ..Rule::new(Fault::Answer(Answer::new(403))) };
    let faults = world.cluster.server().unwrap().faults();
    let rule = faults.add(forbidden);
    let (listener, address) = listen().await;
    let election = LeaderElectionConfig {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(500),
        retry_period: Duration::from_millis(100),
        ..LeaderElectionConfig::default()
    };
    let manager = world.manager().serve_on(listener).leader_election_with(election);
    let running =
        Running::start(manager.controller(Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish)));
    let problem =
        "[-]leaderElection failed: leader election by default/website-controller: cannot read or write the lock";
    eventually("not ready", async || get(address, "/readyz").await.filter(|ready| ready.1.contains(problem))).await;
    let debug: Value = serde_json::from_str(&get(address, "/debug.json").await.unwrap().1).unwrap();
    assert!(debug["leader"]["last_error"].as_str().is_some_and(|error| error.contains("403")), "{}", debug["leader"]);
    faults.remove(rule);
    eventually("ready", async || get(address, "/readyz").await.filter(|ready| ready.0 == 200)).await;
    eventually("no error", async || {
        let debug: Value = serde_json::from_str(&get(address, "/debug.json").await?.1).unwrap();
        debug["leader"]["last_error"].is_null().then_some(())
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn address_in_use_is_an_error() {
    let world = World::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let manager = world.manager().serve(taken.local_addr().unwrap());
    let error = soon(manager.run(&CancellationToken::new())).await.unwrap_err();
    assert!(matches!(error, OperatorError::Listen { .. }), "{error}");
}

/// The kubelet's default timeout for a probe is one second. This test uses a longer timeout, because the machine may
/// be busy. The timeout is still shorter than the time that a client may take to send a request.
#[tokio::test]
async fn probes_are_answered_despite_many_silent_connections() {
    let world = World::start().await;
    let (listener, address) = listen().await;
    let running = Running::start(world.manager().serve_on(listener));
    eventually("live", async || get(address, "/healthz").await).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let probe = timeout(Duration::from_secs(4), get(address, "/healthz")).await;
    running.stop().await.unwrap();
    assert_eq!(probe.expect("the server answers at once").unwrap().0, 200);
}
