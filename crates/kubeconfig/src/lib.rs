//! Find, read, merge, validate and write kubeconfig files.
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
//! // In a program: what kubectl would use, or the service account of the pod.
//! # use pintle_kubeconfig::{Environment, infer};
//! let config = infer(None, &Overrides::default(), &Environment::of_process());
//! # drop(config);
//! # Ok::<(), pintle_kubeconfig::Error>(())
//! ```
//!
//! # Nouns
//!
//! - [`Kubeconfig`] is the content of one file, or of several merged: [`ClusterInfo`]s, [`AuthInfo`]s and [`Context`]s by name.
//! - [`Files`] are the files that make it up; they load it and write changes back, each to where it belongs.
//! - [`Overrides`] are what the flags of a program say, which wins over the files; [`Environment`] is what its surroundings say.
//! - [`infer`] and [`in_cluster`] give a [`ClientConfig`](pintle_meta::ClientConfig), from which a client is made.
//! - [`Error`] names the file, the member and what to do; a [`Problem`] is one of many that validation found.
//!
//! Secrets have a type that does not print itself. Files are read when a function is called and at no other time; nothing is
//! cached.

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

pub use environment::Environment;
pub use error::{Error, Problem};
pub use files::Files;
pub use in_cluster::{in_cluster, infer};
pub use resolve::Overrides;
pub use types::{AuthInfo, AuthProvider, ClusterInfo, Context, Data, Exec, ExecEnv, Kubeconfig};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
