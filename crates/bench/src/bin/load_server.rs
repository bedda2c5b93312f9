//! Serves so many pods on a port of loopback, `load_server --pods N`, and prints its address. Ends when nobody holds its input any more.
#![allow(clippy::print_stdout, reason = "a program that talks to its caller")]

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
    // Who connects before the pods are made waits for them.
    println!("http://{}", listener.local_addr()?);
    pintle_bench::load::serve(pods, &listener)?;
    Ok(())
}
