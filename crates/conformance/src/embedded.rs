//! Starts the embedded server with the settings that were used for recording the cases.

use std::io::Write as _;

use anyhow::Context;
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers};

/// The users of the embedded server in kube-apiserver's CSV format: token, user, uid and groups.
const TOKENS: &str = "admin-token,admin,admin-uid,\"system:masters\"\nnobody-token,nobody,nobody-uid,\"users\"\n";

/// Starts the embedded server on a free loopback port. Compacts revision 1, because a real server also compacts
/// old revisions over time. The server runs until the returned value is shut down or dropped.
///
/// # Errors
///
/// Returns an error if the embedded server cannot start.
pub async fn start() -> anyhow::Result<ApiServer> {
    // Disable the policy controller, because the cases were recorded without it.
    start_with(Controllers { policies: false, ..Controllers::default() }).await
}

/// Like [`start`], but runs only the controllers in `controllers`.
///
/// # Errors
///
/// Returns an error if the embedded server cannot start.
pub async fn start_with(controllers: Controllers) -> anyhow::Result<ApiServer> {
    let mut tokens = tempfile::NamedTempFile::new().context("creating the token file")?;
    tokens.write_all(TOKENS.as_bytes()).context("writing the token file")?;
    let token_auth_file = Some(tokens.path().to_owned());
    let config = ApiServerConfig { token_auth_file, controllers, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.context("starting the server")?;
    server.compact();
    Ok(server)
}
