//! Credentials from a program.

use std::io::IsTerminal;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use pintle_meta::{ClientConfig, ExecConfig, InteractiveMode, PemSource, Time};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Mutex;

use super::{Login, secret};
use crate::error::{AuthError, ConfigError};
use crate::transport::ClientPair;

/// A program that prints credentials, as `client.authentication.k8s.io` describes it.
///
/// It runs when there are no credentials yet, shortly before they expire, and when the server refuses them; never twice at a
/// time. Dropped requests and the deadline end it.
pub(crate) struct ExecPlugin {
    config: ExecConfig,
    /// What the program is told about the cluster, if it asks for that.
    cluster: Option<serde_json::Value>,
    /// Held while the program runs, so that all who wait get what one run gives.
    state: Mutex<Option<Issued>>,
}

/// What a run of the program gave.
struct Issued {
    login: Login,
    expires: Option<SystemTime>,
}

/// A request takes time, and clocks differ: credentials are renewed so long before they expire.
const LEEWAY: Duration = Duration::from_secs(10);
/// A person who logs in through a browser needs minutes; a program on its own does not.
const PATIENCE: Duration = Duration::from_secs(60);
const INTERACTIVE_PATIENCE: Duration = Duration::from_secs(600);
/// The most that is read of what the program prints.
const MAX_OUTPUT: u64 = 1 << 20;

impl ExecPlugin {
    pub(crate) fn new(config: ExecConfig, client: &ClientConfig) -> Result<Self, ConfigError> {
        let versions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
        if !versions.contains(&config.api_version.as_str()) {
            let why = format!("{:?} is not supported; use {} or {}", config.api_version, versions[0], versions[1]);
            return Err(ConfigError::Value { field: "exec.api_version", why });
        }
        if config.command.is_empty() {
            return Err(ConfigError::Value { field: "exec.command", why: "no program is named".into() });
        }
        let cluster = config.provide_cluster_info.then(|| cluster_info(&config, client)).transpose()?;
        Ok(Self { config, cluster, state: Mutex::new(None) })
    }

    /// The present credentials; runs the program if there are none that last.
    pub(crate) async fn login(&self) -> Result<Login, AuthError> {
        let mut state = self.state.lock().await;
        match &*state {
            Some(issued) if issued.lasts() => Ok(issued.login.clone()),
            _ => self.run(&mut state).await,
        }
    }

    /// Other credentials than `used`, which the server refused; unless somebody else has got them already.
    pub(crate) async fn renew(&self, used: &Login) -> Result<Login, AuthError> {
        let mut state = self.state.lock().await;
        match &*state {
            Some(issued) if issued.login != *used => Ok(issued.login.clone()),
            _ => self.run(&mut state).await,
        }
    }

    async fn run(&self, state: &mut Option<Issued>) -> Result<Login, AuthError> {
        let terminal = std::io::stdin().is_terminal();
        let interactive = match self.config.interactive_mode {
            InteractiveMode::Never => false,
            InteractiveMode::IfAvailable => terminal,
            InteractiveMode::Always if terminal => true,
            InteractiveMode::Always => return Err(self.fault("it needs a terminal, and standard input is none")),
        };
        let mut command = Command::new(&self.config.command);
        command
            .args(&self.config.args)
            .envs(&self.config.env)
            .env("KUBERNETES_EXEC_INFO", self.info(interactive).to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(if interactive { Stdio::inherit() } else { Stdio::piped() })
            .kill_on_drop(true);
        let patience = if interactive { INTERACTIVE_PATIENCE } else { PATIENCE };
        let ended = tokio::time::timeout(patience, output(command)).await;
        let ended = ended.map_err(|_| self.fault(format!("it did not end within {patience:?}")))?;
        let (status, stdout, stderr) = ended.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => self.fault(format!("it is not installed{}", self.hint())),
            _ => self.fault(format!("it cannot be run: {error}")),
        })?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let said = said.trim();
            let said = if said.is_empty() { String::new() } else { format!(": {}", printable(said)) };
            return Err(self.fault(format!("it failed with {status}{said}{}", self.hint())));
        }
        let issued = self.read(&stdout)?;
        let login = issued.login.clone();
        *state = Some(issued);
        Ok(login)
    }

    /// What the program is told, as JSON in a variable.
    fn info(&self, interactive: bool) -> serde_json::Value {
        let mut spec = json!({ "interactive": interactive });
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        json!({ "apiVersion": self.config.api_version, "kind": "ExecCredential", "spec": spec })
    }

    fn read(&self, stdout: &[u8]) -> Result<Issued, AuthError> {
        // serde's message could quote what was printed, and that holds the credentials.
        let credential: ExecCredential = serde_json::from_slice(stdout).map_err(|error| {
            self.fault(format!(
                "what it printed is no ExecCredential (line {}, column {})",
                error.line(),
                error.column()
            ))
        })?;
        if credential.kind != "ExecCredential" || credential.api_version != self.config.api_version {
            return Err(self.fault(format!(
                "it printed {:?} of {:?}; expected an ExecCredential of {:?}",
                credential.kind, credential.api_version, self.config.api_version
            )));
        }
        let status = credential.status.ok_or_else(|| self.fault("what it printed has no status"))?;
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = some(status.token).map(|token| secret("token", format!("Bearer {token}"))).transpose();
        let header: Option<HeaderValue> = token.map_err(|error| self.fault(error.to_string()))?;
        let pair = match (some(status.client_certificate_data), some(status.client_key_data)) {
            (Some(certificate), Some(key)) => {
                Some(ClientPair { certificate: certificate.into_bytes(), key: key.into_bytes() })
            }
            (None, None) => None,
            _ => return Err(self.fault("it printed a certificate without its key, or a key without its certificate")),
        };
        if header.is_none() && pair.is_none() {
            return Err(self.fault("what it printed has neither a token nor a certificate"));
        }
        let expires = status.expiration_timestamp.map(|time| time.0.into());
        Ok(Issued { login: Login { header, pair }, expires })
    }

    fn hint(&self) -> String {
        self.config.install_hint.as_ref().map(|hint| format!("; {}", printable(hint))).unwrap_or_default()
    }

    fn fault(&self, why: impl Into<String>) -> AuthError {
        AuthError::Exec { command: self.config.command.clone(), why: why.into() }
    }
}

impl Issued {
    /// Without a time, until the server refuses them.
    fn lasts(&self) -> bool {
        self.expires.is_none_or(|at| SystemTime::now() + LEEWAY < at)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<ExecStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<Time>,
}

/// Runs a program to its end. Both of its pipes are read at once: it would wait for ever on a full one.
async fn output(mut command: Command) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, status) = tokio::try_join!(read(stdout), read(stderr), child.wait())?;
    Ok((status, stdout, stderr))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // The rest is cut off: no credentials are that long, and dropping the pipe ends a program that goes on.
        pipe.take(MAX_OUTPUT).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn cluster_info(config: &ExecConfig, client: &ClientConfig) -> Result<serde_json::Value, ConfigError> {
    use base64::Engine;
    let mut cluster = json!({
        "server": client.server,
        "insecure-skip-tls-verify": client.tls.insecure_skip_verify,
        "config": config.cluster_extension,
    });
    let ca = match &client.tls.ca {
        None => None,
        Some(PemSource::Inline(pem)) => Some(pem.clone()),
        Some(PemSource::File(path)) => Some(std::fs::read(path).map_err(|source| ConfigError::File {
            field: "tls.ca",
            path: path.clone(),
            source: std::sync::Arc::new(source),
        })?),
    };
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = base64::prelude::BASE64_STANDARD.encode(ca).into();
    }
    if let Some(name) = &client.tls.server_name {
        cluster["tls-server-name"] = name.as_str().into();
    }
    if let Some(proxy) = &client.proxy_url {
        cluster["proxy-url"] = proxy.as_str().into();
    }
    if client.disable_compression {
        cluster["disable-compression"] = true.into();
    }
    Ok(cluster)
}

/// Terminals obey control characters, so foreign ones are spelled out.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            control if control.is_control() => shown.push_str(&format!("U+{:04X}", u32::from(control))),
            other => shown.push(other),
        }
    }
    shown
}
