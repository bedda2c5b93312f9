//! Proxy protocols: HTTP `CONNECT` and SOCKS5 (RFC 1928, RFC 1929).

use std::io;
use std::net::IpAddr;

use http::HeaderValue;
use memchr::memmem;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct ProxyError(String);

const LONGEST_HEAD: usize = 8 << 10;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    host: &str,
    port: u16,
    auth: Option<&HeaderValue>,
) -> io::Result<()> {
    let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    if let Some(auth) = auth {
        head.extend_from_slice(b"Proxy-Authorization: ");
        head.extend_from_slice(auth.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    stream.write_all(&head).await?;
    let mut answer = Vec::new();
    let head_ends = loop {
        if let Some(at) = memmem::find(&answer, END_OF_HEAD) {
            break at + END_OF_HEAD.len();
        }
        if answer.len() > LONGEST_HEAD {
            return Err(fault("the proxy's response is too long"));
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(fault("the proxy closed the connection"));
        }
    };
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let is_http = words.next().is_some_and(|word| word.starts_with(b"HTTP/1."));
    match words.next().filter(|_| is_http).and_then(|code| std::str::from_utf8(code).ok()?.parse::<u16>().ok()) {
        // The server cannot send data after the response headers, because the client must send data first.
        Some(200..300) if answer.len() > head_ends => Err(fault("the proxy sent data before the tunnel was used")),
        Some(200..300) => Ok(()),
        Some(407) => Err(fault("the proxy rejected the user and password")),
        Some(code) => Err(fault(format!("the proxy responded with status {code}"))),
        None => Err(fault("the proxy's response is not HTTP")),
    }
}

const VERSION: u8 = 5;
const NO_AUTH: u8 = 0;
const PASSWORD: u8 = 2;

/// Connects to the server through a SOCKS5 proxy. The proxy resolves the server's name.
pub(crate) async fn socks5<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    host: &str,
    port: u16,
    auth: Option<&(String, String)>,
) -> io::Result<()> {
    // Offer both authentication methods, because a proxy that requires no password may not support passwords.
    match auth {
        Some(_) => stream.write_all(&[VERSION, 2, NO_AUTH, PASSWORD]).await?,
        None => stream.write_all(&[VERSION, 1, NO_AUTH]).await?,
    }
    let chosen = match read(stream).await? {
        [VERSION, method @ (NO_AUTH | PASSWORD)] => method,
        [VERSION, _] => return Err(fault("the proxy requires an unsupported authentication method")),
        _ => return Err(fault("the proxy does not speak SOCKS5")),
    };
    if chosen == PASSWORD {
        let (user, password) = auth.ok_or_else(|| fault("the proxy requires a user and a password"))?;
        let mut login = vec![1];
        for text in [user, password] {
            login.push(u8::try_from(text.len()).map_err(|_| fault("user or password is too long for the proxy"))?);
            login.extend_from_slice(text.as_bytes());
        }
        stream.write_all(&login).await?;
        let [_, refused] = read(stream).await?;
        if refused != 0 {
            return Err(fault("the proxy rejected the user and password"));
        }
    }
    let mut wanted = vec![VERSION, 1, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            wanted.push(1);
            wanted.extend_from_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            wanted.push(4);
            wanted.extend_from_slice(&address.octets());
        }
        Err(_) => {
            let length = u8::try_from(host.len()).map_err(|_| fault("the server's name is too long for the proxy"))?;
            wanted.extend_from_slice(&[3, length]);
            wanted.extend_from_slice(host.as_bytes());
        }
    }
    wanted.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&wanted).await?;
    let [_, reply, _, kind] = read(stream).await?;
    match reply {
        0 => {
            let length = match kind {
                1 => 4,
                4 => 16,
                _ => usize::from(stream.read_u8().await?),
            };
            // Ignore the proxy's address and port in the response.
            stream.read_exact(&mut vec![0; length + 2]).await.map(drop)
        }
        2 => Err(fault("the proxy does not allow this server")),
        3 | 4 => Err(fault("the proxy cannot reach the server")),
        5 => Err(io::Error::new(io::ErrorKind::ConnectionRefused, ProxyError("the server refused the proxy".into()))),
        6 => Err(fault("the proxy could not reach the server in time")),
        other => Err(fault(format!("the proxy failed with code {other}"))),
    }
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn fault(text: impl Into<String>) -> io::Error {
    io::Error::other(ProxyError(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the handshake with a proxy that sends its entire response at once. Returns the bytes from the client, and
    /// the result.
    async fn asked(host: &str, auth: Option<&HeaderValue>, answer: &[u8]) -> (String, Result<(), String>) {
        let (mut client, mut proxy) = tokio::io::duplex(20 << 10);
        proxy.write_all(answer).await.unwrap();
        let mut sent = vec![0; 1000];
        let opened = connect(&mut client, host, 6443, auth);
        let ended = async {
            let length = proxy.read(&mut sent).await.unwrap();
            drop(proxy);
            String::from_utf8_lossy(&sent[..length]).into_owned()
        };
        let (opened, sent) = tokio::join!(opened, ended);
        (sent, opened.map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn tunnel_opens_when_the_proxy_responds_with_2xx() {
        let auth = HeaderValue::from_static("Basic x");
        let (sent, opened) = asked("::1", Some(&auth), b"HTTP/1.1 200 Go on\r\nA: b\r\n\r\n").await;
        assert_eq!(opened, Ok(()));
        assert_eq!(sent, "CONNECT [::1]:6443 HTTP/1.1\r\nHost: [::1]:6443\r\nProxy-Authorization: Basic x\r\n\r\n");
        for (answer, word) in [
            (&b"HTTP/1.1 407 No\r\n\r\n"[..], "rejected the user"),
            (b"HTTP/1.0 502 Bad\r\n\r\n", "502"),
            (b"SSH-2.0\r\n\r\n", "not HTTP"),
            (b"", "closed"),
            (&[b'x'; 9 << 10], "too long"),
            (b"HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\nWhy", "rejected the user"),
            (b"HTTP/1.1 200 Go on\r\n\r\nWhy", "before the tunnel"),
        ] {
            let error = asked("host", None, answer).await.1.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    async fn socks(host: &str, auth: Option<&(String, String)>, answer: &[u8]) -> (Vec<u8>, Result<(), String>) {
        let (mut client, mut proxy) = tokio::io::duplex(2000);
        proxy.write_all(answer).await.unwrap();
        let opened = socks5(&mut client, host, 6443, auth);
        let opened = tokio::time::timeout(std::time::Duration::from_secs(1), opened).await.unwrap();
        drop(client);
        let mut sent = Vec::new();
        proxy.read_to_end(&mut sent).await.unwrap();
        (sent, opened.map_err(|error| error.to_string()))
    }

    #[tokio::test(start_paused = true)]
    async fn socks5_request_has_name_or_address() {
        let done = [5, 0, 5, 0, 0, 1, 9, 9, 9, 9, 0, 80];
        let (sent, opened) = socks("host", None, &done).await;
        assert_eq!((&sent[..], opened), (&b"\x05\x01\x00\x05\x01\x00\x03\x04host\x19\x2b"[..], Ok(())));
        let (sent, opened) = socks("10.0.0.1", None, &done).await;
        assert_eq!((&sent[3..], opened), (&b"\x05\x01\x00\x01\x0a\x00\x00\x01\x19\x2b"[..], Ok(())));

        let auth = ("me".to_owned(), "pw".to_owned());
        let (sent, opened) = socks("host", Some(&auth), &[5, 2, 1, 0, 5, 0, 0, 3, 1, b'a', 0, 80]).await;
        assert_eq!((&sent[..11], opened), (&b"\x05\x02\x00\x02\x01\x02me\x02pw"[..], Ok(())));
        let (sent, opened) = socks("host", Some(&auth), &done).await;
        assert_eq!(
            (&sent[..5], opened),
            (&b"\x05\x02\x00\x02\x05"[..], Ok(())),
            "no password is sent if the proxy needs none"
        );
        let error = socks("host", None, &[5, 2]).await.1.unwrap_err();
        assert!(error.contains("requires a user"), "{error}");
        for (answer, word) in [
            (&[5, 255][..], "authentication method"),
            (b"HTTP/1.1", "does not speak SOCKS5"),
            (&[5, 2, 1, 1], "rejected the user"),
            (&[5, 2, 1, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0], "does not allow"),
            (&[5, 2, 1, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0], "refused"),
            // A proxy may close the connection before it has sent the address in its response.
            (&[5, 2, 1, 0, 5, 2, 0, 1], "does not allow"),
        ] {
            let error = socks("host", Some(&auth), answer).await.1.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
