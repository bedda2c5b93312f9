//! Measures the peak memory usage while a large list is read. The peak is measured for the entire process, so this test
//! needs its own binary.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{Read, Write};
use std::net::TcpListener;

use pintle_meta::{ClientConfig, ListPart, RawObject};
use pintle_restreq::{RestClient, RestClientConfig};

const CHUNK: usize = 64 << 10;

/// The server sends one item of 48 MiB, and then 48 MiB of small items. The environment variable `PINTLE_LIST_MIB` replaces the
/// number 48. The client, whose `max_body` and `max_object` are 1 MiB, must use less than 16 MiB of memory.
#[tokio::test]
async fn list_of_any_size_streams_in_bounded_memory() {
    let mebibytes: usize = std::env::var("PINTLE_LIST_MIB").map_or(48, |size| size.parse().unwrap());
    let chunks = (mebibytes << 20) / CHUNK;
    let item = format!("{{\"text\":\"{}\"}}", "x".repeat(CHUNK / 8 - 12));
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut config = ClientConfig::new(format!("http://{}", server.local_addr().unwrap()));
    let serving = std::thread::spawn({
        let items = [item.as_str(); 8].join(",");
        move || serve(&server, chunks, &items)
    });
    config.max_object = Some(1 << 20);
    let client = RestClient::new(RestClientConfig { max_body: 1 << 20, ..config.into() }).unwrap();

    let before = peak_memory();
    let mut stream = client.get().list().await.unwrap();
    let (mut items, mut large) = (0, Vec::new());
    while let Some(part) = stream.next().await {
        match part.unwrap() {
            ListPart::Item(RawObject::Json(found)) => {
                assert_eq!(found.len(), item.len());
                items += 1;
            }
            ListPart::Item(RawObject::Oversized(found)) => {
                large.push((found.key.unwrap().to_string(), found.size >> 20));
            }
            ListPart::Metadata(metadata) => assert_eq!(metadata.resource_version, "7"),
        }
    }
    let grown = peak_memory() - before;
    assert_eq!((items, large), (chunks * 8, vec![("large".to_owned(), mebibytes as u64)]));
    assert!(grown < 16 << 10, "{grown} KiB for {mebibytes} MiB");
    serving.join().unwrap();
}

/// Responds to a single request with a list. The list consists of one large item of `chunks` × [`CHUNK`] bytes,
/// followed by `chunks` copies of `items`.
fn serve(server: &TcpListener, chunks: usize, items: &str) {
    let (mut stream, _) = server.accept().unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n").unwrap();
    let beginning = r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"large"},"text":""#;
    stream.write_all(beginning.as_bytes()).unwrap();
    for _ in 0..chunks {
        stream.write_all(&[b'x'; CHUNK]).unwrap();
    }
    stream.write_all(b"\"}").unwrap();
    for _ in 0..chunks {
        stream.write_all(b",").unwrap();
        stream.write_all(items.as_bytes()).unwrap();
    }
    stream.write_all(b"]}").unwrap();
}

/// Returns the peak memory usage of this process in KiB, or 0 if the operating system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
