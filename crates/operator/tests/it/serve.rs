//! Probes and metrics over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_operator::{Controller, OperatorError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::{ConfigMap, Running, Website, World, eventually, publish, soon};

/// Returns a free address of the loopback interface.
async fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut connection = TcpStream::connect(address).await.ok()?;
    connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut response = String::new();
    soon(connection.read_to_string(&mut response)).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

#[tokio::test]
async fn probes_and_metrics_are_served() {
    let world = World::with_site("blog").await;
    let (address, is_broken) = (free_address().await, Arc::new(AtomicBool::new(false)));
    let broken = is_broken.clone();
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
async fn address_in_use_is_an_error() {
    let world = World::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let manager = world.manager().serve(taken.local_addr().unwrap());
    let error = soon(manager.run(&CancellationToken::new())).await.unwrap_err();
    assert!(matches!(error, OperatorError::Listen { .. }), "{error}");
}

/// Clients that open connections and send nothing must not keep probes from being answered for long.
#[tokio::test]
async fn silent_connections_do_not_block_probes() {
    let world = World::start().await;
    let address = free_address().await;
    let running = Running::start(world.manager().serve(address));
    eventually("live", async || get(address, "/healthz").await).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(get(address, "/healthz").await.unwrap().0, 200);
    running.stop().await.unwrap();
}
