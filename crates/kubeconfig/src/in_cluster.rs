//! Loads the configuration of a program, from a kubeconfig or from the pod's service account. [`infer`] uses the
//! service account only if no kubeconfig file exists.

use std::io;
use std::path::PathBuf;

use pintle_meta::ClientConfig;

use crate::environment::Environment;
use crate::error::Error;
use crate::files::{Files, open_regular, read_bounded};
use crate::resolve::Overrides;
use crate::types::{AuthInfo, ClusterInfo, Context, Kubeconfig};

/// The name of a pod's cluster, user and context in error messages.
const NAME: &str = "in-cluster";

/// Returns the client configuration of a program from the first available source in this list:
///
/// 1. The kubeconfig file `path`, which must exist, unless `path` is `None`.
/// 2. The files in `KUBECONFIG`, or `.kube/config` in the home directory.
/// 3. The service account of the pod.
///
/// Overrides apply to a service account in the same way as to a kubeconfig. Each override of a service account replaces
/// only one setting. For example, a client with an overridden server still uses the token of the service account.
///
/// If a source is invalid, `infer` returns an error instead of trying the next source. For example, a kubeconfig is
/// invalid if it is unreadable, or if an override chooses a missing context, cluster or user.
///
/// # Errors
///
/// Returns [`Error::Empty`] if no source of a configuration is available. Returns the error of the first available
/// source if this source is invalid.
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{Environment, Overrides, infer};
///
/// // The flags of a program, filled in from its command line.
/// let overrides = Overrides { context: Some("blue".into()), ..Overrides::default() };
/// match infer(None, &overrides, &Environment::of_process()) {
///     Ok(config) => println!("{} in {}", config.server, config.default_namespace()),
///     Err(error) if error.is_context_not_found() => eprintln!("{error}"),
///     Err(error) => eprintln!("no usable configuration: {error}"),
/// }
/// ```
pub fn infer(path: Option<PathBuf>, overrides: &Overrides, env: &Environment) -> Result<ClientConfig, Error> {
    let named = path.is_some();
    let files = path.map_or_else(|| Files::new(env), Files::explicit);
    let kubeconfig = files.load()?;
    // A service account has no named contexts, clusters or users that an override could choose.
    let overrides = &overrides.without_empty();
    let chosen = [&overrides.context, &overrides.cluster, &overrides.user].into_iter().any(Option::is_some);
    if named || chosen || !kubeconfig.is_empty() {
        return kubeconfig.client_config(overrides);
    }
    match service_account(env) {
        Ok(pod) => pod.client_config(overrides),
        // The client needs no service account if the overrides contain a server.
        Err(error) if overrides.server.is_some() && is_absent(&error) => kubeconfig.client_config(overrides),
        Err(Error::NotInCluster { .. }) => Err(Error::Empty { looked_at: files.paths().to_vec() }),
        Err(error) => Err(error),
    }
}

/// Returns the client configuration of a program in a pod, from the pod's service account and environment variables.
///
/// The configuration contains the paths of the token file and the CA file, so that a client can read them again when
/// they change. If the CA file is missing, clients use the certificate authorities of the operating system.
///
/// # Errors
///
/// - [`Error::NotInCluster`] if `env` does not contain the API server's address.
/// - [`Error::Read`] if the token file cannot be read.
/// - [`Error::Invalid`] if the CA file cannot be read or the namespace is invalid.
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{Environment, Error, in_cluster};
///
/// // Outside of a pod:
/// let error = in_cluster(&Environment::default()).unwrap_err();
/// assert!(matches!(error, Error::NotInCluster { variable: "KUBERNETES_SERVICE_HOST" }));
/// ```
pub fn in_cluster(env: &Environment) -> Result<ClientConfig, Error> {
    service_account(env)?.client_config(&Overrides::default())
}

/// Returns the service account as a kubeconfig, so that overrides work in the same way.
fn service_account(env: &Environment) -> Result<Kubeconfig, Error> {
    let set = |value: &Option<String>, variable| match value.as_deref() {
        None | Some("") => Err(Error::NotInCluster { variable }),
        Some(value) => Ok(value.to_owned()),
    };
    let host = set(&env.service_host, "KUBERNETES_SERVICE_HOST")?;
    let port = set(&env.service_port, "KUBERNETES_SERVICE_PORT")?;
    let account = env.service_account();
    let token = account.join("token");
    // Only check that the token file can be opened, because the client reads the token when it needs it.
    open_regular(&token).map_err(|cause| Error::Read { path: token.clone(), cause })?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let cluster = ClusterInfo {
        server: format!("https://{host}:{port}"),
        certificate_authority: Some(account.join("ca.crt")).filter(|path| path.is_file()),
        ..ClusterInfo::default()
    };
    let user = AuthInfo { token_file: Some(token), ..AuthInfo::default() };
    let context = Context { cluster: NAME.into(), user: NAME.into(), namespace: namespace(env), ..Context::default() };
    Ok(Kubeconfig {
        clusters: [(NAME.into(), cluster)].into(),
        users: [(NAME.into(), user)].into(),
        contexts: [(NAME.into(), context)].into(),
        current_context: NAME.into(),
        ..Kubeconfig::default()
    })
}

fn namespace(env: &Environment) -> String {
    if let Some(namespace) = env.pod_namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
        return namespace.clone();
    }
    let file = env.service_account().join("namespace");
    let text = open_regular(&file).and_then(|_| read_bounded(&file)).unwrap_or_default();
    text.trim().to_owned()
}

/// Returns `true` if the pod has no service account, and `false` if a service account file exists but cannot be read.
fn is_absent(error: &Error) -> bool {
    match error {
        Error::NotInCluster { .. } => true,
        Error::Read { cause, .. } => cause.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}
