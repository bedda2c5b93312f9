//! Entry points for the fuzz targets in `crates/fuzz/` and for the corpus tests in this module. Each function panics if
//! an invariant is violated for its input.

#![allow(clippy::unwrap_used, reason = "failed checks panic")]

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http1::http1_read;
use crate::proxy::bypass::bypasses;
use crate::tls::pem_faults;
use crate::tunnel;

const SECRET: &str = "hush";

/// Checks that errors about a PEM file never contain text from the file.
pub fn pem(bytes: &[u8]) {
    for error in pem_faults(bytes) {
        assert!(!error.to_string().contains(SECRET), "{error}");
    }
}

/// Checks the parser for the response of a proxy to `CONNECT`. The result must not depend on how the input is split
/// into chunks, and errors must not quote the response.
pub fn proxy_answer(bytes: &[u8]) {
    let connect = |step| now(tunnel::connect(&mut Peer { said: bytes, step }, "host", 443, None));
    let (whole, parts) = (connect(usize::MAX), connect(1));
    // The client must reject data after the response headers.
    assert!(whole.is_err() || parts.is_ok() || bytes.len() > 8 << 10, "{parts:?}");
    let me = ("me".to_owned(), "pw".to_owned());
    for auth in [None, Some(&me)] {
        let socks = |step| now(tunnel::socks5(&mut Peer { said: bytes, step }, "host", 443, auth));
        let [whole, parts] = [usize::MAX, 1].map(|step| socks(step).map_err(|error| error.to_string()));
        assert_eq!(whole, parts);
        assert!(!whole.is_err_and(|error| error.contains(SECRET)));
    }
    for error in [whole.err(), parts.err()].into_iter().flatten() {
        assert!(!error.to_string().contains(SECRET), "{error}");
    }
}

/// A connection that returns at most `step` bytes per read, and that ignores writes.
struct Peer<'a> {
    said: &'a [u8],
    step: usize,
}

impl AsyncRead for Peer<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (now, later) = self.said.split_at(self.said.len().min(self.step).min(buf.remaining()));
        buf.put_slice(now);
        self.said = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls a future that is always ready, and returns its output.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

/// Checks an HTTP/1.1 response. The result must not depend on how the input is split into reads, and the client must
/// not read beyond the end of the response.
pub fn http1_response(bytes: &[u8]) {
    for is_head in [false, true] {
        let whole = http1_read(bytes, bytes.len().max(1), is_head);
        for step in [1, 7] {
            assert_eq!(http1_read(bytes, step, is_head), whole, "reads of {step} bytes");
        }
        let Ok((status, body, left)) = whole else { continue };
        assert!(status.as_u16() >= 200 && body.len() + left < bytes.len(), "{status}");
        assert!(!is_head || body.is_empty());
        // The response must not depend on the data after it.
        if left > 0 {
            let end = bytes.len() - left;
            assert_eq!(http1_read(&bytes[..end], 7, is_head), Ok((status, body, 0)));
        }
    }
}

/// Checks a gzip body. The result must not depend on how the input is split into chunks, and must equal the output of
/// `flate2`.
#[cfg(feature = "gzip")]
pub fn gzip(bytes: &[u8]) {
    use std::io::Read as _;

    const MOST: usize = 256 << 10;
    let inflate = |step: usize| crate::response_body::inflated(bytes.chunks(step), MOST).ok();
    let whole = inflate(bytes.len().max(1));
    for step in [1, 7] {
        assert_eq!(inflate(step), whole, "chunks of {step} bytes");
    }
    let mut others = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(bytes).take(MOST as u64).read_to_end(&mut others);
    if let Some(whole) = whole.filter(|whole| whole.len() < MOST && !bytes.is_empty()) {
        assert!(read.is_ok() && others == whole, "{read:?}");
    }
}

/// Checks `NO_PROXY` rules. The first line is the value of `NO_PROXY`. Each other line is a host.
pub fn no_proxy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let list = lines.next().unwrap_or_default();
    for host in lines.take(20) {
        let found = bypasses(list, host, 443);
        assert_eq!(bypasses(&list.to_ascii_uppercase(), host, 443), found, "{list:?} {host:?} without regard to case");
        assert_eq!(bypasses(&format!("{list}, ,"), host, 443), found, "{list:?} {host:?} with empty entries");
        assert!(bypasses(&format!("{list},*"), host, 443));
    }
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn errors_do_not_quote_a_certificate_file() {
        replay("pem", pem);
    }

    #[test]
    fn proxy_response_is_parsed_without_being_quoted() {
        replay("proxy_answer", proxy_answer);
    }

    #[test]
    fn any_http1_response_has_one_end() {
        replay("http1_response", http1_response);
    }

    #[cfg(feature = "gzip")]
    #[test]
    fn any_gzip_is_inflated_correctly() {
        replay("gzip", gzip);
    }

    #[test]
    fn any_no_proxy_list_is_read_without_panic() {
        replay("no_proxy", no_proxy);
    }
}
