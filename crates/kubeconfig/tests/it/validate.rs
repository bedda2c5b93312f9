//! Tests that validation reports each problem with its field path.

use pintle_kubeconfig::{Environment, Error, Files, Kubeconfig};

/// Checks that validating a configuration with these YAML fields reports problems of exactly the `expected` fields.
fn check(cluster: &str, user: &str, context: &str, expected: &[&str]) {
    let text = format!(
        "contexts: [{{name: c, context: {{cluster: eu, user: me, {context}}}}}]\n\
         clusters: [{{name: eu, cluster: {{{cluster}}}}}]\nusers: [{{name: me, user: {{{user}}}}}]\n"
    );
    let found: Vec<String> = match Kubeconfig::parse(&text).unwrap().validate() {
        Ok(()) => Vec::new(),
        Err(Error::Invalid(problems)) => problems.into_iter().map(|problem| problem.field).collect(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(found, expected, "{text}");
}

const SERVER: &str = "server: 'https://a'";
const EXEC: &str = "apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never";

#[test]
fn cluster_requires_server_and_one_trust_setting() {
    let server = "clusters[\"eu\"].server";
    check("", "", "", &[server]);
    check("certificate-authority: /gone, insecure-skip-tls-verify: true", "", "", &[server]);
    check(SERVER, "", "", &[]);
    check(&format!("{SERVER}, insecure-skip-tls-verify: true"), "", "", &[]);
    check("server: 'a:6443', certificate-authority-data: aGk=", "", "", &[server]);
    check(
        &format!("{SERVER}, certificate-authority-data: aGk=, insecure-skip-tls-verify: true"),
        "",
        "",
        &["clusters[\"eu\"].insecure-skip-tls-verify"],
    );
    let authority = "clusters[\"eu\"].certificate-authority";
    check(&format!("{SERVER}, certificate-authority: /gone"), "", "", &[authority]);
    check(&format!("{SERVER}, certificate-authority: /"), "", "", &[authority]);
    check(&format!("{SERVER}, certificate-authority: /gone, certificate-authority-data: aGk="), "", "", &[authority]);
}

#[test]
fn proxy_must_be_a_url_of_a_known_scheme() {
    let proxy = "clusters[\"eu\"].proxy-url";
    for (url, good) in [
        ("http://p", true),
        ("https://me:pw@p:8080/x", true),
        ("socks5://p:1080", true),
        ("HTTP://p", true),
        ("socks6://p", false),
        ("p:8080", false),
        ("http://", false),
        ("http://:80", false),
    ] {
        let expected: &[&str] = if good { &[] } else { &[proxy] };
        check(&format!("{SERVER}, proxy-url: '{url}'"), "", "", expected);
    }
}

#[test]
fn user_requires_one_complete_login_method() {
    let (certificate, key) = ("users[\"me\"].client-certificate", "users[\"me\"].client-key");
    check(SERVER, "client-certificate-data: aGk=, client-key-data: aGk=", "", &[]);
    check(SERVER, "client-certificate-data: aGk=", "", &[key]);
    check(SERVER, "client-key-data: aGk=", "", &[]);
    check(SERVER, "client-certificate: /gone, client-key: /gone", "", &[certificate, key]);
    check(SERVER, "client-certificate: /g, client-certificate-data: aGk=, client-key-data: aGk=", "", &[certificate]);
    check(SERVER, "client-certificate-data: aGk=, client-key: /g, client-key-data: aGk=", "", &[key]);
    check(SERVER, "token: t, tokenFile: /t", "", &[]);
    check(SERVER, "token: t, username: u, password: p", "", &["users[\"me\"].token"]);
    check(SERVER, "tokenFile: /t, username: u", "", &["users[\"me\"].token"]);
}

#[test]
fn exec_plugin_requires_all_fields() {
    check(SERVER, &format!("exec: {{{EXEC}}}"), "", &[]);
    check(SERVER, "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}", "", &[]);
    check(
        SERVER,
        "exec: {apiVersion: client.authentication.k8s.io/v1}",
        "",
        &["users[\"me\"].exec.command", "users[\"me\"].exec.interactiveMode"],
    );
    check(
        SERVER,
        "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x, interactiveMode: Sometimes, env: [{value: v}]}",
        "",
        &["users[\"me\"].exec.apiVersion", "users[\"me\"].exec.env", "users[\"me\"].exec.interactiveMode"],
    );
    check(SERVER, &format!("exec: {{{EXEC}}}, auth-provider: {{name: oidc}}"), "", &["users[\"me\"].auth-provider"]);
}

#[test]
fn impersonation_requires_a_user() {
    for more in ["as-groups: [g]", "as-uid: '1'", "as-user-extra: {k: [v]}"] {
        check(SERVER, more, "", &["users[\"me\"].as"]);
        check(SERVER, &format!("as: someone, {more}"), "", &[]);
    }
}

#[test]
fn namespace_must_be_a_dns_label() {
    check(SERVER, "", "namespace: team-a", &[]);
    for bad in ["Team", "a.b", "-a", "a-", "a/b"] {
        check(SERVER, "", &format!("namespace: {bad}"), &["contexts[\"c\"].namespace"]);
    }
}

#[test]
fn context_must_refer_to_existing_entries() {
    let text = "current-context: gone\ncontexts: [{name: a, context: {cluster: x, user: y}}, {name: b, context: {}}]\n";
    let Err(Error::Invalid(problems)) = Kubeconfig::parse(text).unwrap().validate() else { panic!("valid") };
    let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
    let expected = ["current-context", "contexts[\"a\"].cluster", "contexts[\"a\"].user", "contexts[\"b\"].cluster"];
    assert_eq!(fields, expected);
}

#[test]
fn empty_configuration_is_valid() {
    Kubeconfig::default().validate().unwrap();
}

#[test]
fn problems_name_file_field_and_fix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    std::fs::write(&path, "contexts: [{name: prod, context: {cluster: eu-1, user: me}}]\nusers: [{name: me}]\n")
        .unwrap();
    let config = pintle_kubeconfig::Files::explicit(&path).load().unwrap();
    let error = config.validate_context("prod").unwrap_err().to_string();
    for part in [path.to_str().unwrap(), "contexts[\"prod\"].cluster", "\"eu-1\" does not exist", "add it"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(config.validate_context("other").unwrap_err().is_context_not_found());
}

/// After a merge, the line number of a problem refers to the file that contains the entry. If the kubeconfig does
/// not come from a file, problems have no line numbers.
#[test]
fn problems_name_the_line_of_field_or_parent() {
    let dir = tempfile::tempdir().unwrap();
    let (mine, ours) = (dir.path().join("mine"), dir.path().join("ours"));
    std::fs::write(&mine, "# mine\ncurrent-context: gone\ncontexts:\n- context:\n    user: me\n  name: prod\n")
        .unwrap();
    let text = "clusters:\n- name: eu\n  cluster:\n    server: https://eu\n    proxy-url: nonsense\nusers:\n- name: me\n  user:\n\
                \x20   as-uid: '7'\n    exec: {command: login}\n";
    std::fs::write(&ours, text).unwrap();
    let list = std::env::join_paths([&mine, &ours]).unwrap();
    let files = Files::new(&Environment { kubeconfig: Some(list), ..Environment::default() });
    let problems = |config: Kubeconfig| match config.validate() {
        Err(Error::Invalid(problems)) => problems,
        other => panic!("{other:?}"),
    };
    let found = problems(files.load().unwrap());
    let found: Vec<_> = found.iter().map(|it| (it.field.as_str(), it.file.as_deref(), it.line)).collect();
    let expected = [
        ("current-context", Some(mine.as_path()), Some(2)),
        ("contexts[\"prod\"].cluster", Some(&mine), Some(4)),
        ("clusters[\"eu\"].proxy-url", Some(&ours), Some(5)),
        ("users[\"me\"].exec.apiVersion", Some(&ours), Some(10)),
        ("users[\"me\"].exec.interactiveMode", Some(&ours), Some(10)),
        ("users[\"me\"].as", Some(&ours), Some(8)),
    ];
    assert_eq!(found, expected);
    let shown = files.load().unwrap().validate().unwrap_err().to_string();
    assert!(shown.contains(&format!("{}:5: clusters", ours.display())), "{shown}");
    assert!(problems(Kubeconfig::parse(text).unwrap()).iter().all(|problem| problem.line.is_none()));
    // After the file is deleted, its problems have no line numbers.
    let config = files.load().unwrap();
    std::fs::remove_file(&ours).unwrap();
    assert_eq!(problems(config).iter().filter_map(|problem| problem.line).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn entry_without_name_is_reported() {
    let text = "clusters: [{cluster: {server: 'https://a'}}]";
    let error = Kubeconfig::parse(text).unwrap().validate().unwrap_err().to_string();
    assert!(error.contains("clusters: an entry has no name"), "{error}");
}

/// With `--kubeconfig <(…)`, a shell passes a pipe, which can only be read once.
#[cfg(unix)]
#[test]
fn pipe_is_read_once_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (sender, checked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let text = format!(
            "clusters: [{{name: eu, cluster: {{server: 'https://a', certificate-authority: {}}}}}]",
            pipe.display()
        );
        let written = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(written, text).unwrap());
        let config = Files::explicit(&pipe).load().unwrap();
        writer.join().unwrap();
        sender.send(config.validate()).unwrap();
    });
    let checked = checked.recv_timeout(std::time::Duration::from_secs(10)).expect("the validation blocks");
    let Err(Error::Invalid(problems)) = checked else { panic!("valid") };
    assert!(problems[0].message.contains("not a regular file") && problems[0].line.is_none(), "{problems:?}");
}
