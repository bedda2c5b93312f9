//! The environment variables and paths that determine where a configuration is loaded from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variables and paths for loading a configuration.
///
/// Tests can create an `Environment` with their own values. The default `Environment` has no variables and no home
/// directory, and its root directory is `/`.
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{Environment, Files};
///
/// let env = Environment { home: Some("/users/me".into()), ..Environment::default() };
/// assert_eq!(Files::new(&env).paths(), [std::path::PathBuf::from("/users/me/.kube/config")]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `KUBECONFIG`: a list of files, separated in the same way as `PATH`.
    pub kubeconfig: Option<OsString>,
    /// The home directory, which contains `.kube/config`.
    pub home: Option<PathBuf>,
    /// `KUBERNETES_SERVICE_HOST`, which Kubernetes sets in every container.
    pub service_host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`, which Kubernetes sets in every container.
    pub service_port: Option<String>,
    /// `POD_NAMESPACE`: the namespace of the pod, if the pod's manifest defines this variable.
    pub pod_namespace: Option<String>,
    /// The root directory, below which the files of a pod's service account have fixed paths.
    pub root: PathBuf,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            home: None,
            service_host: None,
            service_port: None,
            pod_namespace: None,
            root: PathBuf::from("/"),
        }
    }
}

impl Environment {
    /// Reads the environment variables of the current process.
    pub fn of_process() -> Self {
        let text = |name| std::env::var(name).ok();
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            service_host: text("KUBERNETES_SERVICE_HOST"),
            service_port: text("KUBERNETES_SERVICE_PORT"),
            pod_namespace: text("POD_NAMESPACE"),
            root: PathBuf::from("/"),
        }
    }

    pub(crate) fn service_account(&self) -> PathBuf {
        self.root.join("var/run/secrets/kubernetes.io/serviceaccount")
    }

    pub(crate) fn default_files(&self) -> Vec<PathBuf> {
        match self.kubeconfig.as_ref().filter(|list| !list.is_empty()) {
            Some(list) => {
                let mut files: Vec<PathBuf> = Vec::new();
                for file in std::env::split_paths(list) {
                    if !file.as_os_str().is_empty() && !files.contains(&file) {
                        files.push(file);
                    }
                }
                files
            }
            None => self.home.iter().map(|home| home.join(Path::new(".kube/config"))).collect(),
        }
    }
}
