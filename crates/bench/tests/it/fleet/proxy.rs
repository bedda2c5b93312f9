//! A network proxy between a process and the server. While the network is cut, it accepts data without
//! forwarding the data.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = watch::Sender::new(false);
        let state = cut.subscribe();
        let task = tokio::spawn(async move {
            let mut directions = tokio::task::JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(server).await else { continue };
                let (from_near, to_near) = near.into_split();
                let (from_far, to_far) = far.into_split();
                directions.spawn(forward(from_near, to_far, state.clone()));
                directions.spawn(forward(from_far, to_near, state.clone()));
            }
        });
        Self { port, cut, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}

/// Forwards data in one direction, except while the network is cut.
async fn forward(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let healed = cut.wait_for(|cut| !cut).await.is_ok();
        if !healed || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
