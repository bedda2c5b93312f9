//! The load server, as the programs that are fed by it see it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

/// What is asked of the load server beside the lists and watches. Each call is a connection of its own and blocks its thread.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    /// Where it listens: `http://127.0.0.1:1234`.
    pub(crate) server: String,
}

/// How the load server is getting on.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Stats {
    /// How many pods it has.
    pub(crate) pods: usize,
    /// The resourceVersion of its list.
    pub(crate) version: u64,
    watches: usize,
    /// When the last list was asked for, in nanoseconds since 1970.
    listed: u64,
}

impl Feed {
    /// # Panics
    ///
    /// As all calls of this type, if the server does not answer as it is to.
    pub(crate) fn stats(&self) -> Stats {
        serde_json::from_str(&self.ask("/control/stats")).expect("the load server tells its stats")
    }

    /// Waits for the one watch of this program.
    pub(crate) fn wait_for_watch(&self) {
        while self.stats().watches != 1 {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has it begin to send so many updates, and returns when that was. `first`: how many it has sent before.
    pub(crate) fn events(&self, first: usize, n: usize) -> Instant {
        let begin = Instant::now();
        self.ask(&format!("/control/events?first={first}&n={n}"));
        begin
    }

    /// Changes so many pods, and ends the watch as too old.
    pub(crate) fn expire(&self, changed: usize) {
        self.ask(&format!("/control/expire?changed={changed}"));
    }

    /// How long ago the last list was asked for.
    pub(crate) fn since_list(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_nanos(self.stats().listed))
    }

    fn ask(&self, path: &str) -> String {
        let answer = self.server.strip_prefix("http://").map(|address| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            // The one chunk is the answer, between its length and the end.
            Ok(answer.lines().find(|line| line.starts_with('{')).unwrap_or_default().to_owned())
        });
        answer.expect("the server is an address on HTTP").expect("the load server answers")
    }
}
