//! The configuration of a pod. [`infer`] uses this configuration if there is no kubeconfig file.

use std::io;
use std::path::PathBuf;

use pintle_meta::ClientConfig;

use crate::environment::Environment;
use crate::error::Error;
use crate::files::{Files, open_regular, read_bounded};
use crate::resolve::Overrides;
use crate::types::{AuthInfo, ClusterInfo, Context, Kubeconfig};

/// The name that the cluster, the user and the context have in the configuration of a pod. Error messages show this
/// name.
const NAME: &str = "in-cluster";

/// Returns the client configuration for a program, from the first source that is available. The sources are, in this
/// order:
///
/// 1. The kubeconfig file at `path`, if `path` is not `None`. The file must exist.
/// 2. The files of `KUBECONFIG`, or the file `.kube/config` in the home directory.
/// 3. In a pod, the service account of the pod.
///
/// Overrides apply to a service account in the same way as to a kubeconfig. Each override replaces only its
/// own setting. For example, if only the server is overridden, the client still uses the service account's token.
///
/// An unreadable or invalid kubeconfig is an error. Overrides that choose a context, cluster or user that does not
/// exist are also an error. In both cases, the function returns the error and does not try the next source.
///
/// # Errors
///
/// Returns [`Error::Empty`] if no source is available. If a source is available but invalid, returns the errors of that
/// source.
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
    // Do not use these overrides for a service account, which has only one context, one cluster and one user.
    let overrides = &overrides.without_empty();
    let chosen = [&overrides.context, &overrides.cluster, &overrides.user].into_iter().any(Option::is_some);
    if named || chosen || !kubeconfig.is_empty() {
        return kubeconfig.client_config(overrides);
    }
    match service_account(env) {
        Ok(pod) => pod.client_config(overrides),
        // If the overrides contain a server, the client can use it without a service account.
        Err(error) if overrides.server.is_some() && is_absent(&error) => kubeconfig.client_config(overrides),
        Err(Error::NotInCluster { .. }) => Err(Error::Empty { looked_at: files.paths().to_vec() }),
        Err(error) => Err(error),
    }
}

/// Returns the client configuration of a pod, based on its service account and its environment variables.
///
/// The client configuration contains the paths of the files with the token and the CA certificates. The client can
/// therefore read these files again after their content has changed. If the file with CA certificates is missing, the
/// client uses the system's CA certificates.
///
/// # Errors
///
/// - [`Error::NotInCluster`] if the environment variables contain no address of an API server.
/// - [`Error::Read`] if the token file cannot be read.
/// - [`Error::Invalid`] if the file with CA certificates cannot be read or the namespace is invalid.
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

/// Returns the pod's service account as a kubeconfig, so that overrides apply to a service account in the same way as
/// to a kubeconfig file.
fn service_account(env: &Environment) -> Result<Kubeconfig, Error> {
    let set = |value: &Option<String>, variable| match value.as_deref() {
        None | Some("") => Err(Error::NotInCluster { variable }),
        Some(value) => Ok(value.to_owned()),
    };
    let host = set(&env.service_host, "KUBERNETES_SERVICE_HOST")?;
    let port = set(&env.service_port, "KUBERNETES_SERVICE_PORT")?;
    let account = env.service_account();
    let token = account.join("token");
    // Only check whether the token file exists. The client reads the token later.
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

/// Returns whether the error means that the pod has no service account files. The result is `false` for an error that
/// occurs when an existing file is read. A pod can run without a service account.
fn is_absent(error: &Error) -> bool {
    match error {
        Error::NotInCluster { .. } => true,
        Error::Read { cause, .. } => cause.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}
