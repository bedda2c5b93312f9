//! Finds, reads, merges, validates and writes kubeconfig files.
//!
//! ```
//! use pintle_kubeconfig::{Kubeconfig, Overrides};
//!
//! let kubeconfig = Kubeconfig::parse(
//!     "
//! current-context: blue
//! contexts: [{name: blue, context: {cluster: eu, user: me, namespace: team-a}}]
//! clusters: [{name: eu, cluster: {server: 'https://10.0.0.1:6443'}}]
//! users: [{name: me, user: {token: hush}}]
//! ",
//! )?;
//! let config = kubeconfig.client_config(&Overrides::default())?;
//! assert_eq!(config.server, "https://10.0.0.1:6443");
//! assert_eq!(config.namespace, "team-a");
//!
//! // In a program: the configuration of kubectl, or the service account of the pod.
//! # use pintle_kubeconfig::{Environment, infer};
//! let config = infer(None, &Overrides::default(), &Environment::of_process());
//! # drop(config);
//! # Ok::<(), pintle_kubeconfig::Error>(())
//! ```
//!
//! # Main types
//!
//! - A [`Kubeconfig`] contains named [`ClusterInfo`]s, [`AuthInfo`]s and [`Context`]s, which can be merged from several
//!   files.
//! - [`Files`] is a list of kubeconfig files. `Files` loads and merges these files, and writes each changed entry back
//!   to the file that contains it.
//! - [`Overrides`] replace values of the kubeconfig, usually with the values of command-line flags. An [`Environment`]
//!   contains the environment variables and paths for loading a configuration.
//! - [`infer`] and [`in_cluster`] return the [`ClientConfig`](pintle_meta::ClientConfig) for creating a client.
//! - An [`Error`] names the file and the field, and suggests a fix. A [`Problem`] describes one validation error in a
//!   kubeconfig.
//!
//! `Debug` output and error messages do not contain secrets. The crate does not cache file contents.

mod data;
mod de;
mod edit;
mod environment;
mod error;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod in_cluster;
mod oidc;
mod relative;
mod resolve;
mod types;
mod validate;
mod write;
mod yaml;

pub use data::Data;
pub use environment::Environment;
pub use error::{Error, Problem};
pub use files::Files;
pub use in_cluster::{in_cluster, infer};
pub use resolve::Overrides;
pub use types::{AuthInfo, AuthProvider, ClusterInfo, Context, Exec, ExecEnv, Kubeconfig};

// Runs the README examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
