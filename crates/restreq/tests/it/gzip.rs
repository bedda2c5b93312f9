//! Tests gzip responses.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use pintle_meta::{ErrorKind, ListPart, Reason};
use pintle_restreq::{ResponseTooLarge, RestClient, RestClientConfig};

use crate::support::{End, Reply, Server, soon};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Returns a reply whose body is `small` compressed with gzip, sent in chunks of `piece` bytes.
fn reply(status: u16, small: &[u8], piece: usize) -> Reply {
    let headers = vec![("content-type", "application/json".to_owned()), ("content-encoding", "gzip".to_owned())];
    let chunks = small.chunks(piece).map(Bytes::copy_from_slice).collect();
    Reply::Answer { status, headers, chunks, end: End::Proper }
}

fn client(server: &Server) -> RestClient {
    RestClient::new(RestClientConfig { gzip: true, ..server.config().into() }).unwrap()
}

#[tokio::test]
async fn gzip_response_is_inflated_across_chunk_boundaries() {
    let text = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}"#;
    // The body consists of several consecutive gzip streams.
    let small = [gzip(&text[..30]), gzip(&text[30..])].concat();
    for piece in [1, 7, 1000] {
        let server = Server::always(reply(200, &small, piece)).await;
        let client = client(&server);
        let answer = soon(client.get().send()).await.unwrap();
        assert_eq!(answer.body(), &text[..]);
        assert!(!answer.headers().contains_key("content-encoding"));
        let mut list = soon(client.get().list()).await.unwrap();
        let mut items = 0;
        while let Some(part) = list.next().await {
            items += usize::from(matches!(part.unwrap(), ListPart::Item(_)));
        }
        assert_eq!(items, 2);
        assert!(server.seen().iter().all(|seen| seen.header("accept-encoding") == Some("gzip")));
        assert_eq!(server.connections(), 1, "each response was read to its end");
    }
}

#[tokio::test]
async fn gzip_is_requested_only_if_configured() {
    let small = gzip(b"{}");
    let server = Server::always(Reply::ok()).await;
    let mut config = server.config();
    config.disable_compression = true;
    let declined = RestClient::new(RestClientConfig { gzip: true, ..config.into() }).unwrap();
    let asking = client(&server);
    soon(server.client().get().send()).await.unwrap();
    soon(declined.get().send()).await.unwrap();
    soon(asking.get().stream()).await.unwrap();
    drop(soon(asking.get().raw_watch()).await.unwrap());
    soon(asking.get().header("range", "bytes=0-1").send()).await.unwrap();
    assert!(server.seen().iter().all(|seen| seen.header("accept-encoding").is_none()), "{:?}", server.seen());

    let server = Server::always(reply(200, &small, 100)).await;
    let own = soon(client(&server).get().header("accept-encoding", "gzip").send()).await.unwrap();
    assert_eq!(own.body(), &small[..], "a request that sets Accept-Encoding gets the compressed body");
}

#[tokio::test]
async fn gzip_failure_returns_the_server_status() {
    let status = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
    let server = Server::always(reply(404, &gzip(status), 5)).await;
    let error = soon(client(&server).get().send()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::NotFound));
}

#[tokio::test]
async fn limits_apply_to_the_inflated_body() {
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let server = Server::always(reply(200, &bomb, 1 << 20)).await;
    let client = RestClient::new(RestClientConfig { gzip: true, max_body: 1 << 20, ..server.config().into() }).unwrap();
    let error = soon(client.get().send()).await.unwrap_err();
    assert_eq!(error.cause(), Some(&ResponseTooLarge { limit: 1 << 20 }), "{error}");
}

#[tokio::test]
async fn truncated_or_invalid_gzip_is_an_error() {
    let whole = gzip(br#"{"items":[1,2,3,4,5,6,7,8,9]}"#);
    let mut wrong = whole.clone();
    wrong[14] ^= 0x55;
    let mut sum = whole.clone();
    *sum.last_mut().unwrap() ^= 1;
    let followed = [&whole[..], &b"plain"[..]].concat();
    let broken: [&[u8]; 6] = [&whole[..whole.len() - 9], &whole[..3], &wrong, &sum, b"plain", &followed];
    for broken in broken {
        let server = Server::always(reply(200, broken, 4)).await;
        let error = soon(client(&server).get().max_retries(0).send()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error}");
    }
}
