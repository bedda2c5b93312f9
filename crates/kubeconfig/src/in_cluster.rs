use std::path::PathBuf;

use pintle_meta::{ClientConfig, PemSource};

use crate::{Environment, Error, Files, Overrides};

/// The configuration of a pod: its service account, and the API server that the environment names.
///
/// Token and authority stay files, so that a client follows their rotation. Where the authority's file is missing, the
/// system's authorities are trusted.
///
/// # Errors
///
/// [`Error::NotInCluster`] if the environment names no API server; [`Error::Read`] if the token cannot be read.
pub fn in_cluster(env: &Environment) -> Result<ClientConfig, Error> {
    let set = |value: &Option<String>, variable| match value.as_deref() {
        None | Some("") => Err(Error::NotInCluster { variable }),
        Some(value) => Ok(value.to_owned()),
    };
    let host = set(&env.service_host, "KUBERNETES_SERVICE_HOST")?;
    let port = set(&env.service_port, "KUBERNETES_SERVICE_PORT")?;
    let account = env.service_account();
    let token = account.join("token");
    // It is read by the client; here it only has to be there.
    std::fs::read(&token).map_err(|source| Error::Read { path: token.clone(), source })?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let mut config = ClientConfig::new(format!("https://{host}:{port}"));
    config.token_file = Some(token);
    config.tls.ca = Some(account.join("ca.crt")).filter(|path| path.is_file()).map(PemSource::File);
    config.namespace = namespace(env);
    Ok(config)
}

/// The configuration that a program should use where its user says no more than `path` and `overrides`.
///
/// 1. The kubeconfig at `path`, if one is named: it has to be there.
/// 2. The files of `KUBECONFIG`, or `.kube/config` in the home directory.
/// 3. In a pod, its service account.
///
/// A broken kubeconfig is an error: it is never passed over for what comes next.
///
/// # Errors
///
/// [`Error::Empty`] if there is nothing; else whatever is wrong with what there is.
pub fn infer(path: Option<PathBuf>, overrides: &Overrides, env: &Environment) -> Result<ClientConfig, Error> {
    let named = path.is_some();
    let files = path.map_or_else(|| Files::of(env), Files::explicit);
    let kubeconfig = files.load()?;
    if named || !kubeconfig.is_empty() || overrides.server.is_some() {
        return kubeconfig.client_config(overrides);
    }
    match in_cluster(env) {
        Err(Error::NotInCluster { .. }) => Err(Error::Empty { looked_at: files.paths().to_vec() }),
        Err(error) => Err(error),
        Ok(mut config) => {
            if let Some(namespace) = &overrides.namespace {
                config.namespace.clone_from(namespace);
            }
            if let Some(token) = &overrides.token {
                (config.token, config.token_file) = (Some(token.clone()), None);
            }
            if let Some(ca) = &overrides.certificate_authority {
                config.tls.ca = Some(PemSource::File(ca.clone()));
            }
            config.timeout = overrides.timeout;
            Ok(config)
        }
    }
}

fn namespace(env: &Environment) -> String {
    if let Some(namespace) = env.pod_namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
        return namespace.clone();
    }
    let file = env.service_account().join("namespace");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}
