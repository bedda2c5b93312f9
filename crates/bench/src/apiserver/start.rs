//! Measures the time from the start of a server process to its first response.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pintle_kubeconfig::{Environment, Overrides};

use super::Setting;
use crate::meter::{Sample, Tally, measure, resident_of};
use crate::stopwatch::quantile_ms;

/// Repeatedly starts an embedded server in a new process, and requests its version over plain HTTP.
pub(super) fn start(setting: &Setting) -> Sample {
    let times = setting.size(1_000).min(20);
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

/// A process with the embedded server, which is killed on drop.
struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path").with_file_name("api_server");
        let mut command = Command::new(program);
        let mut child = command
            .arg("--http")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cannot start the server");
        let mut kubeconfig = String::new();
        let output = child.stdout.take().expect("the output is a pipe");
        BufReader::new(output).read_line(&mut kubeconfig).expect("the server prints the path of its kubeconfig");
        Self(child, kubeconfig.trim_end().to_owned())
    }

    fn answer(&self) {
        let (none, here) = (Overrides::default(), Environment::default());
        let config = pintle_kubeconfig::infer(Some(self.1.as_str().into()), &none, &here).expect("a valid kubeconfig");
        let mut socket = TcpStream::connect(config.server.trim_start_matches("http://")).expect("the server listens");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("cannot set a timeout");
        socket.write_all(b"GET /version HTTP/1.1\r\nHost: bench\r\n\r\n").expect("the server reads");
        let mut answer = [0; 15];
        socket.read_exact(&mut answer).expect("the server answers");
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("the server ends with its input");
    }
}
