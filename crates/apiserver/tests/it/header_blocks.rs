//! Tests of HTTP/2 header blocks that clients never complete, on connections that also have an open watch. The tests
//! write raw frames, because client libraries cannot send incomplete blocks.

use std::io::ErrorKind;
use std::time::Duration;

use pintle_apiserver::{ApiServer, ApiServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM_AND_HEADERS: u8 = 5;
const FRAME_HEAD: usize = 9;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Returns the header block of a GET request, encoded with HPACK's static table.
fn get(path: &str) -> Vec<u8> {
    let text = |name: u8, value: &str| [&[name, u8::try_from(value.len()).expect("short")], value.as_bytes()].concat();
    [vec![0x82, 0x86], text(0x04, path), text(0x01, "a")].concat()
}

async fn watching(server: &ApiServer) -> TcpStream {
    let mut socket = TcpStream::connect(server.url().trim_start_matches("http://")).await.expect("the server listens");
    let watch = get("/api/v1/namespaces/default/pods?watch=1");
    let bytes = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, END_STREAM_AND_HEADERS, 1, &watch),
    ];
    socket.write_all(&bytes.concat()).await.expect("a request");
    loop {
        let mut head = [0; FRAME_HEAD];
        socket.read_exact(&mut head).await.expect("a frame");
        let [a, b, c, kind, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        socket.read_exact(&mut payload).await.expect("the whole frame");
        if kind == HEADERS {
            return socket;
        }
    }
}

/// Limits each automatic advance of the paused clock to one second. Without this limit, the clock could jump to a later
/// timeout while the server and its client wait for each other.
fn tick() {
    tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
}

fn unfinished(frames: usize) -> Vec<u8> {
    const LENGTH: usize = 16_000;
    // The block starts with the header `x`, which announces a length of 900,000 bytes.
    let value = [0x00, 1, b'x', 0x7f, 0xa1, 0xf6, 0x36];
    let begun = frame(HEADERS, 0, 3, &[get("/version"), value.to_vec()].concat());
    let more = frame(CONTINUATION, 0, 3, &[b'v'; LENGTH]);
    [begun, more.repeat(frames)].concat()
}

#[tokio::test(start_paused = true)]
async fn unfinished_header_block_times_out_despite_an_open_watch() {
    tick();
    for frames in [0, 3] {
        let server = server().await;
        let mut socket = watching(&server).await;
        let began = Instant::now();
        socket.write_all(&unfinished(frames)).await.expect("a block");
        let mut rest = Vec::new();
        // The server closes the connection before it has read the whole request, so the read may fail with a connection
        // reset.
        let read = tokio::time::timeout(Duration::from_secs(900), socket.read_to_end(&mut rest)).await;
        let took = began.elapsed();
        // The server must close the connection because of the incomplete block, and earlier than a ping timeout after
        // 45 seconds.
        assert!(
            read.is_ok() && (Duration::from_secs(32)..Duration::from_secs(40)).contains(&took),
            "{frames}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn slow_but_finished_header_blocks_keep_the_connection() {
    tick();
    let server = server().await;
    let mut socket = watching(&server).await;
    for stream in (3..).step_by(2).take(10) {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let get = get("/version");
        let (first, last) = get.split_at(2);
        let block = [frame(HEADERS, 1, stream, first), frame(CONTINUATION, 4, stream, last)].concat();
        let (first, last) = block.split_at(15);
        socket.write_all(first).await.expect("it is open");
        tokio::time::sleep(Duration::from_secs(10)).await;
        socket.write_all(last).await.expect("it is open");
        let mut received = vec![0; 1 << 16];
        // Acknowledge the ping, because the server would otherwise close the connection.
        socket.write_all(&frame(6, 1, 0, &[0x3b, 0x7c, 0xdb, 0x7a, 0x0b, 0x87, 0x16, 0xb4])).await.expect("it is open");
        assert!(socket.read(&mut received).await.expect("it is open") > 0, "{stream}");
    }
}

#[tokio::test]
async fn memory_of_unfinished_header_blocks_is_bounded() {
    // All incomplete header blocks together can use 64 MiB. After 32 KiB of a header block have arrived, the block uses
    // 2 MiB of this limit.
    const KEPT: usize = 32;
    const MORE: usize = 8;
    // After 32 seconds, the server closes all connections with incomplete blocks.
    const PATIENCE: Duration = Duration::from_secs(31);
    let server = server().await;
    let (begun, mut open) = (Instant::now(), Vec::new());
    for _ in 0..KEPT + MORE {
        let mut socket = watching(&server).await;
        // The server can close the connection before all bytes are sent, so the write may fail.
        let _ = socket.write_all(&unfinished(3)).await;
        open.push(socket);
    }
    let is_open = |socket: &TcpStream| loop {
        match socket.try_read(&mut [0; 1024]) {
            Ok(0) => return false,
            Ok(_) => (),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    };
    let cut = async {
        loop {
            open.retain(is_open);
            if open.len() <= KEPT {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout_at(begun + PATIENCE, cut).await.expect("some connections are cut");
    assert_eq!(
        crate::support::get(&server, "/readyz").await.code,
        200,
        "short header blocks have a budget of their own"
    );
    assert!(is_open(&watching(&server).await), "a new watch is accepted");
    drop(open);
}
