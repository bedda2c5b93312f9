//! From the start of a process to its first answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pintle_kubeconfig::{Environment, Overrides};

use super::{Setting, quantile_ms};
use crate::Sample;
use crate::meter::{Tally, measure, resident_of};

/// Starts the program of the embedded server again and again, over plain HTTP, and asks each for its version.
pub(super) fn start(how: &Setting) -> Sample {
    let times = how.size(1_000).min(20);
    let mut took = Vec::new();
    let mut bytes = 0.0;
    let sample = measure(|| {
        for _ in 0..times {
            let begun = Instant::now();
            let server = Server::start();
            server.answer();
            took.push(begun.elapsed());
            bytes += resident_of(&server.0.id().to_string());
        }
        Tally::operations(times)
    });
    sample
        .with("ms to the first answer", quantile_ms(&mut took, 0.5))
        .with("MB at the first answer", bytes / 1e6 / times as f64)
}

/// One of ours, which ends when this is dropped.
struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path").with_file_name("api_server");
        let mut command = Command::new(program);
        let mut child = command.arg("--http").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
        let mut kubeconfig = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut kubeconfig).expect("the place of a kubeconfig");
        Self(child, kubeconfig.trim_end().to_owned())
    }

    fn answer(&self) {
        let (none, here) = (Overrides::default(), Environment::default());
        let config = pintle_kubeconfig::infer(Some(self.1.as_str().into()), &none, &here).expect("a kubeconfig");
        let mut socket = TcpStream::connect(config.server.trim_start_matches("http://")).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        socket.write_all(b"GET /version HTTP/1.1\r\nHost: bench\r\n\r\n").expect("it reads");
        let mut answer = [0; 15];
        socket.read_exact(&mut answer).expect("it answers");
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends with its input");
    }
}
