//! Tests of the client configurations that result from kubeconfigs and overrides.

use std::path::PathBuf;
use std::time::Duration;

use pintle_kubeconfig::{Error, Kubeconfig, Overrides};
use pintle_meta::{ClientConfig, InteractiveMode, PemSource, Secret};

/// Creates a configuration with one context, where `cluster` and `user` are fields in YAML's flow style.
fn config(cluster: &str, user: &str) -> Kubeconfig {
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: eu, user: me}}}}]\n\
         clusters: [{{name: eu, cluster: {{{cluster}}}}}, {{name: us, cluster: {{server: 'https://us'}}}}]\n\
         users: [{{name: me, user: {{{user}}}}}, {{name: you, user: {{token: yours}}}}]\n"
    );
    Kubeconfig::parse(&text).unwrap()
}

const EU: &str = "server: 'https://eu'";

fn resolve(cluster: &str, user: &str, overrides: &Overrides) -> ClientConfig {
    config(cluster, user).client_config(overrides).unwrap()
}

fn token(config: &ClientConfig) -> Option<&str> {
    config.token.as_ref().map(Secret::expose)
}

#[test]
fn current_context_is_used_unless_overridden() {
    let mut config = config(EU, "token: mine");
    let used = config.client_config(&Overrides::default()).unwrap();
    assert_eq!((used.server.as_str(), token(&used), used.default_namespace()), ("https://eu", Some("mine"), "default"));

    let error = config.client_config(&Overrides { context: Some("gone".into()), ..Overrides::default() }).unwrap_err();
    assert!(error.is_context_not_found(), "{error:?}");
    assert!(error.to_string().contains("\"gone\"") && error.to_string().contains("there are: c"), "{error}");

    config.current_context.clear();
    let error = config.client_config(&Overrides::default()).unwrap_err();
    assert!(matches!(error, Error::NoContext { .. }), "{error:?}");
}

/// client-go would use http for a server without a scheme, and silently drop the credentials.
#[test]
fn server_without_scheme_is_rejected_with_credentials() {
    for user in ["token: t", "username: me", "client-certificate-data: aGk=, client-key-data: aGk=", "tokenFile: t"] {
        let Err(Error::Invalid(problems)) = config("server: 'host:6443'", user).client_config(&Overrides::default())
        else {
            panic!("accepted with {user}")
        };
        assert_eq!(problems[0].field, "clusters[\"eu\"].server");
        assert!(problems[0].message.contains("write https://host:6443"), "{}", problems[0].message);
    }
    assert_eq!(resolve("server: 'host:6443'", "as: you", &Overrides::default()).server, "host:6443");
    assert_eq!(token(&resolve("server: 'http://host'", "token: t", &Overrides::default())), None);
}

/// With leading spaces, the URL would not start with `https`, and the client would silently send no credentials.
#[test]
fn spaces_around_server_are_trimmed() {
    let used =
        resolve("server: ' https://eu ', certificate-authority-data: aGk=", "token: mine", &Overrides::default());
    assert_eq!((used.server.as_str(), token(&used), used.tls.ca.is_some()), ("https://eu", Some("mine"), true));
    let overrides = Overrides { server: Some("\nhttps://other\n".into()), ..Overrides::default() };
    let used = resolve(EU, "token: mine", &overrides);
    assert_eq!((used.server.as_str(), token(&used)), ("https://other", Some("mine")));
}

#[test]
fn cluster_user_and_server_can_be_overridden_separately() {
    let chosen = Overrides { cluster: Some("us".into()), user: Some("you".into()), ..Overrides::default() };
    let used = resolve(EU, "token: mine", &chosen);
    assert_eq!((used.server.as_str(), token(&used)), ("https://us", Some("yours")));

    for (overrides, kind) in [
        (Overrides { cluster: Some("gone".into()), ..Overrides::default() }, "cluster"),
        (Overrides { user: Some("gone".into()), ..Overrides::default() }, "user"),
    ] {
        let error = config(EU, "").client_config(&overrides).unwrap_err();
        assert!(matches!(&error, Error::NotFound { kind: found, .. } if *found == kind), "{error:?}");
    }

    let server = Overrides { server: Some("https://other".into()), ..Overrides::default() };
    assert_eq!(Kubeconfig::default().client_config(&server).unwrap().server, "https://other");
}

#[test]
fn overridden_server_drops_the_tls_server_name() {
    let cluster = "server: 'https://eu', tls-server-name: inner";
    let name = |overrides: Overrides| resolve(cluster, "", &overrides).tls.server_name;
    assert_eq!(name(Overrides::default()).as_deref(), Some("inner"));
    assert_eq!(name(Overrides { server: Some("https://b".into()), ..Overrides::default() }), None);
    let both =
        Overrides { server: Some("https://b".into()), tls_server_name: Some("n".into()), ..Overrides::default() };
    assert_eq!(name(both).as_deref(), Some("n"));
}

#[test]
fn server_trust_settings_are_replaced_together() {
    let cluster = "server: 'https://eu', certificate-authority-data: aGk=";
    let insecure = Overrides { insecure_skip_tls_verify: Some(true), ..Overrides::default() };
    let used = resolve(cluster, "", &insecure);
    assert!(used.tls.ca.is_none() && used.tls.insecure_skip_verify);

    let ca = tempfile::NamedTempFile::new().unwrap();
    let file = Overrides { certificate_authority: Some(ca.path().into()), ..Overrides::default() };
    let used = resolve("server: 'https://eu', insecure-skip-tls-verify: true", "", &file);
    assert!(matches!(&used.tls.ca, Some(PemSource::File(path)) if path == ca.path()));
    assert!(!used.tls.insecure_skip_verify);
}

/// Setting `insecure_skip_tls_verify` to `Some(false)` does not replace the CA of the kubeconfig.
#[test]
fn explicit_verification_keeps_the_file_ca() {
    let verified = Overrides { insecure_skip_tls_verify: Some(false), ..Overrides::default() };
    let used = resolve("server: 'https://eu', certificate-authority-data: aGk=", "", &verified);
    assert!(matches!(&used.tls.ca, Some(PemSource::Inline(pem)) if pem == b"hi") && !used.tls.insecure_skip_verify);
    let used = resolve("server: 'https://eu', insecure-skip-tls-verify: true", "", &verified);
    assert!(!used.tls.insecure_skip_verify);
}

/// Programs may pass an empty string for a flag that is not set.
#[test]
fn empty_overrides_change_nothing() {
    let text = || Some(String::new());
    let overrides = Overrides {
        context: text(),
        cluster: text(),
        user: text(),
        namespace: text(),
        server: text(),
        tls_server_name: text(),
        proxy_url: text(),
        certificate_authority: Some(PathBuf::new()),
        client_certificate: Some(PathBuf::new()),
        client_key: Some(PathBuf::new()),
        token: Some(Secret::new("")),
        token_file: Some(PathBuf::new()),
        username: text(),
        password: Some(Secret::new("")),
        impersonate: text(),
        impersonate_uid: text(),
        ..Overrides::default()
    };
    let cluster = "server: 'https://eu', certificate-authority-data: aGk=, tls-server-name: n, proxy-url: 'http://p'";
    let user = "token: t, as: you, as-uid: '7', client-certificate-data: aGk=, client-key-data: aGk=";
    let [plain, used] = [Overrides::default(), overrides.clone()].map(|overrides| resolve(cluster, user, &overrides));
    assert_eq!(format!("{plain:?}"), format!("{used:?}"));
    assert_eq!(token(&used), Some("t"));
    let named = config(cluster, user);
    assert_eq!(named.namespace(&overrides).unwrap(), named.namespace(&Overrides::default()).unwrap());
}

#[test]
fn overridden_credentials_replace_those_of_the_file() {
    let hand = Overrides { token: Some(Secret::new("hand")), ..Overrides::default() };
    let used = resolve(EU, "token: mine, tokenFile: /t", &hand);
    assert_eq!((token(&used), &used.token_file), (Some("hand"), &None));
    let used = resolve(EU, "username: a, password: b", &hand);
    assert!(used.basic.is_none() && token(&used) == Some("hand"));

    let basic = Overrides { username: Some("a".into()), password: Some(Secret::new("b")), ..Overrides::default() };
    let used = resolve(EU, "token: mine", &basic);
    assert!(used.token.is_none());
    assert_eq!(used.basic.unwrap().username, "a");

    let file = Overrides { token_file: Some("/hand".into()), ..Overrides::default() };
    for user in ["token: mine", "tokenFile: /t", "username: a"] {
        let used = resolve(EU, user, &file);
        assert_eq!(
            (token(&used), used.token_file.clone(), used.basic.is_none()),
            (None, Some("/hand".into()), true),
            "{user}"
        );
    }
    let both = Overrides { token_file: Some("/hand".into()), ..hand };
    let used = resolve(EU, "token: mine", &both);
    assert_eq!((token(&used), used.token_file.clone()), (Some("hand"), Some("/hand".into())));

    let pair = tempfile::NamedTempFile::new().unwrap();
    let path = Some(PathBuf::from(pair.path()));
    let certificate = Overrides { client_certificate: path.clone(), client_key: path, ..Overrides::default() };
    let used = resolve(EU, "client-certificate-data: aGk=, client-key-data: aGk=", &certificate);
    assert!(matches!(used.tls.certificate, Some(PemSource::File(_))));
    assert!(matches!(used.tls.key, Some(PemSource::File(_))));
}

#[test]
fn token_and_token_file_are_kept_together() {
    let used = resolve(EU, "token: first, tokenFile: /var/token", &Overrides::default());
    assert_eq!((token(&used), used.token_file.clone()), (Some("first"), Some("/var/token".into())));
}

#[test]
fn credentials_and_ca_are_used_only_with_https() {
    let user = "token: mine, as: other";
    let used = resolve("server: 'http://127.0.0.1:8001', proxy-url: 'http://p'", user, &Overrides::default());
    assert!(used.token.is_none() && used.tls.ca.is_none());
    assert_eq!(used.impersonate.unwrap().user, "other");
    assert_eq!(used.proxy_url.as_deref(), Some("http://p"));

    // For a server without a scheme, client-go silently drops the CA certificate.
    let bare = config("server: 'eu:6443', certificate-authority-data: aGk=", user);
    let error = bare.client_config(&Overrides::default()).unwrap_err().to_string();
    assert!(error.contains("https://eu:6443"), "{error}");
}

#[test]
fn impersonation_and_timeout_reach_the_client() {
    let user = "as: me, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v, w]}";
    let overrides = Overrides { timeout: Some(Duration::from_secs(5)), ..Overrides::default() };
    let used = resolve("server: 'https://eu', disable-compression: true", user, &overrides);
    let whom = used.impersonate.unwrap();
    assert_eq!((whom.user.as_str(), whom.uid.as_deref(), whom.groups.len()), ("me", Some("7"), 2));
    assert_eq!(whom.extra["k"], ["v", "w"]);
    assert_eq!((used.timeout, used.disable_compression), (Some(Duration::from_secs(5)), true));

    let overrides = Overrides {
        impersonate_uid: Some("8".into()),
        impersonate_extra: [("k".to_owned(), vec!["x".to_owned()]), ("l".to_owned(), Vec::new())].into(),
        disable_compression: Some(false),
        ..Overrides::default()
    };
    let used = resolve("server: 'https://eu', disable-compression: true", user, &overrides);
    let whom = used.impersonate.unwrap();
    assert_eq!((whom.user.as_str(), whom.uid.as_deref(), whom.groups.len()), ("me", Some("8"), 2));
    assert_eq!((whom.extra["k"].as_slice(), whom.extra["l"].len()), (["x".to_owned()].as_slice(), 0));
    assert!(!used.disable_compression);
    let error = config(EU, "").client_config(&overrides).unwrap_err();
    assert!(error.to_string().contains("require a user to impersonate"), "{error}");
}

#[test]
fn plugin_is_used_only_without_other_credentials() {
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: [a], interactiveMode: Never, \
                env: [{name: A, value: B}], provideClusterInfo: true, installHint: hint}";
    let cluster =
        "server: 'https://eu', extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]";
    let program = resolve(cluster, exec, &Overrides::default()).exec.unwrap();
    assert_eq!((program.command.as_str(), program.env["A"].as_str()), ("login", "B"));
    assert_eq!(program.interactive_mode, InteractiveMode::Never);
    assert_eq!(program.cluster_extension.as_ref().unwrap()["audience"], "x");
    for other in ["token: t", "tokenFile: /t", "username: a", "client-certificate-data: aGk=, client-key-data: aGk="] {
        let used = resolve(cluster, &format!("{exec}, {other}"), &Overrides::default());
        assert!(used.exec.is_none(), "{other}");
    }
}

#[test]
fn namespace_comes_from_context_unless_overridden() {
    let mut config = config(EU, "");
    assert_eq!(config.namespace(&Overrides::default()).unwrap(), ("default".into(), false));
    config.contexts.get_mut("c").unwrap().namespace = "team".into();
    assert_eq!(config.namespace(&Overrides::default()).unwrap(), ("team".into(), false));
    let overrides = Overrides { namespace: Some("other".into()), ..Overrides::default() };
    assert_eq!(config.namespace(&overrides).unwrap(), ("other".into(), true));
    assert_eq!(config.client_config(&overrides).unwrap().namespace, "other");
}

#[test]
fn problems_in_other_entries_are_ignored() {
    let mut config = config(EU, "token: t");
    config.clusters.get_mut("us").unwrap().server.clear();
    config.client_config(&Overrides::default()).unwrap();
    assert!(config.validate().unwrap_err().is_invalid());
}

#[test]
fn unsupported_login_is_rejected() {
    let provider = "auth-provider: {name: oidc, config: {id-token: hush}}";
    let error = config(EU, provider).client_config(&Overrides::default()).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("users[\"me\"].auth-provider"), "{error}");
    let used = resolve(EU, &format!("{provider}, token: t"), &Overrides::default());
    assert_eq!(token(&used), Some("t"));
}
