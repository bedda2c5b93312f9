//! Tests of the program `pintle-apiserver`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// A running program. Dropping a `Program` kills the process.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

impl Program {
    fn start(arguments: &[&str]) -> (Self, String) {
        Self::run(Command::new(env!("CARGO_BIN_EXE_pintle-apiserver")).args(arguments))
    }

    fn run(command: &mut Command) -> (Self, String) {
        command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Self(command.spawn().expect("the program starts"));
        let mut url = String::new();
        let stdout = program.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut url).expect("a line");
        (program, url.trim_end().to_owned())
    }

    fn kill(mut self) -> String {
        let mut stderr = self.0.stderr.take().expect("a pipe");
        drop(self);
        let mut text = String::new();
        stderr.read_to_string(&mut text).expect("text");
        text
    }

    fn get(url: &str, path: &str) -> String {
        let mut socket = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
        write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn terminate(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").arg(id).status().expect("kill runs").success());
        assert!(self.0.wait().expect("it ends").success());
    }
}

fn stderr_at_start(arguments: &[&str]) -> String {
    let tokens = std::env::temp_dir().join(format!("pintle-program-{:x}.csv", fastrand::u64(..)));
    std::fs::write(&tokens, "t,bob,1\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pintle-apiserver"));
    command.args(arguments);
    if arguments.contains(&"--token-auth-file") {
        command.arg(&tokens);
    }
    let (program, url) = Program::run(&mut command);
    std::fs::remove_file(&tokens).expect("the file");
    let stderr = program.kill();
    assert!(url.starts_with("http"), "{url:?} {stderr}");
    stderr
}

#[test]
fn tokens_without_tls_cause_a_warning() {
    // The server prints a warning, because Go clients do not send tokens over plain HTTP.
    let stderr = stderr_at_start(&["--token-auth-file"]);
    assert_eq!(stderr.matches("WARN").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("--tls").count(), 1, "it names the flag to use: {stderr}");
    for arguments in [&[][..], &["--tls"], &["--tls", "--token-auth-file"]] {
        assert_eq!(stderr_at_start(arguments), "", "{arguments:?}");
    }
}

#[test]
fn soft_limit_of_open_files_does_not_limit_connections() {
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
fn loaded_manifests_and_definitions_survive_in_the_snapshot() {
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
    // The definition is loaded before the objects, even if `--crd` comes after `--load`.
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
fn manifests_in_utf16_or_with_bom_are_loaded() {
    let folder = std::env::temp_dir().join(format!("pintle-encodings-{:x}", fastrand::u64(..)));
    std::fs::create_dir(&folder).expect("a folder");
    let manifest =
        |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: ä}}}}");
    let utf16 = |name: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(manifest(name).encode_utf16()).flat_map(bytes).collect()
    };
    let files = [
        ("marked", format!("\u{feff}{}", manifest("marked")).into_bytes()),
        ("little", utf16("little", u16::to_le_bytes)),
        ("big", utf16("big", u16::to_be_bytes)),
    ];
    let paths = files.iter().map(|(name, bytes)| {
        let path = folder.join(name).with_extension("yaml");
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    });
    let arguments: Vec<String> = paths.flat_map(|path| ["--load".into(), path]).collect();
    let (program, url) = Program::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, _) in &files {
        let map = Program::get(&url, &format!("/api/v1/namespaces/default/configmaps/{name}"));
        assert!(map.starts_with("HTTP/1.1 200") && map.contains(r#""data":{"a":"ä"}"#), "{name}: {map}");
    }
    program.terminate();
    let wrong = folder.join("wrong.yaml");
    std::fs::write(&wrong, "{apiVersion: v1, kind: Nothing}").expect("a file");
    let program = Command::new(env!("CARGO_BIN_EXE_pintle-apiserver")).arg("--load").arg(&wrong).output();
    let message = String::from_utf8(program.expect("the program starts").stderr).expect("text");
    assert!(message.contains(&wrong.display().to_string()), "{message}");
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn bind_and_controllers_flags_are_respected() {
    let (program, url) = Program::start(&["--bind", "127.0.0.2", "--controllers=none"]);
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    let view = Program::get(&url, "/apis/rbac.authorization.k8s.io/v1/clusterroles/view");
    assert!(view.contains("\"rules\":null"), "not aggregated: {view}");
    program.terminate();
    let (program, url) = Program::start(&["--bind", "0.0.0.0"]);
    assert!(Program::get(&url, "/readyz").starts_with("HTTP/1.1 200"), "{url}");
    program.terminate();
}

#[test]
fn files_with_secrets_are_readable_only_by_their_owner() {
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
fn kubeconfig_depends_only_on_the_seed() {
    let folder = std::env::temp_dir().join(format!("pintle-program-{:x}", fastrand::u64(..)));
    std::fs::create_dir(&folder).expect("a folder");
    let [tokens, kubeconfig] = ["tokens.csv", "kubeconfig"].map(|name| folder.join(name).display().to_string());
    std::fs::write(&tokens, "t,bob,1\n").expect("a file");
    let kubeconfig_for = |seed: &str| {
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
    let (config, secrets) = kubeconfig_for("7");
    assert_eq!(kubeconfig_for("7").0, config);
    let (_, others) = kubeconfig_for("8");
    assert!(secrets.iter().zip(&others).all(|(one, other)| one != other), "{secrets:?} {others:?}");
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn connections_do_not_exhaust_the_open_file_limit() {
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
    let stderr = program.kill();
    assert_eq!(stderr, "", "connections above the limit are not accepted");
    drop(waiting);
}

fn check_crd(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pintle-apiserver")).arg("check-crd").args(arguments).output();
    let output = output.expect("the program runs");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn check_crd_fails_if_a_result_is_unexpected() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a UTF-8 path").to_owned()
    };
    let schema = "{type: object, properties: {spec: {type: object, properties: {replicas: {type: integer, maximum: 20}}, \
                  x-kubernetes-validations: [{rule: self.replicas != 7, message: not seven}]}}}";
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: sites.example.com}}\nspec:\n  \
         group: example.com\n  scope: Cluster\n  names: {{plural: sites, kind: Site}}\n  versions:\n  - name: v1\n    served: true\n    \
         storage: true\n    schema: {{openAPIV3Schema: {schema}}}\n"
    );
    let site = |replicas| {
        format!(
            "---\napiVersion: example.com/v1\nkind: Site\nmetadata: {{name: s{replicas}}}\nspec: {{replicas: {replicas}}}\n"
        )
    };
    let (definition, good, bad) =
        (write("crd.yaml", &definition), write("a.yaml", &site(3)), write("b.yaml", &(site(7) + &site(21))));

    // `check-crd` finds the definition even if its file comes after the file with the objects.
    let (ok, text) = check_crd(&[&good, &definition, "--invalid", &bad]);
    assert!(ok, "{text}");
    assert!(text.contains("rule: 0.0 % of the cost limit"), "{text}");
    assert!(text.contains("b.yaml, document 2, Site s21: rejected: Site.example.com \"s21\" is invalid"), "{text}");
    assert!(text.ends_with("4 manifests checked, 0 with an unexpected result\n"), "{text}");

    let (ok, text) = check_crd(&[folder.path().to_str().expect("a UTF-8 path")]);
    assert!(!ok && text.contains("not seven\n  expected: accepted\n"), "{text}");
    let (ok, text) = check_crd(&[&definition, "--invalid", &good]);
    assert!(!ok && text.contains("Site s3: accepted\n  expected: rejected by the server\n"), "{text}");
    let (ok, text) = check_crd(&[&write("c.yaml", "a: [")]);
    assert!(!ok && text.contains("document 1, not YAML: rejected: cannot read the document: "), "{text}");
    // `check-crd` fails because it cannot check these manifests: the kind is unknown, or the file contains no object.
    let unknown = write("d.yaml", &site(21).replace("Site", "Sitte"));
    for invalid in [unknown, write("e.yaml", "a: ["), write("f.yaml", "# nothing")] {
        let (ok, text) = check_crd(&[&definition, "--invalid", &invalid]);
        assert!(!ok && text.contains("expected: rejected by the server\n"), "{text}");
    }
    assert!(!check_crd(&["/nowhere"]).0);
}
