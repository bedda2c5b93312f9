//! A network proxy between the operator and the server. While the network is cut, the proxy closes all
//! connections.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub(super) struct Proxy {
    pub(super) port: u16,
    is_cut: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    pub(super) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener").port();
        let is_cut = watch::Sender::new(false);
        let mut cut = is_cut.subscribe();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((mut near, _)) = accepted else { return };
                        if !*cut.borrow() {
                            connections.spawn(async move {
                                if let Ok(mut far) = TcpStream::connect(server).await {
                                    // Ignore connection errors, which the operator must handle.
                                    _ = copy_bidirectional(&mut near, &mut far).await;
                                }
                            });
                        }
                    }
                    Ok(()) = cut.changed() => if *cut.borrow() { connections.abort_all() },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { port, is_cut, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}
