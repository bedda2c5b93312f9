//! Tests of the connection pool: how requests share connections, when connections are closed, and how failures affect
//! requests.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use pintle_meta::{ClientConfig, ErrorKind, PemSource};
use pintle_restreq::{DeadlineExceeded, Phase, RestClient, RestClientConfig};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::coop::consume_budget;
use tokio_rustls::TlsAcceptor;

use crate::support::{End, Reply, Server, soon, steady_clock, until};
use crate::tls::{Authority, settings, trusting};

async fn http2(script: impl IntoIterator<Item = Reply>, after: Reply) -> (Server, RestClient) {
    let authority = Authority::new();
    let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
    let server = Server::start_with(script, after, Some(tls)).await;
    let client = RestClient::new(trusting(&server, &authority)).unwrap();
    (server, client)
}

/// Returns a reply whose body is much larger than the kernel's buffers and the flow-control window of a stream.
fn flood() -> Reply {
    let chunks = vec![Bytes::from(vec![b' '; 1 << 20]); 16];
    Reply::Answer { status: 200, headers: Vec::new(), chunks, end: End::Stall }
}

#[tokio::test]
async fn unread_response_does_not_block_others() {
    let (server, client) = http2([flood(), flood(), flood()], Reply::ok()).await;
    let request = client.get();
    let watches = [(); 2].map(|()| request.raw_watch());
    let unread = soon(futures_util::future::try_join_all(watches)).await.unwrap();
    let list = soon(client.get().stream()).await.unwrap();
    for _ in 0..20 {
        soon(client.get().send()).await.unwrap();
    }
    let mut watch = soon(client.get().watch::<Value>()).await.unwrap();
    assert!(soon(watch.next()).await.is_some(), "a watch is read while others are not");
    assert_eq!(server.connections(), 2, "one connection for short requests and one for watches");
    drop((unread, list));
}

#[tokio::test]
async fn watches_above_the_stream_limit_use_more_connections() {
    let (server, client) = http2([], Reply::watch(&[], End::Stall)).await;
    // hyper's server allows 200 streams per connection.
    let request = client.get();
    let watches = (0..450).map(|_| request.raw_watch());
    let watches = soon(futures_util::future::try_join_all(watches)).await.unwrap();
    assert_eq!((watches.len(), server.connections()), (450, 3));
    drop((watches, request, client));
    server.is_left().await;
}

#[tokio::test]
async fn forty_cold_requests_open_one_connection() {
    let (server, client) = http2([], Reply::ok()).await;
    let request = client.get();
    let requests = (0..40).map(|_| request.send());
    soon(futures_util::future::try_join_all(requests)).await.unwrap();
    assert_eq!((server.seen().len(), server.connections()), (40, 1));
}

#[tokio::test]
async fn http1_requests_reuse_idle_connections() {
    let server = Server::start([]).await;
    let client = server.client();
    let request = client.get();
    for _ in 0..5 {
        let requests = (0..8).map(|_| request.send());
        soon(futures_util::future::try_join_all(requests)).await.unwrap();
    }
    assert!(server.connections() <= 8, "{}", server.connections());
}

#[tokio::test]
async fn repeated_http1_bursts_dial_no_new_connections() {
    for size in [64, 200] {
        let server = Server::start([]).await;
        let client = server.client();
        // Start all requests before the first response arrives.
        let burst = || async {
            let requests: Vec<_> = (0..size).map(|_| client.get()).collect();
            soon(futures_util::future::try_join_all(requests.iter().map(|request| request.send()))).await.unwrap();
        };
        burst().await;
        let dialled = server.connections();
        for _ in 0..3 {
            burst().await;
        }
        assert!(
            server.connections() <= size,
            "{} connections for bursts of {size}, {dialled} by the first",
            server.connections()
        );
    }
}

#[tokio::test]
async fn panicking_body_fails_only_its_request() {
    let (server, client) = http2([], Reply::ok()).await;
    soon(client.get().send()).await.unwrap();
    let body = stream::poll_fn(|_| -> Poll<Option<std::io::Result<Bytes>>> { panic!("on purpose") });
    let error = soon(client.post().body_stream(body).send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error}");
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let bomb = Bomb;
    let body = stream::poll_fn(move |_| {
        let _held = &bomb;
        Poll::Ready(None)
    });
    soon(client.post().body_stream(body).send()).await.unwrap();
    soon(client.get().send()).await.unwrap();
    assert_eq!(server.connections(), 1, "other requests share the connection");
}

/// tokio makes a task yield when its cooperative budget is exhausted. The HTTP/1.1 request must finish even if the task
/// has no budget left.
#[tokio::test]
async fn http1_request_progresses_without_task_budget() {
    const BUDGET: usize = 128;
    let server = Server::start([]).await;
    let request = server.client().get();
    for spent in 0..2 * BUDGET {
        let mut exchange = pin!(request.send());
        let mut polls = spent;
        let starved = poll_fn(|cx| {
            polls += BUDGET;
            // At every second poll, consume a part of the task's budget, so that the request exhausts the budget.
            for _ in 0..if (polls / BUDGET).is_multiple_of(2) { spent % BUDGET } else { 0 } {
                if pin!(consume_budget()).poll(cx).is_pending() {
                    break;
                }
            }
            exchange.as_mut().poll(cx)
        });
        // Do not use `soon`, because it would poll the future once more after the timeout.
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_secs(20)) => panic!("the test timed out"),
            sent = starved => drop(sent.unwrap()),
        }
    }
    assert_eq!(server.connections(), 1, "the connection stays usable each time");
}

#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed_after_90_seconds() {
    for is_http2 in [false, true] {
        let (server, client) = if is_http2 {
            http2([], Reply::ok()).await
        } else {
            let server = Server::start([]).await;
            let client = server.client();
            (server, client)
        };
        let _clock = steady_clock();
        for (rest, connections) in [(0, 1), (80, 1), (80, 1), (100, 2)] {
            tokio::time::sleep(Duration::from_secs(rest)).await;
            client.get().send().await.unwrap();
            assert_eq!(server.connections(), connections, "HTTP/2: {is_http2}");
        }
    }
}

#[tokio::test]
async fn connections_close_after_client_and_last_response_drop() {
    let (server, client) = http2([], Reply::watch(&[], End::Stall)).await;
    let watch = soon(client.get().raw_watch()).await.unwrap();
    drop((client, watch));
    server.is_left().await;

    let server = Server::start([]).await;
    let client = server.client();
    soon(client.get().send()).await.unwrap();
    drop(client);
    server.is_left().await;
}

#[tokio::test]
async fn write_survives_an_idle_connection_closed_by_the_server() {
    let server = Server::always(Reply::ok().header("connection", "close")).await;
    let client = server.client();
    for _ in 0..3 {
        soon(client.post().body("x").send()).await.unwrap();
    }
    assert_eq!((server.seen().len(), server.connections()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_drops_its_connection_if_configured() {
    for (drop_connection_on_cancel, connections) in [(false, 1), (true, 2)] {
        let authority = Authority::new();
        let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
        let server = Server::start_with([Reply::ok(), Reply::Silence], Reply::ok(), Some(tls)).await;
        let config = RestClientConfig { drop_connection_on_cancel, ..trusting(&server, &authority).into() };
        let client = RestClient::new(config).unwrap();
        let _clock = steady_clock();
        client.get().send().await.unwrap();
        client.get().timeout(Duration::from_secs(5)).send().await.unwrap_err();
        client.get().send().await.unwrap();
        client.get().send().await.unwrap();
        assert_eq!(server.connections(), connections);
    }
}

#[tokio::test]
async fn watches_share_connection_with_drop_connection_on_cancel() {
    for (drop_connection_on_cancel, connections) in [(false, 2), (true, 1)] {
        let authority = Authority::new();
        let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
        let server = Server::start_with([Reply::watch(&[], End::Stall)], Reply::ok(), Some(tls)).await;
        let config = RestClientConfig { drop_connection_on_cancel, ..trusting(&server, &authority).into() };
        let client = RestClient::new(config).unwrap();
        let watch = soon(client.get().raw_watch()).await.unwrap();
        for _ in 0..3 {
            soon(client.get().send()).await.unwrap();
        }
        assert_eq!(server.connections(), connections);
        drop(watch);
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    /// Sends a GOAWAY frame with 0 as the last stream ID, and then closes the connection.
    GoAway,
    Refuse,
    Break,
    Close,
    Answer,
    /// Sends settings that allow only a single stream, followed by an empty response.
    Narrow,
    Open,
    /// Sends one byte on each previous stream, followed by an empty response.
    Late,
    Silence,
}

/// Starts a server that reacts to its nth request according to the nth entry of `script`. After the last entry, the
/// server sends empty responses. Returns the client configuration and a counter of the received requests.
async fn frames(script: &'static [Move]) -> (ClientConfig, Arc<AtomicUsize>) {
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(settings(&authority.issue("127.0.0.1"), &["h2"], None));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut config = ClientConfig::new(format!("https://{}", listener.local_addr().unwrap()));
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(tcp).await.unwrap();
            let counted = counted.clone();
            // `serve` returns when the client closes the connection.
            tokio::spawn(async move { drop(serve(&mut stream, script, &counted).await) });
        }
    });
    (config, seen)
}

async fn serve(
    stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin),
    script: &[Move],
    seen: &AtomicUsize,
) -> std::io::Result<()> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.read_exact(&mut [0; 24]).await?;
    stream.write_all(&SETTINGS).await?;
    let mut ids: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).await?;
        // Frame type 1 is HEADERS.
        if head[3] != 1 {
            continue;
        }
        let id = &head[5..9];
        let reset = |code: u8| [&[0, 0, 4, 3, 0], id, &[0, 0, 0, code]].concat();
        // A HEADERS frame with the flags END_STREAM and END_HEADERS. In HPACK's static table, entry 8 is ":status:
        // 200".
        let answer = [&[0, 0, 1, 1, 5], id, &[0x88]].concat();
        let answer = match script.get(seen.fetch_add(1, Ordering::SeqCst)).unwrap_or(&Move::Answer) {
            Move::GoAway => {
                stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await?;
                return stream.shutdown().await;
            }
            Move::Close => return stream.shutdown().await,
            Move::Refuse => reset(7),
            Move::Break => reset(2),
            Move::Answer => answer,
            Move::Open => [&[0, 0, 1, 1, 4], id, &[0x88]].concat(),
            Move::Late => {
                // Frame type 0 is DATA.
                let late = ids.iter().flat_map(|id| [&[0, 0, 1, 0, 0][..], &id[..], b" "].concat());
                late.chain(answer).collect()
            }
            Move::Narrow => [&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1][..], &answer].concat(),
            Move::Silence => continue,
        };
        ids.push(id.to_vec());
        stream.write_all(&answer).await?;
        stream.flush().await?;
    }
}

/// The server has not processed these requests, so even a create request with a generated name is retried.
#[tokio::test]
async fn unprocessed_request_is_retried_for_any_verb() {
    for script in [&[Move::GoAway][..], &[Move::Refuse], &[Move::Answer, Move::GoAway, Move::Refuse]] {
        let (config, seen) = frames(script).await;
        let client = RestClient::new(config).unwrap();
        let refused = script.iter().filter(|step| !matches!(step, Move::Answer)).count();
        for _ in 0..2 {
            let create = client.post().body(r#"{"metadata":{"generateName":"a-"}}"#);
            soon(create.send()).await.unwrap();
        }
        assert_eq!(seen.load(Ordering::SeqCst), 2 + refused, "{script:?}");
    }
}

/// The first retry of each request is free. Each further retry counts against the client's retry budget.
#[tokio::test]
async fn server_that_refuses_streams_is_not_retried_forever() {
    const REQUESTS: usize = 1000;
    // The limit is the initial retry budget, plus 0.2 retries per request, plus 50 retries per second for 20 s. The
    // limit assumes 20 s, because `soon` ends the test after this time.
    const MOST: usize = 2 * REQUESTS + 500 + REQUESTS / 5 + 50 * 20;
    let (config, seen) = frames(&[Move::Refuse; 7 * REQUESTS]).await;
    let client = RestClient::new(config).unwrap();
    let request = client.get().max_retries(6);
    let ended = soon(futures_util::future::join_all((0..REQUESTS).map(|_| request.send()))).await;
    assert!(
        ended.iter().all(|ended| ended.as_ref().is_err_and(|error| matches!(error.kind, ErrorKind::Unprocessed(_))))
    );
    let seen = seen.load(Ordering::SeqCst);
    assert!((2 * REQUESTS..=MOST).contains(&seen), "{seen}, at most {MOST}, of {}", 7 * REQUESTS);
}

#[tokio::test]
async fn unprocessed_request_is_reported_as_unprocessed() {
    let (config, seen) = frames(&[Move::Refuse]).await;
    let error = soon(RestClient::new(config).unwrap().post().max_retries(0).send()).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unprocessed(_)) && !error.may_have_acted(), "{error}");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn write_on_broken_stream_or_connection_is_not_retried() {
    for script in [&[Move::Break][..], &[Move::Close]] {
        let (config, seen) = frames(script).await;
        let client = RestClient::new(config).unwrap();
        let error = soon(client.post().body("x").send()).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Transport(_)), "{script:?}: {error:?}");
        assert!(error.may_have_acted());
        soon(client.post().body("x").send()).await.unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 2, "{script:?}");
    }
}

/// If the upload continued after the response, its stream would remain open.
#[tokio::test]
async fn http2_upload_ends_with_its_response() {
    let (config, _) = frames(&[Move::Answer, Move::Open]).await;
    let client = RestClient::new(config).unwrap();
    let held = Arc::new(());
    let upload = || {
        let held = held.clone();
        let endless = stream::poll_fn(move |_| {
            let _held = &held;
            Poll::Pending
        });
        client.post().body_stream(endless)
    };
    soon(upload().send()).await.unwrap();
    soon(until(|| Arc::strong_count(&held) == 1)).await;
    let answer = soon(upload().stream()).await.unwrap();
    assert_eq!(Arc::strong_count(&held), 2, "the upload continues during the response");
    drop(answer);
    soon(until(|| Arc::strong_count(&held) == 1)).await;
}

/// The client must accept frames for cancelled streams without closing the connection.
#[tokio::test]
async fn many_cancelled_streams_do_not_break_others() {
    const GONE: usize = 1500;
    const SCRIPT: [Move; GONE + 2] = {
        let mut script = [Move::Open; GONE + 2];
        script[GONE + 1] = Move::Late;
        script
    };
    let (config, seen) = frames(&SCRIPT).await;
    let client = RestClient::new(config).unwrap();
    let request = client.get().max_retries(0);
    let mut stays = soon(request.stream()).await.unwrap();
    for _ in 0..3 {
        let streams = (0..GONE / 3).map(|_| request.stream());
        drop(soon(futures_util::future::try_join_all(streams)).await.unwrap());
    }
    soon(request.stream()).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), GONE + 2);
    assert_eq!(soon(stays.next()).await.unwrap().unwrap(), " ");
    assert!(stays.next().now_or_never().is_none(), "the upload continues");
}

#[tokio::test]
async fn server_may_lower_its_stream_limit() {
    let (config, seen) = frames(&[Move::Narrow, Move::Silence]).await;
    let client = RestClient::new(config).unwrap();
    soon(client.get().send()).await.unwrap();
    let request = client.get();
    let unanswered = tokio::spawn(async move { request.send().await });
    soon(until(|| seen.load(Ordering::SeqCst) == 2)).await;
    soon(client.get().send()).await.unwrap();
    unanswered.abort();
}

#[tokio::test]
async fn idle_connection_closed_by_server_is_closed_at_once() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = RestClient::new(ClientConfig::new(format!("http://{}", listener.local_addr().unwrap()))).unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        stream
    });
    soon(client.get().send()).await.unwrap();
    let mut stream = soon(served).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(soon(stream.read(&mut [0])).await.unwrap(), 0, "the client closes its end without another request");
}

/// A connection is established on the runtime of the request that first needs it. If this runtime is blocked, the
/// client must start another attempt, because all other requests would otherwise wait forever.
#[test]
fn dial_on_stalled_runtime_is_replaced() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (standing, running) = (runtime(), runtime());
    running.block_on(async {
        let authority = Authority::new();
        let tls = settings(&authority.issue("127.0.0.1"), &["h2"], None);
        let server = Server::start_with([], Reply::ok(), Some(tls)).await;
        tokio::time::pause();
        let _clock = steady_clock();
        let client = RestClient::new(trusting(&server, &authority)).unwrap();
        let request = client.get();
        let begin = async move { request.stream().now_or_never().is_none() };
        let (waits, standing) = std::thread::spawn(move || (standing.block_on(begin), standing)).join().unwrap();
        assert!(waits, "for a connection");
        // The paused clock advances automatically and may be ahead of the system clock.
        tokio::time::sleep(Duration::from_secs(60)).await;

        let stream = async || {
            let request = client.get();
            tokio::time::timeout(Duration::from_secs(600), request.stream())
                .await
                .expect("the test timed out")
                .map(drop)
        };
        let error = stream().await.unwrap_err();
        assert!(error.cause::<DeadlineExceeded>().is_some_and(|late| late.phase == Phase::Connect), "{error}");
        stream().await.unwrap();
        stream().await.unwrap();
        standing.shutdown_background();
        stream().await.unwrap();
    });
}

#[tokio::test]
async fn peer_closing_every_connection_is_not_dialled_forever() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = RestClient::new(ClientConfig::new(format!("http://{}", listener.local_addr().unwrap()))).unwrap();
    let peer = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Respond without reading the request.
            drop(stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await);
        }
    });
    let error = soon(client.get().max_retries(2).send()).await.unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::Status(_) | ErrorKind::Transport(_) | ErrorKind::Unprocessed(_)),
        "{error}"
    );
    peer.abort();
}
