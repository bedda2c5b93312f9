//! Tests of client configurations for the `oidc` auth provider, and of writing new tokens.

use std::path::Path;

use pintle_kubeconfig::{Files, Kubeconfig, Overrides};
use pintle_meta::{ClientConfig, OidcConfig, PemSource, Secret};

/// Writes a kubeconfig file with a single user whose `oidc` login has an issuer, a client ID and `settings`.
fn write(path: &Path, settings: &str, user: &str) {
    let text = format!(
        "# mine\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: eu, user: me}}}}]\n\
         clusters: [{{name: eu, cluster: {{server: 'https://eu'}}}}]\n\
         users: [{{name: me, user: {{auth-provider: {{name: oidc, config: {{idp-issuer-url: 'https://issuer', \
         client-id: kubernetes, {settings}}}}}, {user}}}}}]\n"
    );
    std::fs::write(path, text).unwrap();
}

fn resolve(settings: &str, user: &str) -> ClientConfig {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), settings, user);
    Files::explicit(file.path()).load().unwrap().client_config(&Overrides::default()).unwrap()
}

fn oidc(settings: &str) -> OidcConfig {
    resolve(settings, "").oidc.unwrap()
}

fn text(secret: &Option<Secret>) -> Option<&str> {
    secret.as_ref().map(Secret::expose)
}

#[test]
fn client_config_has_the_oidc_login() {
    let login = oidc("client-secret: s, id-token: i, refresh-token: r, extra-scopes: groups");
    assert_eq!((login.issuer_url.as_str(), login.client_id.as_str()), ("https://issuer", "kubernetes"));
    assert_eq!(text(&login.client_secret), Some("s"));
    assert_eq!((text(&login.id_token), text(&login.refresh_token)), (Some("i"), Some("r")));
    assert!(login.ca.is_none() && login.token_store.is_some());
    let login = oidc("client-secret: '', idp-certificate-authority: /ca");
    assert_eq!((text(&login.client_secret), text(&login.id_token), text(&login.refresh_token)), (None, None, None));
    assert!(matches!(&login.ca, Some(PemSource::File(path)) if path == Path::new("/ca")));
    let login = oidc("idp-certificate-authority: /ca, idp-certificate-authority-data: aGk=");
    assert!(matches!(&login.ca, Some(PemSource::Inline(pem)) if pem == b"hi"));
}

#[test]
fn token_or_password_replaces_login_but_certificate_does_not() {
    for other in ["token: t", "tokenFile: /t", "username: u"] {
        assert!(resolve("id-token: i", other).oidc.is_none(), "{other}");
    }
    let both = resolve("id-token: i", "client-certificate-data: aGk=, client-key-data: aGk=");
    assert!(both.oidc.is_some() && both.tls.certificate.is_some());
    let open = "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://issuer', client-id: k}}";
    let text =
        format!("clusters: [{{name: a, cluster: {{server: 'http://a'}}}}]\nusers: [{{name: u, user: {{{open}}}}}]\n");
    let chosen = Overrides { cluster: Some("a".into()), user: Some("u".into()), ..Overrides::default() };
    let config = Kubeconfig::parse(&text).unwrap().client_config(&chosen).unwrap();
    assert!(config.oidc.is_none(), "credentials are for https only");
}

#[test]
fn invalid_login_is_rejected() {
    for (provider, word) in [
        ("{name: gcp}", "not supported"),
        ("{name: oidc, config: {client-id: k}}", "idp-issuer-url"),
        ("{name: oidc, config: {idp-issuer-url: 'https://me:hush@issuer', client-id: ''}}", "client-id"),
        (
            "{name: oidc, config: {idp-issuer-url: 'https://i', client-id: k, idp-certificate-authority-data: '*hush*'}}",
            "base64",
        ),
    ] {
        let text = format!(
            "clusters: [{{name: a, cluster: {{server: 'https://a'}}}}]\nusers: [{{name: u, user: {{auth-provider: {provider}}}}}]"
        );
        let chosen = Overrides { cluster: Some("a".into()), user: Some("u".into()), ..Overrides::default() };
        let error = Kubeconfig::parse(&text).unwrap().client_config(&chosen).unwrap_err();
        let said = error.to_string();
        assert!(error.is_invalid() && said.contains("users[\"u\"].auth-provider") && said.contains(word), "{said}");
        assert!(!said.contains("hush"), "{said}");
    }
}

#[test]
fn new_tokens_are_written_only_to_their_entry() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    write(&file, "id-token: i1, refresh-token: r1, extra-scopes: groups", "as: you");
    let login = || Files::explicit(&file).load().unwrap().client_config(&Overrides::default()).unwrap().oidc.unwrap();
    let store = login().token_store.unwrap();
    store.store(&Secret::new("i2"), &Secret::new("r2")).unwrap();
    assert_eq!((text(&login().id_token), text(&login().refresh_token)), (Some("i2"), Some("r2")));
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains("extra-scopes: groups") && kept.contains("as: you"), "{kept}");

    // New tokens are not written if another program is writing to the file, or if the user was removed or its
    // login changed.
    let lock = dir.path().join("config.lock");
    std::fs::write(&lock, "").unwrap();
    let error = store.store(&Secret::new("i3"), &Secret::new("r3")).unwrap_err().to_string();
    assert!(error.contains("config.lock"), "{error}");
    std::fs::remove_file(&lock).unwrap();
    for (old, new) in [("https://issuer", "https://another"), ("name: me", "name: you")] {
        std::fs::write(&file, kept.replace(old, new)).unwrap();
        let before = std::fs::read(&file).unwrap();
        let error = store.store(&Secret::new("i3"), &Secret::new("r3")).unwrap_err().to_string();
        assert!(error.contains("\"me\"") && !error.contains("i3"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }
    let parsed = Kubeconfig::parse(&kept).unwrap().client_config(&Overrides::default()).unwrap();
    assert!(parsed.oidc.unwrap().token_store.is_none(), "a text has no file");
}
