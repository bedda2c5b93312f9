//! Serves N pods on a loopback port and prints the URL: `load_server --pods N`. The program exits when its
//! standard input is closed.
#![allow(clippy::print_stdout, reason = "the caller reads the output")]

use std::error::Error;
use std::io::Read as _;
use std::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ["--pods", pods] = args.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        return Err("usage: load_server --pods N".into());
    };
    let pods = pods.parse()?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // Print the URL before creating the pods, because connections can wait in the listener's backlog.
    println!("http://{}", listener.local_addr()?);
    pintle_bench::load::serve(pods, &listener)?;
    Ok(())
}
