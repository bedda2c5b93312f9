//! Tests commands in containers. The peer is a scripted WebSocket server.

use std::io;

use futures_util::StreamExt;
use pintle_meta::{ApiError, DynamicObject, ErrorKind};
use pintle_restreq::{Api, AttachedProcess, ExecError, ExecOptions, TerminalSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::{soon, steady_clock};
use crate::websocket_server::{Peer, SUCCESS, Socket, V4, V5, pods};

async fn cat(pods: &Api<DynamicObject>) -> AttachedProcess {
    pods.exec("web-1", ["cat"], &ExecOptions::with_stdin()).await.unwrap()
}

async fn text(process: &mut AttachedProcess) -> io::Result<String> {
    let mut text = String::new();
    process.stdout.take().unwrap().read_to_string(&mut text).await?;
    Ok(text)
}

#[tokio::test]
async fn exec_passes_streams_and_status() {
    let (pods, server) = pods(async |peer: Peer| {
        let head = peer.head.clone();
        let mut socket = peer.accept(V5).await;
        socket.send(1, "").await;
        assert_eq!(socket.next().await.unwrap(), "\0in");
        socket.send(1, "out").await;
        socket.send(2, "err").await;
        socket.send(1, "put").await;
        socket.end(SUCCESS).await;
        head
    })
    .await;
    soon(async {
        let options = ExecOptions { container: "main".into(), ..ExecOptions::with_stdin() };
        let mut process = pods.exec("web-1", &["sh", "-c", "a b&c"], &options).await.unwrap();
        assert_eq!(process.protocol(), V5);
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(b"in").await.unwrap();
        let output = process.wait_with_output().await.unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"output"[..], &b"err"[..]));
        output.status.unwrap();
    })
    .await;
    let head = server.await.unwrap();
    let target = "GET /api/v1/namespaces/team-a/pods/web-1/exec?command=sh&command=-c&command=a+b%26c&container=main\
                  &stderr=true&stdin=true&stdout=true&tty=false HTTP/1.1\r\n";
    assert!(head.replace("a%20b", "a+b").starts_with(target), "{head}");
    let lower = head.to_ascii_lowercase();
    for line in ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "host: 127.0.0.1"] {
        assert!(lower.contains(line), "{line}: {head}");
    }
    assert!(lower.contains("sec-websocket-protocol: v5.channel.k8s.io, v4.channel.k8s.io"), "{head}");
}

#[tokio::test]
async fn attach_requests_only_the_wanted_streams() {
    let (pods, server) = pods(async |peer: Peer| {
        let target = peer.target().to_owned();
        peer.accept(V5).await.end(SUCCESS).await;
        target
    })
    .await;
    let options = ExecOptions { stderr: false, ..ExecOptions::default() };
    let mut process = soon(pods.attach("web-1", &options)).await.unwrap();
    assert!(process.stdin.is_none() && process.stderr.is_none() && process.terminal.is_none());
    soon(process.status()).await.unwrap();
    let target = server.await.unwrap();
    assert!(target.ends_with("/pods/web-1/attach?stderr=false&stdin=false&stdout=true&tty=false"), "{target}");
}

/// Calls `close` to close the input of a process, and checks that the server receives the close message.
async fn closed_by(close: impl AsyncFnOnce(AttachedProcess) -> AttachedProcess) {
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        assert_eq!(socket.next().await.unwrap(), "\0last");
        assert_eq!(socket.next().await.unwrap(), &[255, 0][..]);
        socket.send(1, "bye").await;
        socket.end(SUCCESS).await;
    })
    .await;
    soon(async {
        let mut process = cat(&pods).await;
        process.stdin.as_mut().unwrap().write_all(b"last").await.unwrap();
        let mut stdout = process.stdout.take().unwrap();
        let mut process = close(process).await;
        let mut text = String::new();
        stdout.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "bye");
        process.status().await.unwrap();
        process.status().await.expect("the status is not consumed");
    })
    .await;
    server.await.unwrap();
}

#[tokio::test]
async fn input_is_closed_by_shutdown_or_drop() {
    closed_by(async |mut process| {
        let mut stdin = process.stdin.take().unwrap();
        stdin.shutdown().await.unwrap();
        stdin.shutdown().await.expect("closing twice is not an error");
        let late = stdin.write(b"more").await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
        process
    })
    .await;
    closed_by(async |mut process| {
        process.stdin = None;
        process
    })
    .await;
}

#[tokio::test]
async fn old_protocol_cannot_close_the_input() {
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V4).await;
        assert_eq!(socket.next().await.unwrap(), "\0in");
        socket.send(1, "in").await;
        socket.send(3, SUCCESS).await;
        assert_eq!(socket.next().await, None, "the client sends nothing for a dropped input");
    })
    .await;
    soon(async {
        let mut process = cat(&pods).await;
        assert_eq!(process.protocol(), V4);
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(b"in").await.unwrap();
        let error = stdin.shutdown().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("v4.channel.k8s.io, which cannot close the input"), "{error}");
        drop(stdin);
        process.status().await.unwrap();
    })
    .await;
    server.await.unwrap();
}

/// Runs a command on a scripted server, and returns its result.
async fn status_after<F, Fut>(run: F) -> Result<(), ExecError>
where
    F: FnOnce(Socket) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (pods, server) = pods(async |peer: Peer| run(peer.accept(V5).await).await).await;
    let options = ExecOptions::default();
    let status = soon(async { pods.exec("web-1", ["secret"], &options).await.unwrap().status().await }).await;
    server.await.unwrap();
    status
}

#[tokio::test]
async fn exit_code_is_a_typed_error() {
    let failure = r#"{"status":"Failure","message":"command terminated with non-zero exit code","reason":
        "NonZeroExitCode","details":{"causes":[{"reason":"Other","message":"x"},{"reason":"ExitCode","message":"7"}]}}"#;
    let error = status_after(async |mut socket| {
        // The status may arrive in several messages. Data on unknown channels is ignored.
        socket.send(77, "x").await;
        socket.send(3, &failure[..60]).await;
        socket.end(&failure[60..]).await;
    })
    .await
    .unwrap_err();
    assert_eq!(error.exit_code(), Some(7));
    let said = error.to_string();
    assert!(
        said.starts_with("GET http://127.0.0.1:") && said.ends_with("the command ended with exit code 7"),
        "{said}"
    );
    assert!(said.contains("command=[redacted]") && !said.contains("secret"), "{said}");
    let error = ApiError::from(error);
    assert_eq!(error.reason().unwrap().as_str(), "NonZeroExitCode");
}

#[tokio::test]
async fn failure_without_exit_code_has_the_status() {
    let failure = r#"{"status":"Failure","message":"container not found (\"x\")","reason":"InternalError","code":500}"#;
    let error = status_after(async |socket| socket.end(failure).await).await.unwrap_err();
    assert_eq!((error.exit_code(), error.status().unwrap().code), (None, 500));
    assert!(error.to_string().ends_with("container not found (\"x\") (InternalError, 500)"), "{error}");
}

#[tokio::test]
async fn end_without_status_says_why() {
    let closed = status_after(async |socket| socket.close().await).await.unwrap_err();
    assert!(closed.to_string().ends_with("the server closed the connection without a status"), "{closed}");
    assert!(matches!(ApiError::from(closed).kind, ErrorKind::Transport(_)));
    let cut = status_after(async |socket| drop(socket)).await.unwrap_err();
    assert!(cut.to_string().contains("did not arrive: "), "{cut}");
    let error = status_after(async |socket| socket.close_with(CloseCode::Error, "boom\n").await).await.unwrap_err();
    assert!(error.to_string().ends_with("closed the WebSocket with code 1011: \"boom \""), "{error}");
    let text = status_after(async |socket| socket.end("no json").await).await.unwrap_err();
    assert!(text.to_string().ends_with("the server sent \"no json\" instead of a status"), "{text}");
}

#[tokio::test]
async fn lost_connection_is_a_read_error() {
    for (status, is_complete) in [("", false), (SUCCESS, true)] {
        let (pods, server) = pods(async move |peer: Peer| {
            let mut socket = peer.accept(V5).await;
            socket.send(1, "part").await;
            if !status.is_empty() {
                socket.send(3, status).await;
            }
            // Read the input before closing the socket, because unread input would cause a TCP reset that could
            // overtake the data.
            assert_eq!(socket.next().await.unwrap(), "\0in");
        })
        .await;
        soon(async {
            let mut process = cat(&pods).await;
            let mut stdout = process.stdout.take().unwrap();
            let mut part = [0; 4];
            stdout.read_exact(&mut part).await.unwrap();
            let mut stdin = process.stdin.take().unwrap();
            stdin.write_all(b"in").await.unwrap();
            let end = stdout.read(&mut part).await;
            assert_eq!(end.is_ok(), is_complete, "{end:?}");
            if let Err(error) = end {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                assert!(error.to_string().starts_with("the connection to the API server was lost: "), "{error}");
                let late = stdin.write_all(b"late").await.unwrap_err();
                assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
            }
            assert_eq!(process.status().await.is_ok(), is_complete);
        })
        .await;
        server.await.unwrap();
    }
}

fn frame(first: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match data.len() {
        size @ 0..126 => frame.push(size as u8),
        size @ 126..65536 => frame.extend([&[126][..], &(size as u16).to_be_bytes()].concat()),
        size => frame.extend([&[127][..], &(size as u64).to_be_bytes()].concat()),
    }
    frame.extend(data);
    frame
}

#[tokio::test]
async fn frames_can_be_split_anywhere() {
    let script = [
        frame(0x82, b"\x01one "),
        // Send one message in three frames, with a ping between the frames.
        frame(0x02, b"\x01tw"),
        frame(0x89, b"ping"),
        frame(0x00, b"o "),
        frame(0x80, b"three "),
        frame(0x82, b""),
        frame(0x82, b"\x01"),
        frame(0x81, b"\x01four "),
        frame(0x82, &[&b"\x01"[..], &[b'5'; 300]].concat()),
        frame(0x82, &[&b"\x03"[..], SUCCESS.as_bytes()].concat()),
        frame(0x88, b"\x03\xe8"),
    ]
    .concat();
    let expected = format!("one two three four {}", "5".repeat(300));
    for step in [1, 2, 3, 7, 4096] {
        let bytes = script.clone();
        let (pods, server) = pods(async move |mut peer: Peer| {
            // The first frames may arrive together with the response headers.
            let all = [peer.acceptance(V5).into_bytes(), bytes].concat();
            for chunk in all.chunks(step) {
                peer.say(chunk).await;
                tokio::task::yield_now().await;
            }
            let mut rest = Vec::new();
            peer.stream.read_to_end(&mut rest).await.unwrap();
            rest
        })
        .await;
        let mut process = soon(pods.exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
        assert_eq!(soon(text(&mut process)).await.unwrap(), expected, "chunks of {step} bytes");
        soon(process.status()).await.unwrap();
        drop(process);
        let rest = soon(server).await.unwrap();
        // The payload of the client's pong is masked.
        assert_eq!(rest[..2], [0x8a, 0x84], "{rest:?}");
    }
}

#[tokio::test]
async fn message_above_the_limit_is_an_error() {
    for (size, fits) in [(8 << 20, true), ((16 << 20) + 1, false)] {
        let (pods, server) = pods(async move |mut peer: Peer| {
            peer.say(peer.acceptance(V5)).await;
            let frame = frame(0x82, &[vec![1], vec![b'x'; size - 1]].concat());
            if fits {
                peer.say(frame).await;
            } else {
                // The client closes the connection while the server is sending the message, so ignore the error.
                drop(peer.stream.write_all(&frame).await);
            }
        })
        .await;
        let mut process = soon(pods.exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
        let mut stdout = process.stdout.take().unwrap();
        let mut bytes = Vec::new();
        let error = soon(stdout.read_to_end(&mut bytes)).await.unwrap_err();
        assert_eq!(bytes.len(), if fits { size - 1 } else { 0 });
        let is_about_size = error.to_string().contains("larger than the limit of 16777216 bytes");
        assert_eq!(is_about_size, !fits, "{error}");
        server.await.unwrap();
    }
}

/// Returns bytes that depend on their position, so that lost or repeated data is detected.
fn pattern(from: usize, size: usize) -> Vec<u8> {
    (from..from + size).map(|at| (at / 251 + at) as u8).collect()
}

#[tokio::test]
async fn slow_reader_blocks_the_server_and_loses_nothing() {
    const CHUNK: usize = 32 << 10;
    const CHUNKS: usize = 800;
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let (pods, server) = pods(async move |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        for at in 0..CHUNKS {
            socket.send(1, pattern(at * CHUNK, CHUNK)).await;
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        socket.end(SUCCESS).await;
    })
    .await;
    soon(async {
        let mut process = pods.exec("web-1", ["x"], &ExecOptions::default()).await.unwrap();
        let mut stdout = process.stdout.take().unwrap();
        // Wait until the server cannot send more data, because the client reads none.
        let sent = || sent.load(std::sync::atomic::Ordering::SeqCst);
        let mut calm = 0;
        while calm < 1000 {
            let before = sent();
            tokio::task::yield_now().await;
            calm = if sent() == before { calm + 1 } else { 0 };
        }
        let blocked_at = sent();
        assert!(blocked_at < CHUNKS, "the rest is in the buffers of the kernel");
        let mut bytes = vec![0; CHUNK * CHUNKS];
        stdout.read_exact(&mut bytes).await.unwrap();
        assert!(bytes == pattern(0, CHUNK * CHUNKS));
        process.status().await.unwrap();
    })
    .await;
    server.await.unwrap();
}

#[tokio::test]
async fn echo_of_a_large_input_does_not_block() {
    const SIZE: usize = 8 << 20;
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        while let Some(data) = socket.next().await
            && data[0] == 0
        {
            socket.send(1, &data[1..]).await;
        }
        socket.end(SUCCESS).await;
    })
    .await;
    soon(async {
        let mut process = cat(&pods).await;
        let mut stdin = process.stdin.take().unwrap();
        let mut stdout = process.stdout.take().unwrap();
        let write = async {
            stdin.write_all(&pattern(0, SIZE)).await.unwrap();
            stdin.shutdown().await.unwrap();
        };
        let mut bytes = Vec::new();
        let (_, read) = tokio::join!(write, stdout.read_to_end(&mut bytes));
        read.unwrap();
        assert!(bytes == pattern(0, SIZE));
        process.status().await.unwrap();
    })
    .await;
    server.await.unwrap();
}

#[tokio::test]
async fn server_that_does_not_read_blocks_the_writer() {
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        wait.await.unwrap();
        let mut size = 0;
        while let Some(data) = socket.next().await
            && data[0] == 0
        {
            size += data.len() - 1;
        }
        socket.end(SUCCESS).await;
        size
    })
    .await;
    soon(async {
        const SIZE: usize = 24 << 20;
        let mut process = cat(&pods).await;
        let mut stdin = process.stdin.take().unwrap();
        let written = std::sync::atomic::AtomicUsize::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        let write = async {
            let chunk = vec![0; 1 << 20];
            for _ in 0..SIZE / chunk.len() {
                stdin.write_all(&chunk).await.unwrap();
                written.fetch_add(chunk.len(), order);
            }
            stdin.shutdown().await.unwrap();
        };
        let release = async {
            let mut calm = 0;
            while calm < 1000 {
                let before = written.load(order);
                tokio::task::yield_now().await;
                calm = if written.load(order) == before { calm + 1 } else { 0 };
            }
            assert!(written.load(order) < SIZE, "the rest is in the buffers of the kernel");
            go.send(()).unwrap();
        };
        tokio::join!(write, release);
        process.status().await.unwrap();
        assert_eq!(server.await.unwrap(), SIZE);
    })
    .await;
}

#[tokio::test]
async fn server_can_close_one_output() {
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        socket.send(1, "out").await;
        socket.send(255, [1]).await;
        // Malformed close messages and close messages for other channels are ignored.
        socket.send(255, []).await;
        socket.send(255, [9]).await;
        assert_eq!(socket.next().await.unwrap(), "\0go on");
        socket.send(1, "late").await;
        socket.send(2, "err").await;
        socket.end(SUCCESS).await;
    })
    .await;
    soon(async {
        let mut process = cat(&pods).await;
        assert_eq!(text(&mut process).await.unwrap(), "out");
        process.stdin.as_mut().unwrap().write_all(b"go on").await.unwrap();
        let mut errors = String::new();
        process.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
        assert_eq!(errors, "err");
    })
    .await;
    server.await.unwrap();
}

/// The connection is driven by a task on the runtime that opened it.
#[test]
fn end_of_the_runtime_is_a_read_error() {
    let (first, second) = (tokio::runtime::Runtime::new().unwrap(), tokio::runtime::Runtime::new().unwrap());
    let mut process = first.block_on(async {
        let (pods, _server) = pods(async |peer: Peer| peer.accept(V5).await.next().await).await;
        soon(cat(&pods)).await
    });
    first.shutdown_background();
    second.block_on(soon(async {
        let mut stdin = process.stdin.take().unwrap();
        let error = text(&mut process).await.unwrap_err();
        assert!(error.to_string().ends_with("its task has ended, with its runtime"), "{error}");
        assert_eq!(stdin.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(matches!(process.status().await, Err(ExecError::Disconnected { .. })));
    }));
}

#[tokio::test]
async fn unread_output_is_discarded_while_waiting_for_the_status() {
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        for _ in 0..100 {
            socket.send(1, vec![0; 32 << 10]).await;
            socket.send(2, vec![0; 32 << 10]).await;
        }
        socket.end(SUCCESS).await;
    })
    .await;
    let mut process = soon(pods.exec("web-1", ["x"], &ExecOptions::default())).await.unwrap();
    soon(process.status()).await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn connection_lives_as_long_as_one_handle() {
    let (pods, server) = pods(async |peer: Peer| {
        let mut socket = peer.accept(V5).await;
        assert_eq!(socket.next().await.unwrap(), &[255, 0][..]);
        socket.send(1, "still here").await;
        socket.next().await
    })
    .await;
    soon(async {
        let mut process = cat(&pods).await;
        let mut stdout = process.stdout.take().unwrap();
        drop(process);
        let mut part = [0; 10];
        stdout.read_exact(&mut part).await.unwrap();
        drop(stdout);
        assert_eq!(server.await.unwrap(), None, "the client has closed the connection");
    })
    .await;
}

#[tokio::test]
async fn terminal_sends_its_last_size() {
    let (pods, server) = pods(async |peer: Peer| {
        let target = peer.target().to_owned();
        let mut socket = peer.accept(V5).await;
        let size = socket.next().await.unwrap();
        socket.end(SUCCESS).await;
        (target, size)
    })
    .await;
    let mut process = soon(pods.exec("web-1", ["sh"], &ExecOptions::terminal())).await.unwrap();
    let terminal = process.terminal.clone().unwrap();
    for width in [80, 120] {
        terminal.resize(TerminalSize { width, height: 40 }).unwrap();
    }
    let (target, size) = soon(server).await.unwrap();
    assert!(target.contains("stderr=false&stdin=true&stdout=true&tty=true"), "{target}");
    assert_eq!(size, "\x04{\"Width\":120,\"Height\":40}");
    assert_eq!(soon(text(&mut process)).await.unwrap(), "");
    let late = terminal.resize(TerminalSize { width: 1, height: 1 }).unwrap_err();
    assert_eq!(late.to_string(), "the command has ended");
    soon(process.status()).await.unwrap();
}

#[tokio::test]
async fn idle_connection_sends_pings() {
    let (pods, server) = pods(async |peer: Peer| peer.accept(V5).await.0.next().await).await;
    let process = soon(cat(&pods)).await;
    tokio::time::pause();
    let _clock = steady_clock();
    let message = server.await.unwrap().unwrap().unwrap();
    assert!(matches!(message, Message::Ping(_)), "{message:?}");
    drop(process);
}
