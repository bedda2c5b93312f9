//! Tests requests over HTTP/2. The server uses h2 directly.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, Request, Response};
use pintle_meta::{ClientConfig, PemSource};
use pintle_restreq::RestClient;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::support::soon;
use crate::tls::{Authority, settings};

/// Starts a server that calls `answer` for each request. Returns a client, and a counter of the server's reads.
async fn serve<F>(
    answer: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + 'static,
) -> (RestClient, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new();
    let tls = TlsAcceptor::from(settings(&authority.issue("127.0.0.1"), &["h2"], None));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut config = ClientConfig::new(format!("https://{}", listener.local_addr().unwrap()));
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    let reads = Arc::<AtomicUsize>::default();
    let counted = reads.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = Counted { stream: tls.accept(stream).await.unwrap(), reads: counted };
        // The flow-control windows are small, so that request bodies must wait for the server.
        let mut connection = server::Builder::new().initial_window_size(1 << 10).handshake(stream).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::spawn(answer(request, respond));
        }
    });
    (RestClient::new(config).unwrap(), reads)
}

struct Counted {
    stream: TlsStream<TcpStream>,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.reads.fetch_add(usize::from(polled.is_ready()), Ordering::SeqCst);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Releases flow-control capacity after each read, so that the client can send more data.
async fn read(body: &mut RecvStream) -> Bytes {
    let mut whole = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        whole.extend_from_slice(&data);
    }
    whole.freeze()
}

fn json(respond: &mut SendResponse<Bytes>, body: &'static str) {
    let head = Response::builder().header("content-type", "application/json").body(()).unwrap();
    respond.send_response(head, false).unwrap().send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
}

/// Starts a server that stores the headers and bodies of all requests. Returns a client, a counter of the reads, and
/// the stored requests.
async fn storing() -> (RestClient, Arc<AtomicUsize>, Arc<Mutex<Vec<(HeaderMap, Bytes)>>>) {
    let stored = Arc::<Mutex<Vec<_>>>::default();
    let seen = stored.clone();
    let (client, reads) = serve(move |mut request, mut respond| {
        let seen = seen.clone();
        async move {
            let body = read(request.body_mut()).await;
            seen.lock().unwrap().push((request.headers().clone(), body));
            json(&mut respond, "{}");
        }
    })
    .await;
    (client, reads, stored)
}

#[tokio::test]
async fn headers_and_body_are_sent_together() {
    let (client, reads, stored) = storing().await;
    soon(client.get().send()).await.unwrap();
    for _ in 0..10 {
        let before = reads.load(Ordering::SeqCst);
        soon(client.put().body(r#"{"a":1}"#).send()).await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst) - before, 1);
    }
    let stored = stored.lock().unwrap();
    assert!(!stored[0].0.contains_key("content-length"), "a GET has no body");
    assert_eq!(stored[1].0["content-length"], "7");
    assert_eq!(stored[1].1, r#"{"a":1}"#);
}

#[tokio::test]
async fn bodies_larger_than_the_window_arrive() {
    let (client, _, stored) = storing().await;
    let pieces: Vec<Bytes> = (0..300).map(|number| Bytes::from(format!("{number:0>1000}"))).collect();
    let whole = pieces.concat();
    soon(client.post().body(whole.clone()).send()).await.unwrap();
    let streamed = stream::iter(pieces).then(|piece| async {
        tokio::task::yield_now().await;
        Ok(piece)
    });
    soon(client.post().body_stream(streamed).send()).await.unwrap();
    let stored = stored.lock().unwrap();
    assert_eq!(stored[0].0["content-length"], "300000");
    assert!(!stored[1].0.contains_key("content-length"));
    assert!(stored.iter().all(|(_, body)| *body == whole));
}

/// A caller can set a wrong length. A server resets a stream whose body has another length than its
/// `Content-Length`.
#[tokio::test]
async fn content_length_is_the_length_of_the_body() {
    let (client, _, stored) = storing().await;
    for (method, body) in [(Method::GET, ""), (Method::POST, "abc"), (Method::POST, ""), (Method::DELETE, "ab")] {
        soon(client.verb(method).header("content-length", "5").body(body).send()).await.unwrap();
    }
    let streamed = stream::iter([Ok(Bytes::from_static(b"abc"))]);
    soon(client.post().header("content-length", "3").body_stream(streamed).send()).await.unwrap();
    let stored = stored.lock().unwrap();
    let lengths: Vec<_> = stored.iter().map(|(headers, _)| headers.get("content-length")).collect();
    let lengths: Vec<_> = lengths.iter().map(|length| length.map(|length| length.to_str().unwrap())).collect();
    assert_eq!(lengths, [None, Some("3"), Some("0"), Some("2"), Some("3")], "only the last length is unknown");
}

/// The `Content-Length` of a response without a body is the length of the response to a GET (RFC 9110, section 8.6).
#[tokio::test]
async fn response_without_body_is_not_too_large() {
    for (method, status) in [(Method::HEAD, 200), (Method::GET, 204)] {
        let (client, _) = serve(move |_, mut respond| async move {
            let head = Response::builder().status(status).header("content-length", "9999999999").body(()).unwrap();
            respond.send_response(head, true).unwrap();
        })
        .await;
        let answer = soon(client.verb(method.clone()).abs_path(["/x"]).max_retries(0).raw()).await;
        assert!(answer.as_ref().is_ok_and(Bytes::is_empty), "{method} {status}: {answer:?}");
    }
}

/// The server never reads the request body. A client that did not wait for the server would use more and more memory
/// for chunks of the stream.
#[tokio::test]
async fn streamed_body_waits_for_the_server() {
    let (client, _) = serve(|request, mut respond| async move {
        let head = Response::builder().header("content-type", "application/json").body(()).unwrap();
        let _answer = respond.send_response(head, false).unwrap();
        let _unread = request;
        std::future::pending().await
    })
    .await;
    let pulled = Arc::<AtomicUsize>::default();
    let count = pulled.clone();
    let endless = stream::repeat_with(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Bytes::from_static(&[b'a'; 512]))
    });
    let answer = soon(client.post().body_stream(endless).stream()).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let before = pulled.load(Ordering::SeqCst);
    assert!((1..200).contains(&before), "{before} pieces");
    drop(answer);
}

#[tokio::test]
async fn reset_response_is_an_error_unless_it_is_complete() {
    for (reason, length, is_complete) in [
        (Reason::CANCEL, None, false),
        (Reason::INTERNAL_ERROR, None, false),
        (Reason::NO_ERROR, None, false),
        (Reason::NO_ERROR, Some("2"), true),
        (Reason::NO_ERROR, Some("3"), false),
    ] {
        let (client, _) = serve(move |_, mut respond| async move {
            let mut head = Response::builder().header("content-type", "application/json");
            if let Some(length) = length {
                head = head.header("content-length", length);
            }
            let head = head.body(()).unwrap();
            let mut body = respond.send_response(head, false).unwrap();
            body.send_data(Bytes::from_static(b"{}"), false).unwrap();
            // Yield, so that the data is sent before the stream is reset.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            body.send_reset(reason);
        })
        .await;
        let answer = soon(client.get().max_retries(0).send()).await;
        assert_eq!(answer.is_ok(), is_complete, "{reason:?} {length:?}: {answer:?}");
    }
}

/// The server responds before it has read the whole request body (RFC 9113, section 8.1).
#[tokio::test]
async fn response_is_complete_although_the_upload_is_refused() {
    let (client, _) = serve(|request, mut respond| async move {
        let head = Response::builder().header("content-type", "application/json").body(()).unwrap();
        let mut body = respond.send_response(head, false).unwrap();
        body.send_data(Bytes::from_static(b"{}"), true).unwrap();
        tokio::task::yield_now().await;
        body.send_reset(Reason::NO_ERROR);
        drop(request);
    })
    .await;
    let endless = stream::repeat_with(|| Ok(Bytes::from_static(&[b'a'; 512])));
    let answer = soon(client.post().body_stream(endless).send()).await;
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn connection_without_streams_is_not_used_again() {
    let authority = Authority::new();
    let tls = TlsAcceptor::from(settings(&authority.issue("127.0.0.1"), &["h2"], None));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut config = ClientConfig::new(format!("https://{}", listener.local_addr().unwrap()));
    config.tls.ca = Some(PemSource::Inline(authority.pem().into()));
    tokio::spawn(async move {
        for streams in [0, 100] {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = tls.accept(stream).await.unwrap();
            tokio::spawn(async move {
                let mut builder = server::Builder::new();
                let mut connection = builder.max_concurrent_streams(streams).handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    json(&mut respond, "{}");
                }
            });
        }
    });
    let client = RestClient::new(config).unwrap();
    let first = client.get();
    let mut first = Box::pin(first.send());
    assert!(first.as_mut().now_or_never().is_none());
    soon(client.get().send()).await.unwrap();
    assert!(first.as_mut().now_or_never().is_none(), "a response came on a connection without streams");
    drop(first);
    for _ in 0..10 {
        soon(client.get().send()).await.unwrap();
    }
}

#[tokio::test]
async fn headers_may_have_64_kib() {
    let (client, _) = serve(|request, mut respond| async move {
        let kib: usize = request.uri().path()[1..].parse().unwrap();
        let head = Response::builder().header("content-type", "application/json");
        let head = (0..kib).fold(head, |head, _| head.header("set-cookie", "a".repeat(980)));
        respond.send_response(head.body(()).unwrap(), false).unwrap().send_data("{}".into(), true).unwrap();
    })
    .await;
    for (kib, fits) in [("60", true), ("70", false), ("1", true)] {
        let answer = soon(client.get().abs_path([kib]).max_retries(0).send()).await;
        assert_eq!(answer.is_ok(), fits, "{kib}: {answer:?}");
    }
}
