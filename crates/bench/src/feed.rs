//! A client for the load server's control requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

/// Sends control requests to the load server, on connections without lists and watches. Each call opens a connection
/// and blocks the calling thread.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    pub(crate) server: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Stats {
    pub(crate) pods: usize,
    pub(crate) version: u64,
    watches: usize,
    /// The time of the last list request, in nanoseconds since 1970.
    listed: u64,
}

impl Feed {
    /// # Panics
    ///
    /// Panics if the load server does not respond as expected, like all methods of `Feed`.
    pub(crate) fn stats(&self) -> Stats {
        serde_json::from_str(&self.get("/control/stats")).expect("the load server returns its statistics")
    }

    pub(crate) fn wait_for_watch(&self) {
        while self.stats().watches != 1 {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes the server send `n` updates and returns the time of the request. `first` must be the number of updates
    /// that the server has sent so far.
    pub(crate) fn events(&self, first: usize, n: usize) -> Instant {
        let begin = Instant::now();
        self.get(&format!("/control/events?first={first}&n={n}"));
        begin
    }

    /// Changes `changed` pods and ends the watch with 410 Expired.
    pub(crate) fn expire(&self, changed: usize) {
        self.get(&format!("/control/expire?changed={changed}"));
    }

    pub(crate) fn since_list(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_nanos(self.stats().listed))
    }

    fn get(&self, path: &str) -> String {
        let answer = self.server.strip_prefix("http://").map(|address| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            // Only the JSON line of the response's single chunk starts with `{`.
            Ok(answer.lines().find(|line| line.starts_with('{')).unwrap_or_default().to_owned())
        });
        answer.expect("the server has an HTTP address").expect("the load server answers")
    }
}
