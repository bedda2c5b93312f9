//! Which files are read, and how they are merged.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use pintle_kubeconfig::{Environment, Error, Files, Kubeconfig};

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
fn kubeconfig_wins_over_home_and_each_file_counts_once() {
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
fn the_first_file_that_defines_a_name_defines_all_of_it() {
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
fn an_empty_current_context_yields_to_the_next_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(&a, "current-context: ''\n").unwrap();
    std::fs::write(&b, one("https://b", "second")).unwrap();
    assert_eq!(files(&[&a, &b]).load().unwrap().current_context, "second");
}

#[test]
fn a_missing_file_is_an_error_only_if_it_was_named() {
    let dir = tempfile::tempdir().unwrap();
    let (a, missing) = (dir.path().join("a"), dir.path().join("missing"));
    std::fs::write(&a, one("https://a", "c")).unwrap();
    assert_eq!(files(&[&missing, &a]).load().unwrap().current_context, "c");
    assert!(files(&[&missing]).load().unwrap().is_empty());
    let error = Files::explicit(&missing).load().unwrap_err();
    assert!(matches!(error, Error::Read { .. }) && error.to_string().contains("missing"), "{error}");
    assert!(error.source().is_none(), "a program that prints the whole chain says twice why");
}

#[test]
fn unusable_files_are_told_together_beside_what_can_be_used() {
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
fn relative_paths_mean_the_directory_of_their_file() {
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
fn what_kubectl_writes_is_read() {
    let empty = "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\ncurrent-context: \"\"\npreferences: {}\nusers: null\n";
    assert!(Kubeconfig::parse(empty).unwrap().is_empty());
    let nulls =
        "users:\n- name: a\n  user:\n- name: b\n  user: {exec: {args: null, env: null, command: x}, as-groups: null}\n";
    assert_eq!(Kubeconfig::parse(nulls).unwrap().users.len(), 2);
}
