//! Tests how often HTTP/1.1 requests are polled, and how often they wake their task.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use pintle_meta::{ApiResource, ClientConfig, DynamicObject, PemSource, Scope};
use pintle_restreq::{Api, RestClient};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{End, Reply, Server, soon};
use crate::tls::{Authority, settings};

/// Sends each response in a single write, so that the headers and the body arrive together.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            stream.write_all(answer).await.unwrap();
            stream.flush().await.unwrap();
        }
    }
}

async fn serve(tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            match &tls {
                None => drop(tokio::spawn(answer(stream))),
                Some(tls) => {
                    let accepted = tls.accept(stream);
                    tokio::spawn(async move { answer(accepted.await.unwrap()).await });
                }
            }
        }
    });
    addr
}

#[derive(Default)]
struct Wakes {
    count: AtomicUsize,
    task: Mutex<Option<Waker>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.task.lock().unwrap().iter().for_each(Waker::wake_by_ref);
    }
}

/// Runs a future to completion, and returns the number of polls and the number of wake-ups.
async fn counted(future: impl Future) -> (usize, usize) {
    let (wakes, mut polls, mut future) = (Arc::new(Wakes::default()), 0, pin!(future));
    let waker = Waker::from(wakes.clone());
    std::future::poll_fn(|cx| {
        *wakes.task.lock().unwrap() = Some(cx.waker().clone());
        polls += 1;
        future.as_mut().poll(&mut Context::from_waker(&waker)).map(drop)
    })
    .await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    (polls, wakes.count.load(Ordering::SeqCst))
}

async fn expect_two_polls_and_one_wake(client: RestClient) {
    // The first requests open the connections. With TLS, the server also sends session tickets with the first response.
    for _ in 0..3 {
        soon(client.get().send()).await.unwrap();
    }
    for _ in 0..20 {
        let (polls, wakes) = soon(counted(async { client.get().send().await.unwrap() })).await;
        assert_eq!((polls, wakes), (2, 1), "polled to send and once more with the answer, and woken by the answer");
    }
}

#[tokio::test]
async fn get_polls_once_after_response_and_never_wakes_itself() {
    let addr = serve(None).await;
    expect_two_polls_and_one_wake(RestClient::new(ClientConfig::new(format!("http://{addr}"))).unwrap()).await;
}

#[tokio::test]
async fn get_over_tls_polls_once_after_the_answer() {
    let authority = Authority::new();
    let tls = TlsAcceptor::from(settings(&authority.issue("127.0.0.1"), &["http/1.1"], None));
    let addr = serve(Some(tls)).await;
    let mut config = ClientConfig::new(format!("https://{addr}"));
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    expect_two_polls_and_one_wake(RestClient::new(config).unwrap()).await;
}

/// The server sends from another thread, so it can wake the request while the request is polled. A wake-up during a
/// poll must not be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streamed_bodies_lose_no_wake_across_threads() {
    let chunks: Vec<Bytes> = (0..400).map(|at| Bytes::from(format!("{at} "))).collect();
    let expected = chunks.concat();
    let headers = vec![("content-type", "text/plain".to_owned())];
    let reply = Reply::Answer { status: 200, headers, chunks, end: End::Proper };
    let authority = Authority::new();
    let tls = || settings(&authority.issue("127.0.0.1"), &["http/1.1"], None);
    for tls in [None, Some(tls())] {
        let server = Server::start_with([], reply.clone(), tls).await;
        let mut config = server.config();
        config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
        let client = RestClient::new(config).unwrap();
        let readers = (0..8).map(|_| {
            let (client, expected) = (client.clone(), expected.clone());
            tokio::spawn(async move {
                for _ in 0..4 {
                    let mut stream = client.get().stream().await.unwrap();
                    let mut read = Vec::new();
                    while let Some(part) = stream.next().await {
                        read.extend_from_slice(&part.unwrap());
                    }
                    assert!(read == expected);
                }
            })
        });
        soon(futures_util::future::try_join_all(readers)).await.unwrap();
    }
}

/// The future must be small, because callers may move it or spawn it as a task.
#[tokio::test]
async fn future_of_a_get_is_small() {
    let client = RestClient::new(ClientConfig::new("http://127.0.0.1:1")).unwrap();
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let pods: Api<DynamicObject> = Api::dynamic(client.clone(), pods, Some("team-a")).unwrap();
    let (get, request) = (pods.get("web"), client.get());
    let send = request.send();
    let sizes = (size_of_val(&get), size_of_val(&send));
    assert!(sizes.0 <= 1_500 && sizes.1 <= 1_500, "{sizes:?}");
}
