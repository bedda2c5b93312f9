//! Tests of token files and credential plugins, and of how the client detects new credentials.

use std::time::Duration;

use http::Method;
use pintle_meta::{ClientConfig, ErrorKind, ExecConfig, InteractiveMode, PemSource, Secret};
use pintle_restreq::{AuthError, RestClient};
use serde_json::json;

use crate::support::{Reply, Server, skip, soon, steady_clock};
use crate::tls::{Authority, settings, trusting};

fn shown(server: &Server) -> Vec<String> {
    let header = |seen: &crate::support::Seen| seen.header("authorization").unwrap_or("none").replace("Bearer ", "");
    server.seen().iter().map(header).collect()
}

#[tokio::test(start_paused = true)]
async fn changed_token_file_is_read_again() {
    let _clock = steady_clock();
    let server = Server::start([]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), " one\n").unwrap();
    let mut config = server.config();
    config.token = Some(Secret::new("from the configuration"));
    config.token_file = Some(file.path().into());
    let client = RestClient::new(config).unwrap();
    let send = || async { client.get().send().await.unwrap() };

    send().await;
    std::fs::write(file.path(), "two").unwrap();
    send().await;
    tokio::time::sleep(Duration::from_secs(51)).await;
    send().await;
    // While the token file cannot be read, the client continues to use the last token.
    std::fs::write(file.path(), "").unwrap();
    tokio::time::sleep(Duration::from_secs(51)).await;
    send().await;
    std::fs::remove_file(file.path()).unwrap();
    tokio::time::sleep(Duration::from_secs(51)).await;
    send().await;
    assert_eq!(shown(&server), ["one", "one", "two", "two", "two"]);
}

#[tokio::test]
async fn rejected_token_is_reread_and_retried_if_changed() {
    let server = Server::start([Reply::ok(), Reply::json(401, ""), Reply::ok(), Reply::json(401, "")]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one").unwrap();
    let mut config = server.config();
    config.token_file = Some(file.path().into());
    let client = RestClient::new(config).unwrap();
    soon(client.post().body("x").send()).await.unwrap();
    std::fs::write(file.path(), "two").unwrap();
    soon(client.post().body("x").send()).await.unwrap();
    assert_eq!(shown(&server), ["one", "one", "two"]);

    let error = soon(client.get().send()).await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 401);
    assert_eq!(server.seen().len(), 4, "the same token is not sent twice");
}

/// The 401 may come from the program behind the proxy, which may already have processed the write. A GET can be
/// repeated, because it changes nothing.
#[tokio::test]
async fn proxied_write_with_401_is_not_repeated() {
    const PROXIED: &str = "/api/v1/namespaces/a/services/b/proxy/pay";
    for (method, path, is_repeated) in [
        (Method::POST, PROXIED, false),
        (Method::PATCH, PROXIED, false),
        (Method::PUT, PROXIED, false),
        (Method::DELETE, PROXIED, false),
        (Method::POST, "/api/v1/nodes/b/proxy/run", false),
        (Method::GET, PROXIED, true),
        (Method::POST, "/api/v1/namespaces/a/pods", true),
    ] {
        let server = Server::start([Reply::ok(), Reply::json(401, r#"{"error":"wrong password"}"#)]).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one").unwrap();
        let mut config = server.config();
        config.token_file = Some(file.path().into());
        let client = RestClient::new(config).unwrap();
        soon(client.get().send()).await.unwrap();
        std::fs::write(file.path(), "two").unwrap();
        let outcome = soon(client.verb(method.clone()).abs_path([path]).body("x").send()).await;
        assert_eq!(outcome.is_ok(), is_repeated, "{method} {path}: {outcome:?}");
        if let Err(error) = outcome {
            assert_eq!(error.status().unwrap().code, 401, "{error}");
            soon(client.get().send()).await.unwrap();
        }
        assert_eq!(shown(&server), ["one", "one", "two"], "{method} {path}");
    }
}

/// Old kubectl versions wrote both an auth provider and a client certificate to a kubeconfig.
#[cfg(not(feature = "oidc"))]
#[test]
fn client_certificate_works_without_unsupported_login() {
    let mut config = ClientConfig::new("https://host");
    config.oidc = Some(Default::default());
    let error = RestClient::new(config.clone()).unwrap_err().to_string();
    assert!(error.contains("oidc"), "{error}");
    let me = Authority::new().issue("me");
    config.tls.certificate = Some(PemSource::Inline(me.certificate.clone().into()));
    config.tls.key = Some(PemSource::Inline(me.key.clone().into()));
    RestClient::new(config).unwrap();
}

#[tokio::test]
async fn missing_token_file_is_named_and_nothing_is_sent() {
    let server = Server::start([]).await;
    let mut config = server.config();
    config.token_file = Some("/nonexistent/token".into());
    let error = soon(RestClient::new(config).unwrap().get().send()).await.unwrap_err();
    assert!(matches!(error.cause(), Some(AuthError::TokenFile { .. })), "{error}");
    assert!(error.to_string().contains("/nonexistent/token"), "{error}");
    assert!(matches!(error.kind, ErrorKind::Unauthenticated(_)));
    assert!(server.seen().is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn pipe_as_token_file_blocks_no_request() {
    let server = Server::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = server.config();
    config.token_file = Some(crate::support::pipe(dir.path()));
    let error = soon(RestClient::new(config.clone()).unwrap().get().send()).await.unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    config.token = Some(Secret::new("beside"));
    soon(RestClient::new(config).unwrap().get().send()).await.unwrap();
    assert_eq!(shown(&server), ["beside"]);
}

/// The kubelet replaces all files of a volume at once by replacing a symbolic link to their directory. Each file is a
/// symbolic link into this directory.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn rotated_service_account_token_is_used() {
    use std::os::unix::fs::symlink;
    let _clock = steady_clock();
    let (old, new) = (Authority::new(), Authority::new());
    let dir = tempfile::tempdir().unwrap();
    let volume = |version: &str, token: &str, authority: &Authority| {
        let folder = dir.path().join(version);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("token"), token).unwrap();
        std::fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
        symlink(version, dir.path().join("..data_tmp")).unwrap();
        std::fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    };
    volume("one", "one", &old);
    for file in ["token", "ca.crt"] {
        symlink(std::path::Path::new("..data").join(file), dir.path().join(file)).unwrap();
    }
    let tls = settings(&new.issue("127.0.0.1"), &["h2"], None);
    let server = Server::start_with([], Reply::ok(), Some(tls)).await;
    let mut config = server.config();
    config.token_file = Some(dir.path().join("token"));
    config.tls.ca = Some(PemSource::File(dir.path().join("ca.crt")));
    let client = RestClient::new(config).unwrap();
    client.get().max_retries(0).send().await.unwrap_err();
    volume("two", "two", &new);
    tokio::time::sleep(Duration::from_secs(51)).await;
    client.get().send().await.unwrap();
    assert_eq!(shown(&server), ["two"]);
}

#[test]
fn server_without_scheme_gets_no_credentials_over_http() {
    let mut config = ClientConfig::new("host:6443");
    assert!(RestClient::new(config.clone()).is_ok(), "no credentials are sent");
    config.token = Some(Secret::new("hush"));
    let error = RestClient::new(config.clone()).unwrap_err().to_string();
    assert!(error.contains("write https://") && !error.contains("hush"), "{error}");
    config.tls.insecure_skip_verify = true;
    let client = RestClient::new(config).unwrap();
    assert_eq!(client.get().url(), "https://host:6443/");
}

/// The client never sends an unusable certificate, so the server cannot reject it, and the client must run the plugin
/// again by itself.
#[cfg(unix)]
#[tokio::test]
async fn plugin_runs_again_after_an_unusable_certificate() {
    use std::os::unix::fs::PermissionsExt;
    const V1: &str = "client.authentication.k8s.io/v1";
    let authority = Authority::new();
    let (one, other) = (authority.issue("me"), authority.issue("me"));
    for (certificate, key) in [(&*one.certificate, &*other.key), ("hush", &*one.key), (&*one.certificate, "hush")] {
        let server = Server::start_with(
            [],
            Reply::ok(),
            Some(settings(&authority.issue("127.0.0.1"), &["h2"], Some(&authority))),
        )
        .await;
        let dir = tempfile::tempdir().unwrap();
        for (run, certificate, key) in [(1, certificate, key), (2, &*one.certificate, &*one.key)] {
            let status = json!({"clientCertificateData": certificate, "clientKeyData": key});
            let output = json!({"apiVersion": V1, "kind": "ExecCredential", "status": status});
            std::fs::write(dir.path().join(format!("{run}")), output.to_string()).unwrap();
        }
        let program = dir.path().join("login");
        let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\"; echo x >> runs; cat $(($(wc -l < runs)))\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut config = trusting(&server, &authority);
        config.exec = Some(ExecConfig {
            api_version: V1.into(),
            command: program.to_str().unwrap().into(),
            args: Vec::new(),
            env: Default::default(),
            install_hint: None,
            provide_cluster_info: false,
            cluster_extension: None,
            interactive_mode: InteractiveMode::Never,
        });
        let client = RestClient::new(config).unwrap();
        let error = soon(client.get().send()).await.unwrap_err();
        assert!(matches!(error.cause(), Some(AuthError::Certificate { .. })), "{error:?}");
        assert!(!error.to_string().contains("hush"), "{error}");
        // The client must pause before it runs the plugin again, and must not run the plugin for each request.
        skip(2).await;
        soon(client.get().send()).await.unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap().lines().count(), 2);
    }
}
