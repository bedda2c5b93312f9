//! Sends a watch over a WebSocket. Each frame of the watch is one WebSocket message. Protobuf messages are sent without a
//! length prefix.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pintle_apimachinery::request::accept::Media;
use pintle_schema::protobuf;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as RawFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::watch::{Frame, Watcher};

/// The maximum length of a client's messages, in bytes. The server ignores the content of the messages.
const MAX_MESSAGE: usize = 64 * 1024;
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) connection: OnUpgrade,
    pub(super) watcher: Box<Watcher>,
}

impl Socket {
    /// Sends the watch until it ends or the client closes the WebSocket. Dropping the future closes the connection.
    pub(crate) async fn run(self) {
        match self.connection.await {
            Ok(connection) => {
                if let Err(error) = stream(TokioIo::new(connection), *self.watcher).await {
                    tracing::debug!(%error, "WebSocket failed");
                }
            }
            Err(error) => tracing::debug!(%error, "cannot upgrade a connection to WebSocket"),
        }
    }

    /// Returns the time at which the watch ends, even if the client does not read. Returns `None` for a watch without an end.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.watcher.ends()
    }
}

/// Sends the watch's frames and responds to pings. Returns when the watch ends or the client closes the WebSocket.
async fn stream(connection: impl AsyncRead + AsyncWrite + Unpin, mut watcher: Watcher) -> Result<(), Error> {
    let config = WebSocketConfig::default()
        .read_buffer_size(4096)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
    let (mut sink, mut source) = socket.split();
    let media = watcher.media();
    let end = tokio::select! {
        closed = drain(&mut source) => return closed,
        end = send(&mut watcher, &mut sink) => end?,
    };
    match end {
        End::Cut => (),
        End::Close => {
            let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            sink.send(Message::Close(Some(close))).await?;
            // Drop the connection after the timeout, even if the client has not sent a close frame.
            let _ = tokio::time::timeout(LINGER, drain(&mut source)).await;
        }
        End::Torn(bytes) => {
            let mut whole = Vec::new();
            message(bytes, media).format(&mut whole)?;
            if let Ok(mut socket) = sink.reunite(source) {
                socket.get_mut().write_all(&whole[..whole.len() / 2]).await?;
            }
        }
    }
    Ok(())
}

async fn send(watcher: &mut Watcher, sink: &mut (impl SinkExt<Message, Error = Error> + Unpin)) -> Result<End, Error> {
    let media = watcher.media();
    loop {
        match watcher.next().await {
            Some(Ok(Frame { bytes, torn: false })) => sink.send(Message::Frame(message(bytes, media))).await?,
            Some(Ok(Frame { bytes, torn: true })) => return Ok(End::Torn(bytes)),
            Some(Err(cut)) => {
                tracing::debug!(%cut, "watch was cut");
                return Ok(End::Cut);
            }
            None => return Ok(End::Close),
        }
    }
}

enum End {
    Close,
    /// Close the connection without a close frame.
    Cut,
    Torn(Bytes),
}

fn message(bytes: Bytes, media: Media) -> RawFrame {
    match media {
        Media::Protobuf => RawFrame::message(bytes.slice(protobuf::LENGTH..), OpCode::Data(Data::Binary), true),
        Media::Json | Media::Yaml => RawFrame::message(bytes, OpCode::Data(Data::Text), true),
    }
}

async fn drain(source: &mut (impl StreamExt<Item = Result<Message, Error>> + Unpin)) -> Result<(), Error> {
    while let Some(message) = source.next().await {
        message?;
    }
    Ok(())
}
