//! Tests of connection tasks, which are unit tests because only the server can count its tasks.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn websocket_task_ends_when_client_disconnects() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let idle = server.tasks.len();
    let mut socket = TcpStream::connect(server.address).await.expect("the server listens");
    let request = "GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Origin: http://x\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n\r\n";
    socket.write_all(request.as_bytes()).await.expect("a write");
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 101");
    assert_eq!(server.tasks.len(), idle + 1);
    drop(socket);
    let gone = async {
        while server.tasks.len() > idle {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the connection's task ends");
}
