//! Tests of the server's kubeconfig file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

async fn status_with_token(file: &Json, token: &str) -> String {
    let cluster = &file["clusters"][0]["cluster"];
    let ca = STANDARD.decode(cluster["certificate-authority-data"].as_str().expect("a CA")).expect("base64");
    let address = cluster["server"].as_str().and_then(|url| url.strip_prefix("https://")).expect("an address");
    let mut socket = over_tls(&ca, TcpStream::connect(address).await.expect("the server listens")).await;
    let request = format!(
        "GET {CONFIG_MAPS} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn kubeconfig_token_has_administrator_rights_over_tls() {
    let tokens = std::env::temp_dir().join(format!("pintle-kubeconfig-{}", std::process::id()));
    std::fs::write(&tokens, "right,somebody,1\n").expect("a file");
    for (token_auth_file, wrong, known) in [(None, "200", "200"), (Some(tokens.clone()), "401", "403")] {
        let config = ApiServerConfig { tls: true, token_auth_file, ..ApiServerConfig::default() };
        let server = ApiServer::start(config).await.expect("a server");
        let (file, _) = pintle_schema::read_yaml(server.kubeconfig().as_bytes()).expect("YAML");
        let current = &file["current-context"];
        assert_eq!((current, &file["contexts"][0]["name"]), (&file["clusters"][0]["name"], current));
        assert_eq!(file["contexts"][0]["context"]["user"], file["users"][0]["name"]);
        // Without a token in the file, kubectl prompts for a user name and a password.
        let token = file["users"][0]["user"]["token"].as_str().expect("a token").to_owned();
        assert_eq!(status_with_token(&file, &token).await, "200", "{token}");
        assert_eq!(status_with_token(&file, &format!("{token}-")).await, wrong);
        assert_eq!(status_with_token(&file, "right").await, known);
        server.shutdown().await;
    }
    std::fs::remove_file(&tokens).expect("it is there");
}
