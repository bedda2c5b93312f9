//! Tests of uploads to a server that responds before it has read the entire body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use pintle_meta::ClientConfig;
use pintle_restreq::RestClient;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{soon, until};

/// Starts a server that rejects each upload immediately, but continues to read the request body. Requests without an
/// upload receive a normal response. Returns a client and a counter of closed connections.
async fn hasty() -> (RestClient, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = RestClient::new(ClientConfig::new(format!("http://{}", listener.local_addr().unwrap()))).unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let counted = counted.clone();
            tokio::spawn(async move {
                // Ignore errors, because the client may close the connection at any time.
                drop(serve(BufReader::new(tcp)).await);
                counted.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    (client, ended)
}

async fn serve(mut stream: BufReader<TcpStream>) -> std::io::Result<()> {
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            head.push_str(&line);
        }
        let is_upload = head.starts_with("POST");
        let status = if is_upload { "413 Payload Too Large" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
        if is_upload {
            return stream.read_to_end(&mut Vec::new()).await.map(drop);
        }
    }
}

/// If the connection remained open, the next request would have to wait for the end of the upload.
#[tokio::test]
async fn early_response_to_upload_closes_the_connection() {
    let (client, ended) = hasty().await;
    let upload = stream::iter([Ok("x".into())]).chain(stream::pending());
    let error = soon(client.post().body_stream(upload).send()).await.unwrap_err();
    assert!(error.is_too_large(), "{error}");
    soon(until(|| ended.load(Ordering::SeqCst) == 1)).await;
    soon(client.get().send()).await.unwrap();
}

/// Runs on a separate thread, because a timer cannot end a test that blocks its own thread.
#[test]
fn upload_may_send_requests_with_its_own_client() {
    let (sender, ended) = mpsc::channel();
    let test = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, ended) = hasty().await;
            let upload = stream::unfold(client.clone(), async |client| {
                client.get().send().await.unwrap();
                Some((Ok("x".into()), client))
            });
            let error = client.post().body_stream(upload).send().await.unwrap_err();
            assert!(error.is_too_large(), "{error}");
            until(|| ended.load(Ordering::SeqCst) > 0).await;
            client.get().send().await.unwrap();
        });
        sender.send(()).unwrap();
    });
    assert_ne!(ended.recv_timeout(Duration::from_secs(10)), Err(RecvTimeoutError::Timeout), "the test timed out");
    test.join().unwrap();
}

/// Starts a server that sends `answer` after the headers of each request, and then reads until the client closes the
/// connection. Returns a client and a counter of requests.
async fn answering(answer: &'static str) -> (RestClient, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = RestClient::new(ClientConfig::new(format!("http://{}", listener.local_addr().unwrap()))).unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let counted = counted.clone();
            tokio::spawn(async move {
                let (mut stream, mut line) = (BufReader::new(tcp), String::new());
                while line != "\r\n" {
                    line.clear();
                    stream.read_line(&mut line).await?;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer.as_bytes()).await?;
                stream.flush().await?;
                stream.read_to_end(&mut Vec::new()).await
            });
        }
    });
    (client, requests)
}

/// The server sends the response body only after it has received the entire upload.
#[tokio::test]
async fn failed_upload_ends_the_response() {
    let (client, _) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
    let (fail, failed) = tokio::sync::oneshot::channel::<()>();
    let chunks = stream::once(async { Ok("x".into()) });
    let broken = stream::once(async move {
        drop(failed.await);
        Err(std::io::Error::other("the source of the upload is broken"))
    });
    let sending = tokio::spawn(async move { client.post().body_stream(chunks.chain(broken)).send().await });
    drop(fail);
    let error = soon(sending).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("the source of the upload is broken"), "{error}");
}

#[tokio::test]
async fn invalid_response_is_not_requested_again() {
    let (client, requests) = answering("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").await;
    let error = soon(client.get().send()).await.unwrap_err();
    assert!(error.to_string().contains("Content-Length is not a number"), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn request_with_connection_close_closes_its_connection() {
    let (client, ended) = hasty().await;
    soon(client.get().header("connection", "close").send()).await.unwrap();
    soon(until(|| ended.load(Ordering::SeqCst) == 1)).await;
}
