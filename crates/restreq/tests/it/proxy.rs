//! Requests through a proxy: forwarded where the server speaks plain HTTP.

use pintle_meta::ClientConfig;
use pintle_restreq::RestClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Server, soon};

/// A proxy for one tunnel; returns its address, and what it was asked.
async fn tunnel() -> (std::net::SocketAddr, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut server = TcpStream::connect(target).await.unwrap();
        // Ends with either side; how does not matter.
        drop(copy_bidirectional(&mut client, &mut server).await);
        head
    });
    (addr, asked)
}

#[tokio::test]
async fn a_plain_request_is_forwarded_with_its_whole_url() {
    let proxy = Server::start([]).await;
    let mut config = ClientConfig::new("http://server.invalid:8080/prefix");
    config.proxy_url = Some(format!("http://me:pw@{}", proxy.addr));
    soon(RestClient::new(config).unwrap().get().resource("pods").send()).await.unwrap();
    let seen = &proxy.seen()[0];
    assert_eq!(seen.header("host"), Some("server.invalid:8080"));
    assert_eq!(seen.header("proxy-authorization"), Some("Basic bWU6cHc="));
    assert!(seen.uri.ends_with("/prefix/pods"), "{}", seen.uri);
}

#[tokio::test]
async fn a_tls_connection_goes_through_a_tunnel() {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let server = Server::start_with([], crate::support::Reply::ok(), Some(tls.into())).await;
    let (proxy, asked) = tunnel().await;
    let mut config = server.config();
    config.tls.insecure_skip_verify = true;
    config.proxy_url = Some(format!("http://me:pw@{proxy}"));
    soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
    assert_eq!(server.seen().len(), 1);
    assert_eq!(server.seen()[0].header("proxy-authorization"), None, "the password is for the proxy alone");
    drop(server);
    let asked = soon(asked).await.unwrap();
    assert!(asked.starts_with("CONNECT 127.0.0.1:") && asked.to_lowercase().contains("proxy-authorization"), "{asked}");
}
