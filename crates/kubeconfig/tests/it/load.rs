//! Tests of finding, reading and merging files.

use std::error::Error as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pintle_kubeconfig::{AuthInfo, ClusterInfo, Context, Environment, Error, Files, Kubeconfig, Overrides};
use pintle_meta::{PemSource, Secret};

fn files(paths: &[&Path]) -> Files {
    let kubeconfig = Some(std::env::join_paths(paths).unwrap());
    Files::new(&Environment { kubeconfig, ..Environment::default() })
}

fn one(server: &str, context: &str) -> String {
    format!(
        "current-context: {context}\nclusters: [{{name: shared, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: {context}, context: {{cluster: shared, user: me}}}}]\n"
    )
}

#[test]
fn kubeconfig_variable_overrides_home_and_files_are_deduplicated() {
    let mut env = Environment::default();
    assert_eq!(Files::new(&env).paths(), Vec::<PathBuf>::new().as_slice());
    env.home = Some("/home/me".into());
    assert_eq!(Files::new(&env).paths(), [PathBuf::from("/home/me/.kube/config")]);
    env.kubeconfig = Some("".into());
    assert_eq!(Files::new(&env).paths(), [PathBuf::from("/home/me/.kube/config")]);
    env.kubeconfig = Some(":b::a:b:".into());
    assert_eq!(Files::new(&env).paths(), ["b", "a"].map(PathBuf::from));
}

#[test]
fn first_file_with_a_name_wins_entirely() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(&a, one("https://a", "first")).unwrap();
    std::fs::write(&b, one("https://b", "second").replace("server:", "tls-server-name: b, server:")).unwrap();

    let config = files(&[&a, &b]).load().unwrap();
    assert_eq!(config.current_context, "first");
    assert_eq!(config.clusters["shared"].server, "https://a");
    assert_eq!(config.clusters["shared"].tls_server_name, "", "entries are not mixed");
    assert_eq!(config.clusters["shared"].origin.as_deref(), Some(a.as_path()));
    assert_eq!(config.contexts.keys().collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(config.contexts["second"].origin.as_deref(), Some(b.as_path()));
}

#[test]
fn empty_current_context_falls_through_to_next_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(&a, "current-context: ''\n").unwrap();
    std::fs::write(&b, one("https://b", "second")).unwrap();
    assert_eq!(files(&[&a, &b]).load().unwrap().current_context, "second");
}

#[test]
fn missing_file_is_an_error_only_if_explicit() {
    let dir = tempfile::tempdir().unwrap();
    let (a, missing) = (dir.path().join("a"), dir.path().join("missing"));
    std::fs::write(&a, one("https://a", "c")).unwrap();
    assert_eq!(files(&[&missing, &a]).load().unwrap().current_context, "c");
    assert!(files(&[&missing]).load().unwrap().is_empty());
    let error = Files::explicit(&missing).load().unwrap_err();
    assert!(matches!(error, Error::Read { .. }) && error.to_string().contains("missing"), "{error}");
    assert!(error.source().is_none(), "printing the error chain must not repeat the cause");
}

#[test]
fn partial_load_returns_usable_entries_and_all_errors() {
    let dir = tempfile::tempdir().unwrap();
    let [good, broken, folder] = ["good", "broken", "folder"].map(|name| dir.path().join(name));
    std::fs::write(&good, one("https://a", "c")).unwrap();
    std::fs::write(&broken, "clusters: {").unwrap();
    std::fs::create_dir(&folder).unwrap();

    let files = files(&[&broken, &folder, &good]);
    let (config, errors) = files.load_partial();
    assert_eq!(config.current_context, "c");
    assert_eq!(errors.len(), 2);
    let error = files.load().unwrap_err().to_string();
    assert!(error.contains("broken") && error.contains("folder"), "{error}");
}

#[test]
fn relative_paths_start_at_their_file_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("sub/b"));
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    std::fs::write(&a, "clusters: [{name: a, cluster: {certificate-authority: ca.pem}}]").unwrap();
    std::fs::write(&b, "clusters: [{name: b, cluster: {certificate-authority: ../ca.pem}}]").unwrap();
    let config = files(&[&a, &b]).load().unwrap();
    for cluster in ["a", "b"] {
        assert_eq!(config.clusters[cluster].certificate_authority, Some(dir.path().join("ca.pem")), "{cluster}");
    }
}

#[test]
fn kubectl_output_is_read() {
    let empty = "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\ncurrent-context: \"\"\npreferences: {}\nusers: null\n";
    assert!(Kubeconfig::parse(empty).unwrap().is_empty());
    let nulls =
        "users:\n- name: a\n  user:\n- name: b\n  user: {exec: {args: null, env: null, command: x}, as-groups: null}\n";
    assert_eq!(Kubeconfig::parse(nulls).unwrap().users.len(), 2);
}

/// Expects the results of kubectl, which converts each file from YAML 1.1 to JSON.
#[test]
fn unusual_files_are_read_as_by_kubectl() {
    const PLAIN: &str = "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
        clusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:1\n\
        contexts:\n- name: x\n  context:\n    cluster: c\n    user: u\n\
        users:\n- name: u\n  user:\n    token: t\n";
    let with = |from: &str, to: &str| {
        assert!(PLAIN.contains(from), "{from}");
        PLAIN.replace(from, to).into_bytes()
    };
    let server = "    server: https://127.0.0.1:1\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    std::fs::write(dir.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    for (name, content, is_read) in [
        ("plain", PLAIN.into(), true),
        ("byte order mark", format!("\u{feff}{PLAIN}").into_bytes(), true),
        ("UTF-16", format!("\u{feff}{PLAIN}").encode_utf16().flat_map(u16::to_le_bytes).collect(), true),
        ("separator at the end", format!("{PLAIN}---\n").into_bytes(), true),
        ("key twice", format!("{PLAIN}current-context: x\n").into_bytes(), true),
        ("yes", with(server, &format!("{server}    insecure-skip-tls-verify: yes\n")), true),
        (
            "file and empty data",
            with(server, &format!("{server}    certificate-authority: ca.pem\n    certificate-authority-data: \"\"\n")),
            true,
        ),
        ("context without user", with("    user: u\n", ""), true),
        ("wrong kind", with("kind: Config", "kind: Configuration"), false),
        ("escaped slash", with("https://127.0.0.1:1", r#""https:\/\/127.0.0.1:1""#), false),
    ] {
        std::fs::write(&path, content).unwrap();
        let read = Files::explicit(&path).load().and_then(|config| config.client_config(&Overrides::default()));
        assert_eq!(read.is_ok(), is_read, "{name}: {:?}", read.err());
    }
}

#[test]
fn empty_fields_are_absent() {
    let config = Kubeconfig::parse(
        "clusters: [{name: c, cluster: {server: 'https://a', certificate-authority: '', certificate-authority-data: \"\", \
         tls-server-name: '', proxy-url: ''}}]\n\
         users: [{name: u, user: {token: '', tokenFile: '', client-certificate: '', client-certificate-data: '', client-key: '', \
         client-key-data: '', username: '', password: '', as: '', as-uid: ''}}]\n\
         contexts: [{name: x, context: {cluster: c, user: u, namespace: ''}}]\n",
    );
    let config = config.unwrap();
    let (cluster, user) = (&config.clusters["c"], &config.users["u"]);
    assert_eq!(cluster, &ClusterInfo { server: "https://a".into(), ..ClusterInfo::default() });
    assert_eq!(user, &AuthInfo::default());
    config.validate().unwrap();
}

/// The relative path of the CA file is relative to the directory of the kubeconfig, not to the working directory.
#[test]
fn ca_file_is_used_if_ca_data_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let (file, ca) = (dir.path().join("config"), dir.path().join("ca.pem"));
    std::fs::write(&ca, "pem").unwrap();
    std::fs::write(&file, example("    certificate-authority: ca.pem\n    certificate-authority-data: ''\n")).unwrap();
    let config = Files::explicit(&file).load().unwrap().client_config(&Overrides::default()).unwrap();
    assert!(matches!(&config.tls.ca, Some(PemSource::File(path)) if *path == ca), "{config:?}");
}

fn example(cluster: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:1\n{cluster}\
         contexts:\n- name: x\n  context:\n    cluster: c\n    user: u\nusers:\n- name: u\n  user:\n    token: t\n"
    )
}

/// Expects the results of kubectl 1.32.
#[test]
fn files_that_kubectl_reads_are_read() {
    let plain = example("");
    let utf16 =
        |order: fn(u16) -> [u8; 2]| format!("\u{feff}{plain}").encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let merged = plain.replace("users:\n", "base: &base {token: old, username: ''}\nusers:\n");
    for (what, bytes) in [
        ("plain", plain.clone().into_bytes()),
        ("UTF-16, little end first", utf16(u16::to_le_bytes)),
        ("UTF-16, big end first", utf16(u16::to_be_bytes)),
        ("UTF-8 with a mark", format!("\u{feff}{plain}").into_bytes()),
        ("a mark of a document at the end", format!("{plain}---\n").into_bytes()),
        ("another document", format!("{plain}---\ncurrent-context: other\n").into_bytes()),
        ("a broken one behind it", format!("{plain}---\n[").into_bytes()),
        ("lines as of Windows", plain.replace('\n', "\r\n").into_bytes()),
        ("a key twice", format!("{}current-context: x\n", plain.replace("context: x", "context: y")).into_bytes()),
        ("a member twice", plain.replace("    token: t\n", "    token: old\n    token: t\n").into_bytes()),
        ("a merge", merged.replace("    token: t\n", "    <<: *base\n    token: t\n").into_bytes()),
        ("a merge of several", merged.replace("    token: t\n", "    <<: [{token: t}, *base]\n").into_bytes()),
        (
            "a merge that comes later",
            merged.replace("    token: t\n", "    token: x\n    <<: {token: t}\n").into_bytes(),
        ),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let config = Files::explicit(file.path()).load().unwrap_or_else(|error| panic!("{what}: {error}"));
        let config = config.client_config(&Overrides::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(config.server, "https://127.0.0.1:1", "{what}");
        assert_eq!(config.token.as_ref().map(Secret::expose), Some("t"), "{what}");
    }
}

#[test]
fn booleans_follow_yaml_1_1() {
    for (text, expected) in [("yes", true), ("on", true), ("Y", true), ("true", true), ("no", false), ("Off", false)] {
        let config = Kubeconfig::parse(&example(&format!("    insecure-skip-tls-verify: {text}\n"))).unwrap();
        assert_eq!(config.clusters["c"].insecure_skip_tls_verify, expected, "{text}");
        assert_eq!(config.client_config(&Overrides::default()).unwrap().tls.insecure_skip_verify, expected, "{text}");
    }
    for text in ["'yes'", "1", "maybe"] {
        Kubeconfig::parse(&example(&format!("    insecure-skip-tls-verify: {text}\n"))).unwrap_err();
    }
}

#[test]
fn files_that_kubectl_rejects_are_rejected_with_reason() {
    let plain = example("");
    for (text, word) in [
        (plain.replace("kind: Config", "kind: Configuration"), "kind: Config"),
        (plain.replace("apiVersion: v1", "apiVersion: v2"), "apiVersion: v1"),
        (plain.replace("https://127.0.0.1:1", "\"https:\\/\\/127.0.0.1:1\""), "line 7"),
        (plain.replace("    token: t", "\ttoken: t"), "line"),
        (plain.replace("token: t", "token: yes"), "quotes"),
    ] {
        let error = Kubeconfig::parse(&text).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn context_without_user_sends_no_credentials() {
    let text = example("").replace("    user: u\n", "");
    let config = Kubeconfig::parse(&text).unwrap();
    config.validate().unwrap();
    let config = config.client_config(&Overrides::default()).unwrap();
    assert!(config.token.is_none() && config.server == "https://127.0.0.1:1", "{config:?}");
    let mut missing = Kubeconfig::parse(&example("")).unwrap();
    missing.users.clear();
    assert!(missing.client_config(&Overrides::default()).unwrap_err().is_invalid(), "a named user must exist");
}

/// Without the quotes, kubectl would read `yes` as a boolean and reject the file.
#[test]
fn string_that_yaml_reads_as_another_type_is_quoted() {
    let mut config = Kubeconfig::parse(&example("")).unwrap();
    config.current_context = "yes".into();
    config.contexts.insert("1e3".into(), Context { cluster: "on".into(), user: "~".into(), ..Context::default() });
    let written = config.to_yaml().unwrap();
    for part in ["current-context: \"yes\"", "name: \"1e3\"", "cluster: \"on\"", "user: \"~\""] {
        assert!(written.contains(part), "{part}: {written}");
    }
    assert_eq!(Kubeconfig::parse(&written).unwrap(), config);
}

#[test]
fn repeated_key_logs_a_warning_with_its_line() {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);
    impl Write for Log {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = || tracing_subscriber::fmt().with_ansi(false);
    // Create a second subscriber, because tracing caches per call site whether an event is enabled. With only one
    // subscriber, the first thread that reaches the call site determines the cached value, even without a
    // subscriber. With a second subscriber, tracing checks the subscriber of each thread.
    let _another = tracing::Dispatch::new(subscriber().with_writer(io::sink).finish());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "users:\n- name: u\n  user:\n    token: hush\n    token: t\n").unwrap();
    tracing::subscriber::with_default(subscriber().with_writer(move || writer.clone()).finish(), || {
        Files::explicit(file.path()).load().unwrap();
    });
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains(&format!("{}:5", file.path().display())) && logged.contains("\"token\""), "{logged}");
    assert!(logged.contains("WARN") && !logged.contains("hush"), "{logged}");
}

#[test]
fn null_items_and_lax_base64_match_kubectl() {
    let config = "clusters:\n- name: c\n  cluster: {certificate-authority-data: aGl=}\n\
                  users:\n- name: u\n  user: {as-groups: [null, a], as-user-extra: {k: null, l: [b, null]}}\n";
    let config = Kubeconfig::parse(config).unwrap();
    let user = &config.users["u"];
    assert_eq!(user.impersonate_groups, ["", "a"]);
    let extra: Vec<_> = user.impersonate_extra.iter().map(|(name, values)| (name.as_str(), values.len())).collect();
    assert_eq!(extra, [("k", 0), ("l", 2)]);
    assert!(config.clusters["c"].certificate_authority_data.is_some());
}
