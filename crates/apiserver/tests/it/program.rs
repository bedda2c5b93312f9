//! The program `pintle-apiserver`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
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
        Self::run(Command::new(env!("CARGO_BIN_EXE_pintle-apiserver")).args(arguments))
    }

    /// The same by a command.
    fn run(command: &mut Command) -> (Self, String) {
        command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Self(command.spawn().expect("the program starts"));
        let mut url = String::new();
        let stdout = program.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut url).expect("a line");
        (program, url.trim_end().to_owned())
    }

    /// Ends it; answers what it told on standard error.
    fn end(mut self) -> String {
        let mut stderr = self.0.stderr.take().expect("a pipe");
        drop(self);
        let mut told = String::new();
        stderr.read_to_string(&mut told).expect("text");
        told
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
    command.args(arguments);
    if arguments.contains(&"--token-auth-file") {
        command.arg(&tokens);
    }
    let (program, url) = Program::run(&mut command);
    std::fs::remove_file(&tokens).expect("the file");
    let told = program.end();
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
fn the_soft_limit_of_open_files_does_not_bound_connections() {
    const CONNECTIONS: usize = 100;
    let limited = format!("ulimit -S -n 64; exec {}", env!("CARGO_BIN_EXE_pintle-apiserver"));
    let (_program, url) = Program::run(Command::new("sh").args(["-c", &limited]));
    let connect = |_| TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    for mut socket in (0..CONNECTIONS).map(connect).collect::<Vec<_>>() {
        write!(socket, "GET /version HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        let mut status = [0; 12];
        socket.read_exact(&mut status).expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200");
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

#[test]
fn nobody_else_reads_what_holds_tokens_and_secrets_whatever_was_there_before() {
    let folder = std::env::temp_dir().join(format!("pintle-program-{:x}", fastrand::u64(..)));
    std::fs::create_dir(&folder).expect("a folder");
    let [kubeconfig, snapshot, old] = ["kubeconfig", "state.snapshot", "old"].map(|name| folder.join(name));
    std::fs::write(&old, "").expect("a file");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let text = |path: &std::path::Path| path.display().to_string();
    for written in [&kubeconfig, &old] {
        let (program, _) = Program::start(&["--kubeconfig", &text(written), "--snapshot", &text(&snapshot)]);
        program.terminate();
        for path in [written, &snapshot] {
            let metadata = std::fs::metadata(path).expect("a file");
            assert!(metadata.len() > 0 && metadata.permissions().mode() & 0o777 == 0o600, "{metadata:?}");
        }
    }
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn a_seed_makes_the_same_kubeconfig_in_each_run_and_another_seed_another() {
    let folder = std::env::temp_dir().join(format!("pintle-program-{:x}", fastrand::u64(..)));
    std::fs::create_dir(&folder).expect("a folder");
    let [tokens, kubeconfig] = ["tokens.csv", "kubeconfig"].map(|name| folder.join(name).display().to_string());
    std::fs::write(&tokens, "t,bob,1\n").expect("a file");
    // The certificate of its CA and the token of its administrator are in it.
    let of_seed = |seed: &str| {
        let arguments = ["--tls", "--token-auth-file", &tokens, "--kubeconfig", &kubeconfig, "--seed", seed];
        let (program, url) = Program::start(&arguments);
        program.terminate();
        let config = std::fs::read_to_string(&kubeconfig).expect("a file");
        assert!(config.contains(&url), "{url} {config}");
        let config = config.replace(&url, "");
        let secrets = ["certificate-authority-data:", "token:"].map(|name| {
            config.lines().find(|line| line.trim_start().starts_with(name)).expect("it is there").to_owned()
        });
        (config, secrets)
    };
    let (config, secrets) = of_seed("7");
    assert_eq!(of_seed("7").0, config);
    let (_, others) = of_seed("8");
    assert!(secrets.iter().zip(&others).all(|(one, other)| one != other), "{secrets:?} {others:?}");
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn connections_leave_files_for_all_else() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\""]).arg(env!("CARGO_BIN_EXE_pintle-apiserver"));
    let (program, url) = Program::run(&mut command);
    let connect = || TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    let mut first = connect();
    let waiting: Vec<_> = (0..80).map(|_| connect()).collect();
    for _ in 0..20 {
        write!(first, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        let (mut answer, mut part) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"\r\n\r\nok") {
            let read = first.read(&mut part).expect("an answer");
            assert!(read > 0, "it is served");
            answer.extend_from_slice(&part[..read]);
        }
    }
    let told = program.end();
    assert_eq!(told, "", "none is accepted that there is no room for");
    drop(waiting);
}
