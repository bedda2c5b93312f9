//! The program `pintle-apiserver`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("the program ends");
    }
}

/// What the program tells on standard error up to the line that names its URL.
fn told_at_the_start(arguments: &[&str]) -> String {
    let tokens = std::env::temp_dir().join(format!("pintle-program-{:x}.csv", fastrand::u64(..)));
    std::fs::write(&tokens, "t,bob,1\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pintle-apiserver"));
    command.args(arguments).env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
    if arguments.contains(&"--token-auth-file") {
        command.arg(&tokens);
    }
    let mut program = Program(command.spawn().expect("the program starts"));
    let mut url = String::new();
    let stdout = program.0.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut url).expect("a line");
    std::fs::remove_file(&tokens).expect("the file");
    let mut stderr = program.0.stderr.take().expect("a pipe");
    drop(program);
    let mut told = String::new();
    stderr.read_to_string(&mut told).expect("text");
    assert!(url.starts_with("http"), "{url:?} {told}");
    told
}

#[test]
fn tokens_without_tls_are_warned_of_since_gos_clients_send_none_over_plain_http() {
    let told = told_at_the_start(&["--token-auth-file"]);
    assert_eq!(told.matches("WARN").count(), 1, "{told}");
    assert_eq!(told.matches("--tls").count(), 1, "it names what to do: {told}");
    for arguments in [&[][..], &["--tls"], &["--tls", "--token-auth-file"]] {
        assert_eq!(told_at_the_start(arguments), "", "{arguments:?}");
    }
}
