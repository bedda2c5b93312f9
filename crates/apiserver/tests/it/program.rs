//! The program `pintle-apiserver`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

impl Program {
    /// Starts it, and waits for the line that names its URL.
    fn start(arguments: &[&str]) -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pintle-apiserver"));
        command.args(arguments).env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Self(command.spawn().expect("the program starts"));
        let mut url = String::new();
        let stdout = program.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut url).expect("a line");
        (program, url.trim_end().to_owned())
    }

    fn get(url: &str, path: &str) -> String {
        let mut socket = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
        write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Asks it to end, and waits until it has.
    fn terminate(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").arg(id).status().expect("kill runs").success());
        assert!(self.0.wait().expect("it ends").success());
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

#[test]
fn manifests_and_definitions_are_loaded_and_all_is_kept_in_a_snapshot() {
    let folder = std::env::temp_dir().join(format!("pintle-program-{:x}", fastrand::u64(..)));
    std::fs::create_dir(&folder).expect("a folder");
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("a file");
        folder.join(name).display().to_string()
    };
    let schema = "{type: object, x-kubernetes-preserve-unknown-fields: true}";
    let definition = file(
        "definition.yaml",
        &format!(
            "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: widgets.example.com}},\n\
             spec: {{group: example.com, scope: Namespaced, names: {{plural: widgets, kind: Widget}}, versions: [\n\
             {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}]}}}}"
        ),
    );
    let widget = file(
        "widget.yaml",
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, finalizers: [example.com/f]}}",
    );
    let map = file("map.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}");
    let snapshot = folder.join("state.snapshot").display().to_string();
    // In this order, since a definition has to be in force first.
    let (program, url) =
        Program::start(&["--load", &widget, "--load", &map, "--crd", &definition, "--snapshot", &snapshot]);
    let paths = ["/apis/example.com/v1/namespaces/default/widgets/w", "/api/v1/namespaces/default/configmaps/m"];
    for path in paths {
        assert!(Program::get(&url, path).starts_with("HTTP/1.1 200"), "{path}");
    }
    program.terminate();
    let (program, url) = Program::start(&["--snapshot", &snapshot, "--controllers=gc,namespace"]);
    for path in paths {
        assert!(Program::get(&url, path).starts_with("HTTP/1.1 200"), "{path}");
    }
    program.terminate();
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn it_binds_to_the_address_that_it_is_told_and_runs_the_controllers_that_it_is_told() {
    let (program, url) = Program::start(&["--bind", "127.0.0.2", "--controllers=none"]);
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    let view = Program::get(&url, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view");
    assert!(view.contains("\"rules\":null"), "nobody aggregates it: {view}");
    program.terminate();
    let (program, url) = Program::start(&["--bind", "0.0.0.0"]);
    assert!(Program::get(&url, "/readyz").starts_with("HTTP/1.1 200"), "{url}");
    program.terminate();
}
