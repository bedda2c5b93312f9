//! Tests of proxy settings from environment variables. The tests run in another process, because environment variables
//! affect the entire process.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use pintle_meta::ClientConfig;
use pintle_restreq::{RestClient, RestClientConfig};

const SERVER: &str = "PINTLE_TEST_SERVER";

/// Starts a server that responds to one request with `body`. Returns the server's port.
fn answer(body: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            socket.write_all(head.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn client_uses_the_proxy_of_the_environment_unless_disabled() {
    let run = |proxy: u16, server: u16| {
        let this_test = "environment::environment_decides_in_a_second_process";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--include-ignored", this_test])
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .env("HTTP_PROXY", format!("http://127.0.0.1:{proxy}"))
            .env(SERVER, format!("http://0.0.0.0:{server}"))
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    };
    run(answer(r#"{"kind":"proxy"}"#), answer(r#"{"kind":"server"}"#));
}

/// The address 0.0.0.0 refers to this machine but is not a loopback address, so requests to it use the proxy.
#[tokio::test]
#[ignore = "the test above runs it with a proxy in the environment"]
async fn environment_decides_in_a_second_process() {
    let base = std::env::var(SERVER).expect("the first process sets the server");
    for (proxy_from_environment, expected) in [(true, r#"{"kind":"proxy"}"#), (false, r#"{"kind":"server"}"#)] {
        let config = RestClientConfig { proxy_from_environment, ..ClientConfig::new(&base).into() };
        let response = RestClient::new(config).unwrap().get().resource("pods").send().await.unwrap();
        assert_eq!(response.body(), expected.as_bytes());
    }
}
