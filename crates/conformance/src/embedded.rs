//! The embedded server, as the cases want it.

use std::io::Write as _;

use anyhow::Context;
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers};

/// Who calls, in kube-apiserver's CSV format: token, user, uid, groups.
const TOKENS: &str = "admin-token,admin,admin-uid,\"system:masters\"\nnobody-token,nobody,nobody-uid,\"users\"\n";

/// Starts the embedded server on a free port of the loopback interface. Its revision 1 is forgotten, as on a server that
/// has been up for a while. It runs until it is shut down or dropped.
///
/// # Errors
///
/// It did not start.
pub async fn start() -> anyhow::Result<ApiServer> {
    start_with(Controllers::default()).await
}

/// [`start`] with these controllers alone.
///
/// # Errors
///
/// It did not start.
pub async fn start_with(controllers: Controllers) -> anyhow::Result<ApiServer> {
    let mut tokens = tempfile::NamedTempFile::new().context("making a file of tokens")?;
    tokens.write_all(TOKENS.as_bytes()).context("writing the file of tokens")?;
    let token_auth_file = Some(tokens.path().to_owned());
    let config = ApiServerConfig { token_auth_file, controllers, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.context("starting the server")?;
    server.compact();
    Ok(server)
}
