//! Tests port forwarding. The peer is a scripted WebSocket server.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::soon;
use crate::websocket_server::{Peer, V4, pods};

#[tokio::test]
async fn port_forward_passes_data_both_ways() {
    let (pods, server) = pods(async |peer: Peer| {
        let target = peer.target().to_owned();
        assert_eq!(peer.header("sec-websocket-protocol"), Some(V4));
        let mut socket = peer.accept(V4).await;
        // The port number at the start of a channel may arrive in one message or in several messages.
        socket.send(0, [0x90]).await;
        socket.send(0, [0x1f, b'h', b'i']).await;
        socket.send(1, [0x90, 0x1f]).await;
        assert_eq!(socket.next().await.unwrap(), "\0ping");
        socket.send(0, "pong").await;
        socket.close().await;
        target
    })
    .await;
    soon(async {
        let mut port = pods.port_forward("web-1", 8080).await.unwrap();
        port.write_all(b"ping").await.unwrap();
        port.shutdown().await.expect("shutting down only flushes");
        let mut text = String::new();
        port.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hipong");
    })
    .await;
    assert!(server.await.unwrap().ends_with("/namespaces/team-a/pods/web-1/portforward?ports=8080"));
}

#[tokio::test]
async fn unreachable_port_is_a_read_error() {
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V4).await;
        socket.send(0, [0x50, 0]).await;
        socket.send(1, [0x50, 0]).await;
        socket.send(1, "error forwarding port 80: connection refused\n").await;
        socket.close().await;
    })
    .await;
    let mut port = soon(pods.port_forward("web-1", 80)).await.unwrap();
    let error = soon(port.read_to_end(&mut Vec::new())).await.unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("GET http://") && said.contains("ports=80: error forwarding port 80"), "{said}");
    server.await.unwrap();
}

#[tokio::test]
async fn dropped_port_forward_closes_the_connection() {
    let (pods, server) = pods(async |peer: Peer| peer.accept(V4).await.next().await).await;
    drop(soon(pods.port_forward("web-1", 80)).await.unwrap());
    assert_eq!(soon(server).await.unwrap(), None);
    let error = pods.port_forward("web-1", 0).await.unwrap_err();
    assert!(error.to_string().contains("port 0 is not a port"), "{error}");
}
