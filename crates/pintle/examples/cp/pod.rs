//! A server that simulates a pod. The server runs the command of an `exec` request on the local machine, in a temporary
//! directory.

use std::process::Stdio;

use futures_util::{SinkExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use percent_encoding::percent_decode_str;
use pintle::meta::ClientConfig;
use pintle::prelude::*;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

const PROTOCOL: &str = "v5.channel.k8s.io";

/// Starts the server. Returns a client for the simulated pods, and the working directory of `exec` commands.
pub(crate) async fn start() -> anyhow::Result<(Api<Pod>, TempDir)> {
    let root = tempfile::tempdir()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let config = ClientConfig::new(format!("http://{}", listener.local_addr()?));
    let folder = root.path().to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut command = Command::new("false");
            #[allow(clippy::result_large_err, reason = "the type of the callback")]
            let accept = |request: &Request, mut response: Response| {
                command = command_of(request.uri().query().unwrap_or_default());
                response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
                Ok(response)
            };
            if let Ok(socket) = accept_hdr_async(stream, accept).await {
                command.current_dir(&folder).kill_on_drop(true);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                tokio::spawn(run(socket, command.spawn().expect("the command exists")));
            }
        }
    });
    Ok((Cluster::connect(config)?.api(), root))
}

fn command_of(query: &str) -> Command {
    let words = query.split('&').filter_map(|pair| pair.strip_prefix("command="));
    let mut words = words.map(|word| percent_decode_str(&word.replace('+', " ")).decode_utf8_lossy().into_owned());
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Forwards the standard streams of the child process over the WebSocket until the process or the connection ends.
async fn run(mut socket: WebSocketStream<TcpStream>, mut child: Child) -> anyhow::Result<()> {
    let mut stdin = child.stdin.take();
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (mut out, mut err) = (vec![0; 1 << 14], vec![0; 1 << 14]);
    let (mut has_out, mut has_err) = (true, true);
    while has_out || has_err {
        tokio::select! {
            size = stdout.read(&mut out), if has_out => {
                let size = size?;
                has_out = size > 0;
                socket.send(message(1, &out[..size])).await?;
            }
            size = stderr.read(&mut err), if has_err => {
                let size = size?;
                has_err = size > 0;
                socket.send(message(2, &err[..size])).await?;
            }
            received = socket.next() => match received {
                Some(Ok(Message::Binary(data))) if data.starts_with(&[0]) => {
                    if let Some(stdin) = &mut stdin {
                        stdin.write_all(&data[1..]).await?;
                    }
                }
                Some(Ok(Message::Binary(data))) if *data == [255, 0] => stdin = None,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Ok(()),
            },
        }
    }
    let status = match child.wait().await?.code() {
        Some(0) => serde_json::json!({"status": "Success"}),
        code => serde_json::json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [
            {"reason": "ExitCode", "message": code.unwrap_or(137).to_string()}]}}),
    };
    socket.send(message(3, status.to_string().as_bytes())).await?;
    socket.close(None).await?;
    while let Some(Ok(_)) = socket.next().await {}
    Ok(())
}

fn message(channel: u8, data: &[u8]) -> Message {
    Message::Binary(Bytes::from([&[channel], data].concat()))
}
