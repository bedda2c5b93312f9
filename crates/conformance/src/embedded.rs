//! Starts the embedded server with the configuration that the cases need.

use std::io::Write as _;

use anyhow::Context;
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers};

/// The users in kube-apiserver's CSV format, with the columns token, user, uid and groups.
const TOKENS: &str = "admin-token,admin,admin-uid,\"system:masters\"\nnobody-token,nobody,nobody-uid,\"users\"\n";

/// Starts the embedded server on a free loopback port. Compacts revision 1, because revision 1 is also compacted on a real server that
/// has been running for a while. The server runs until it is shut down or dropped.
///
/// # Errors
///
/// Returns an error if the server does not start.
pub async fn start() -> anyhow::Result<ApiServer> {
    // The cases were recorded without the controller of policies.
    start_with(Controllers { policies: false, ..Controllers::default() }).await
}

/// Starts the embedded server as [`start`] does, but with only these controllers.
///
/// # Errors
///
/// Returns an error if the server does not start.
pub async fn start_with(controllers: Controllers) -> anyhow::Result<ApiServer> {
    let mut tokens = tempfile::NamedTempFile::new().context("creating the token file")?;
    tokens.write_all(TOKENS.as_bytes()).context("writing the token file")?;
    let token_auth_file = Some(tokens.path().to_owned());
    let config = ApiServerConfig { token_auth_file, controllers, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.context("starting the server")?;
    server.compact();
    Ok(server)
}
