//! Runs credential plugins.

#[cfg(any(test, fuzzing))]
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use pintle_meta::{ClientConfig, ExecConfig, InteractiveMode, PluginPolicy, Time};
use pintle_transport::authorization::secret;
use pintle_transport::{ClientPair, ConfigError, ca_pem};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use zeroize::Zeroizing;

use super::policy;
use super::renewal::{Credential, CredentialFuture, Source};
use crate::error::AuthError;
use crate::metrics::Instruments;

pub(crate) struct ExecPlugin {
    config: ExecConfig,
    policy: PluginPolicy,
    cluster: Option<serde_json::Value>,
    metrics: Option<Arc<Instruments>>,
}

/// The timeout of a plugin that cannot prompt the user. `INTERACTIVE_TIMEOUT` applies to plugins that can prompt the
/// user, because logging in with a browser may take minutes.
const TIMEOUT: Duration = Duration::from_secs(60);
const INTERACTIVE_TIMEOUT: Duration = Duration::from_secs(600);
/// The timeout for reading the remaining output after the plugin has exited. Without this timeout, the client would
/// wait forever if a child process of the plugin keeps the pipes open.
const PIPES_GRACE: Duration = Duration::from_millis(250);
const MAX_OUTPUT: u64 = 1 << 20;
/// The initial capacity of the output buffer, which is enough for most credentials.
const USUAL_OUTPUT: usize = 64 << 10;
/// The maximum number of bytes from stderr that an error contains. If stderr is longer, the error contains the end,
/// which usually names the cause.
const MAX_STDERR: usize = 4 << 10;

impl ExecPlugin {
    pub(crate) fn new(
        config: ExecConfig,
        client: &ClientConfig,
        metrics: Option<Arc<Instruments>>,
    ) -> Result<Self, ConfigError> {
        let versions = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
        if !versions.contains(&config.api_version.as_str()) {
            let why = format!("{:?} is not supported; use {} or {}", config.api_version, versions[0], versions[1]);
            return Err(ConfigError::Value { field: "exec.api_version", why });
        }
        if config.command.is_empty() {
            return Err(ConfigError::Value {
                field: "exec.command",
                why: "it is empty; set it to the program to run".into(),
            });
        }
        let policy = client.plugin_policy.clone();
        policy::check(&policy)?;
        let cluster = config.provide_cluster_info.then(|| cluster_info(&config, client)).transpose()?;
        Ok(Self { config, policy, cluster, metrics })
    }
}

impl Source for ExecPlugin {
    fn make(&self) -> CredentialFuture<'_> {
        Box::pin(self.run())
    }

    fn max_wait(&self) -> Duration {
        match self.config.interactive_mode {
            InteractiveMode::Never => TIMEOUT,
            InteractiveMode::IfAvailable if !std::io::stdin().is_terminal() => TIMEOUT,
            InteractiveMode::IfAvailable | InteractiveMode::Always => INTERACTIVE_TIMEOUT,
        }
    }

    fn fault(&self, why: String) -> AuthError {
        AuthError::Exec { command: self.config.command.clone(), why }
    }

    fn certificate_replaced(&self, age: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.certificate_replaced(age);
        }
    }
}

impl ExecPlugin {
    async fn run(&self) -> Result<Credential, AuthError> {
        let interactive = self.is_interactive(std::io::stdin().is_terminal())?;
        let program = policy::allowed(&self.policy, &self.config.command, std::env::var_os("PATH").as_deref());
        if let Some(metrics) = &self.metrics {
            metrics.program_judged(program.is_ok());
        }
        let mut command = Command::new(program.map_err(|why| self.fault(why))?);
        command
            .args(&self.config.args)
            .envs(&self.config.env)
            .env("KUBERNETES_EXEC_INFO", self.info(interactive).to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(if interactive { Stdio::inherit() } else { Stdio::piped() })
            .kill_on_drop(true);
        let max_wait = self.max_wait();
        let ended = tokio::time::timeout(max_wait, output(command)).await;
        self.count(ended.as_ref().ok());
        let ended = ended.map_err(|_| self.fault(format!("it did not end within {max_wait:?}")))?;
        let (status, stdout, stderr) = ended.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => self.fault(format!("it is not installed{}", self.hint())),
            _ => self.fault(format!("it cannot be run: {error}")),
        })?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let said = said.trim();
            let said = &said[said.ceil_char_boundary(said.len().saturating_sub(MAX_STDERR))..];
            let said = if said.is_empty() { String::new() } else { format!(": {}", printable(said)) };
            return Err(self.fault(format!("it failed with {status}{said}{}", self.hint())));
        }
        self.read(&stdout)
    }

    fn is_interactive(&self, has_terminal: bool) -> Result<bool, AuthError> {
        match self.config.interactive_mode {
            InteractiveMode::Never => Ok(false),
            InteractiveMode::IfAvailable => Ok(has_terminal),
            InteractiveMode::Always if has_terminal => Ok(true),
            InteractiveMode::Always => Err(self.fault("it needs a terminal, but standard input is not one".into())),
        }
    }

    /// Records a plugin run in the metrics. If `ended` is `None`, the plugin did not exit before its timeout.
    fn count(&self, ended: Option<&std::io::Result<Output>>) {
        let Some(metrics) = &self.metrics else { return };
        let (code, how) = match ended {
            Some(Ok((status, ..))) if status.success() => (0, "no_error"),
            // A killed process has no exit code, so report -1 like Go.
            Some(Ok((status, ..))) => (status.code().unwrap_or(-1), "plugin_execution_error"),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => (1, "plugin_not_found_error"),
            Some(Err(_)) | None => (1, "client_internal_error"),
        };
        metrics.program_ran(code, how);
    }

    fn info(&self, interactive: bool) -> serde_json::Value {
        let mut spec = json!({ "interactive": interactive });
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        json!({ "apiVersion": self.config.api_version, "kind": "ExecCredential", "spec": spec })
    }

    fn read(&self, stdout: &[u8]) -> Result<Credential, AuthError> {
        let credential =
            decode(stdout).map_err(|place| self.fault(format!("its output is not an ExecCredential ({place})")))?;
        if credential.kind != "ExecCredential" || credential.api_version != self.config.api_version {
            return Err(self.fault(format!(
                "it printed {:?} of {:?}; expected an ExecCredential of {:?}",
                credential.kind, credential.api_version, self.config.api_version
            )));
        }
        let status = credential.status.ok_or_else(|| self.fault("its output has no status".into()))?;
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = some(status.token).map(Zeroizing::new);
        let token = token.map(|token| secret("token", "Bearer", &token)).transpose();
        let header: Option<HeaderValue> = token.map_err(|error| self.fault(error.to_string()))?;
        let pair = match (some(status.client_certificate_data), some(status.client_key_data)) {
            (Some(certificate), Some(key)) => {
                let key = Zeroizing::new(key.into_bytes());
                Some(Arc::new(ClientPair { certificate: certificate.into_bytes(), key }))
            }
            (None, None) => None,
            _ => {
                return Err(
                    self.fault("it printed a certificate without its key, or a key without its certificate".into())
                );
            }
        };
        if header.is_none() && pair.is_none() {
            return Err(self.fault("its output has no token and no certificate".into()));
        }
        // Reject an unusable certificate here, because the client would never send it, and the server could therefore
        // not reject it. Only a rejection makes the plugin run again.
        if let Some(Err(error)) = pair.as_deref().map(ClientPair::check) {
            return Err(AuthError::Certificate { why: error.to_string() });
        }
        Ok(Credential { header, pair, expires: status.expiration_timestamp.map(|time| time.0.into()) })
    }

    fn hint(&self) -> String {
        self.config.install_hint.as_ref().map(|hint| format!("; {}", printable(hint))).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
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

#[cfg(any(test, fuzzing))]
pub(crate) fn complaint(printed: &[u8]) -> Option<AuthError> {
    plugin(InteractiveMode::Never).read(printed).err()
}

#[cfg(any(test, fuzzing))]
fn plugin(interactive_mode: InteractiveMode) -> ExecPlugin {
    let config = ExecConfig {
        api_version: "client.authentication.k8s.io/v1".into(),
        command: "login".into(),
        args: Vec::new(),
        env: BTreeMap::new(),
        install_hint: None,
        provide_cluster_info: false,
        cluster_extension: None,
        interactive_mode,
    };
    ExecPlugin { config, policy: PluginPolicy::AllowAll, cluster: None, metrics: None }
}

/// Decodes the plugin's output. The error contains only the position of the problem, because serde's error message
/// could quote credentials.
fn decode(printed: &[u8]) -> Result<ExecCredential, String> {
    let place = |line: usize, column: usize| format!("line {line}, column {column}");
    let json = serde_json::from_slice(printed).map_err(|error| place(error.line(), error.column()));
    // If the output does not begin with a brace, it may be YAML. Limit the nesting depth and the number of directives
    // before parsing, because the running time of the YAML parser grows quadratically with both. Credentials do not
    // need deep nesting or directives.
    #[cfg(feature = "yaml")]
    if json.is_err()
        && printed.len() <= 64 << 10
        && printed.iter().filter(|byte| b"[{?%&".contains(byte)).count() <= 64
        && !printed.trim_ascii_start().starts_with(b"{")
    {
        let describe = |error: serde_yaml::Error| {
            error.location().map_or("unknown position".into(), |at| place(at.line(), at.column()))
        };
        return serde_yaml::from_slice(printed).map_err(describe);
    }
    json
}

type Output = (ExitStatus, Zeroizing<Vec<u8>>, Vec<u8>);

/// Runs a process until it exits. stdout and stderr are read concurrently, because the process blocks if one of the
/// pipes is full.
async fn output(mut command: Command) -> std::io::Result<Output> {
    let mut child = command.spawn()?;
    // Reserve the capacity before reading, because a vector that grows leaves copies of the credentials in memory.
    let (mut stdout, mut stderr) = (Zeroizing::new(Vec::with_capacity(USUAL_OUTPUT)), Vec::new());
    let status = {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut pipes = pin!(async { tokio::try_join!(read(out, &mut stdout), read(err, &mut stderr)) });
        tokio::select! {
            read = pipes.as_mut() => {
                read?;
                child.wait().await?
            }
            status = child.wait() => {
                // The process has exited, so the pipes contain all of its output, even if other processes still keep
                // the pipes open.
                if let Ok(read) = tokio::time::timeout(PIPES_GRACE, pipes).await {
                    read?;
                }
                status?
            }
        }
    };
    Ok((status, stdout, stderr))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    if let Some(pipe) = pipe {
        // If the plugin writes more than `MAX_OUTPUT` bytes, the pipe is dropped, and the next write of the plugin
        // fails.
        pipe.take(MAX_OUTPUT).read_to_end(bytes).await?;
    }
    Ok(())
}

fn cluster_info(config: &ExecConfig, client: &ClientConfig) -> Result<serde_json::Value, ConfigError> {
    use base64::Engine;
    let mut cluster = json!({
        "server": client.server,
        "insecure-skip-tls-verify": client.tls.insecure_skip_verify,
        "config": config.cluster_extension,
    });
    let ca = client.tls.ca.as_ref().map(ca_pem).transpose()?;
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = base64::prelude::BASE64_STANDARD.encode(&*ca).into();
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

/// Escapes control characters, so that a terminal does not interpret them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_is_interactive_if_allowed_and_terminal_exists() {
        for (mode, without, with) in [
            (InteractiveMode::Never, Some(false), Some(false)),
            (InteractiveMode::IfAvailable, Some(false), Some(true)),
            (InteractiveMode::Always, None, Some(true)),
        ] {
            let plugin = plugin(mode);
            let interactive = |is_interactive| plugin.info(is_interactive)["spec"]["interactive"] == true;
            let found = [false, true].map(|has_terminal| plugin.is_interactive(has_terminal).ok().map(interactive));
            assert_eq!(found, [without, with], "{mode:?}");
        }
        let error = plugin(InteractiveMode::Always).is_interactive(false).unwrap_err().to_string();
        assert!(error.contains("login") && error.contains("terminal"), "{error}");
    }
}
