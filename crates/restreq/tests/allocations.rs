//! Tests the number of allocations of a GET. This file contains a single test, because the allocator counts the
//! allocations of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use pintle_meta::ClientConfig;
use pintle_restreq::RestClient;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

/// Answers all requests on one connection without an allocation.
fn serve(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut buffer, mut length) = ([0; 4096], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer[length..]) {
        length += read;
        if buffer[..length].ends_with(b"\r\n\r\n") {
            stream.write_all(RESPONSE).unwrap();
            length = 0;
        }
    }
}

#[tokio::test]
async fn get_makes_at_most_fifteen_allocations() {
    const GETS: usize = 100;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = RestClient::new(ClientConfig::new(format!("http://{}", listener.local_addr().unwrap()))).unwrap();
    thread::spawn(move || serve(&listener));
    let get = async || client.get().namespace("default").resource("configmaps").name("small").raw().await.unwrap();
    // The first request opens the connection.
    assert_eq!(get().await, "{}");
    let region = Region::new(ALLOCATOR);
    for _ in 0..GETS {
        get().await;
    }
    let allocations = region.change().allocations;
    assert!(allocations <= 15 * GETS, "{allocations} allocations for {GETS} requests");
}
