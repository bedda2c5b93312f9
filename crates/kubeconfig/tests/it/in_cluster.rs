//! Tests of `in_cluster`, and of the order in which `infer` tries its sources.

use std::path::Path;
use std::time::Duration;

use pintle_kubeconfig::{Environment, Error, Overrides, in_cluster, infer};
use pintle_meta::{PemSource, Secret};

const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Creates an environment whose service account directory contains `files`.
fn pod(root: &Path, files: &[(&str, &str)]) -> Environment {
    let account = root.join(ACCOUNT);
    std::fs::create_dir_all(&account).unwrap();
    for (name, content) in files {
        std::fs::write(account.join(name), content).unwrap();
    }
    let mut env = Environment { root: root.into(), ..Environment::default() };
    env.service_host = Some("10.0.0.1".into());
    env.service_port = Some("443".into());
    env
}

#[test]
fn pod_uses_its_service_account_files() {
    let root = tempfile::tempdir().unwrap();
    let env = pod(root.path(), &[("token", "t\n"), ("ca.crt", "pem"), ("namespace", "team\n")]);
    let config = in_cluster(&env).unwrap();
    assert_eq!(config.server, "https://10.0.0.1:443");
    assert_eq!(config.token_file, Some(root.path().join(ACCOUNT).join("token")));
    assert!(config.token.is_none(), "a copy would miss the rotation");
    assert!(matches!(&config.tls.ca, Some(PemSource::File(path)) if path.ends_with("ca.crt")));
    assert_eq!(config.namespace, "team");
}

#[test]
fn ipv6_address_is_put_in_brackets() {
    let root = tempfile::tempdir().unwrap();
    let mut env = pod(root.path(), &[("token", "t")]);
    env.service_host = Some("fd00::1".into());
    let config = in_cluster(&env).unwrap();
    assert_eq!(config.server, "https://[fd00::1]:443");
    assert!(config.tls.ca.is_none(), "without the CA file, the system's CAs are used");
}

#[test]
fn pod_namespace_has_three_sources() {
    let root = tempfile::tempdir().unwrap();
    let mut env = pod(root.path(), &[("token", "t")]);
    assert_eq!(in_cluster(&env).unwrap().default_namespace(), "default");
    std::fs::write(root.path().join(ACCOUNT).join("namespace"), "file").unwrap();
    assert_eq!(in_cluster(&env).unwrap().namespace, "file");
    env.pod_namespace = Some("variable".into());
    assert_eq!(in_cluster(&env).unwrap().namespace, "variable");
}

#[test]
fn missing_service_account_part_is_named() {
    let root = tempfile::tempdir().unwrap();
    let complete = pod(root.path(), &[]);
    for (change, variable) in [
        ((|env| env.service_host = None) as fn(&mut Environment), "KUBERNETES_SERVICE_HOST"),
        (|env| env.service_port = Some(String::new()), "KUBERNETES_SERVICE_PORT"),
    ] {
        let mut env = complete.clone();
        change(&mut env);
        let error = in_cluster(&env).unwrap_err();
        assert!(matches!(error, Error::NotInCluster { variable: found } if found == variable), "{error}");
    }
    let error = in_cluster(&complete).unwrap_err();
    assert!(matches!(&error, Error::Read { path, .. } if path.ends_with("token")), "{error}");
}

#[test]
fn broken_kubeconfig_does_not_fall_through_to_the_pod() {
    let root = tempfile::tempdir().unwrap();
    let mut env = pod(root.path(), &[("token", "t")]);
    let none = Overrides::default();
    assert_eq!(infer(None, &none, &env).unwrap().server, "https://10.0.0.1:443");

    env.home = Some(root.path().join("home"));
    let file = root.path().join("home/.kube/config");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "").unwrap();
    assert_eq!(infer(None, &none, &env).unwrap().server, "https://10.0.0.1:443", "an empty file is ignored");

    std::fs::write(&file, "clusters: [").unwrap();
    assert!(matches!(infer(None, &none, &env).unwrap_err(), Error::Parse { .. }));

    std::fs::write(
        &file,
        "current-context: c\ncontexts: [{name: c, context: {cluster: a, user: u}}]\n\
         clusters: [{name: a, cluster: {server: 'https://home'}}]\nusers: [{name: u}]\n",
    )
    .unwrap();
    assert_eq!(infer(None, &none, &env).unwrap().server, "https://home");

    let missing = root.path().join("missing");
    assert!(matches!(infer(Some(missing), &none, &env).unwrap_err(), Error::Read { .. }));
}

#[test]
fn overrides_apply_to_a_pod() {
    let root = tempfile::tempdir().unwrap();
    let env = pod(root.path(), &[("token", "t"), ("ca.crt", "pem")]);
    let ca = tempfile::NamedTempFile::new().unwrap();
    let overrides = Overrides {
        token: Some(Secret::new("hand")),
        namespace: Some("other".into()),
        certificate_authority: Some(ca.path().into()),
        ..Overrides::default()
    };
    let config = infer(None, &overrides, &env).unwrap();
    assert_eq!(config.token.as_ref().map(Secret::expose), Some("hand"));
    assert!(config.token_file.is_none());
    assert_eq!(config.namespace, "other");
    assert!(matches!(&config.tls.ca, Some(PemSource::File(path)) if path == ca.path()));
}

#[test]
fn missing_configuration_error_lists_all_sources() {
    let mut env = Environment::default();
    let error = infer(None, &Overrides::default(), &env).unwrap_err();
    assert!(error.is_empty() && error.to_string().contains("HOME"), "{error}");
    env.home = Some("/nowhere".into());
    let error = infer(None, &Overrides::default(), &env).unwrap_err();
    assert!(error.is_empty() && error.to_string().contains("/nowhere/.kube/config"), "{error}");
}

#[test]
fn missing_requested_name_does_not_fall_through_to_pod() {
    let root = tempfile::tempdir().unwrap();
    let env = pod(root.path(), &[("token", "t")]);
    let name = || Some("blue".to_owned());
    let error = infer(None, &Overrides { context: name(), ..Overrides::default() }, &env).unwrap_err();
    assert!(error.is_context_not_found(), "{error}");
    let error = infer(None, &Overrides { cluster: name(), ..Overrides::default() }, &env).unwrap_err();
    assert!(matches!(error, Error::NotFound { kind: "cluster", .. }), "{error}");
    let error = infer(None, &Overrides { user: name(), ..Overrides::default() }, &env).unwrap_err();
    assert!(matches!(error, Error::NoContext { .. }), "{error}");
}

#[test]
fn pod_impersonates_the_overridden_user() {
    let root = tempfile::tempdir().unwrap();
    let env = pod(root.path(), &[("token", "t")]);
    let overrides = Overrides {
        impersonate: Some("jane".into()),
        impersonate_groups: vec!["dev".into(), "ops".into()],
        ..Overrides::default()
    };
    let config = infer(None, &overrides, &env).unwrap();
    let whom = config.impersonate.expect("the overrides impersonate a user");
    assert_eq!((whom.user.as_str(), whom.groups.len()), ("jane", 2));
    assert!(config.token_file.is_some());

    let groups_alone = Overrides { impersonate_groups: vec!["dev".into()], ..Overrides::default() };
    assert!(infer(None, &groups_alone, &env).unwrap_err().is_invalid(), "groups require a user");
}

#[test]
fn pod_keeps_token_and_ca_with_overridden_server() {
    let root = tempfile::tempdir().unwrap();
    let env = pod(root.path(), &[("token", "t"), ("ca.crt", "pem"), ("namespace", "team")]);
    let at = |server: &str| Overrides { server: Some(server.into()), ..Overrides::default() };
    let config = infer(None, &at("https://other:6443"), &env).unwrap();
    assert_eq!((config.server.as_str(), config.namespace.as_str()), ("https://other:6443", "team"));
    assert_eq!(config.token_file, Some(root.path().join(ACCOUNT).join("token")));
    assert!(matches!(&config.tls.ca, Some(PemSource::File(path)) if path.ends_with("ca.crt")));

    let plain = infer(None, &at("http://127.0.0.1:8001"), &env).unwrap();
    assert!(plain.token_file.is_none() && plain.tls.ca.is_none(), "credentials are for https only");
}

#[test]
fn overridden_server_needs_no_service_account() {
    let root = tempfile::tempdir().unwrap();
    let server = Overrides { server: Some("https://other".into()), ..Overrides::default() };
    let nowhere = Environment { root: root.path().into(), ..Environment::default() };
    let unmounted = pod(root.path(), &[]);
    for env in [nowhere, unmounted] {
        let config = infer(None, &server, &env).unwrap();
        assert_eq!((config.server.as_str(), config.token_file), ("https://other", None));
    }
}

#[test]
fn every_override_reaches_the_pod_configuration() {
    let root = tempfile::tempdir().unwrap();
    let env = pod(root.path(), &[("token", "t"), ("ca.crt", "pem")]);
    let overrides = Overrides {
        proxy_url: Some("http://proxy".into()),
        insecure_skip_tls_verify: Some(true),
        tls_server_name: Some("inner".into()),
        username: Some("me".into()),
        timeout: Some(Duration::from_secs(5)),
        ..Overrides::default()
    };
    let config = infer(None, &overrides, &env).unwrap();
    assert_eq!(config.proxy_url.as_deref(), Some("http://proxy"));
    assert!(config.tls.insecure_skip_verify && config.tls.ca.is_none());
    assert_eq!(config.tls.server_name.as_deref(), Some("inner"));
    assert_eq!(config.basic.unwrap().username, "me");
    assert_eq!((config.token_file, config.timeout), (None, Some(Duration::from_secs(5))));
}
