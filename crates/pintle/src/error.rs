//! How the facade fails.

use thiserror::Error as ThisError;

/// Why a [`Cluster`](crate::Cluster), or what is asked of it, cannot be had.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// No client can be made of the configuration.
    #[error(transparent)]
    Client(pintle_restreq::ConfigError),
    /// The election's configuration breaks a rule.
    #[error("leader election: {0}")]
    Election(pintle_leaderelect::InvalidConfig),
    /// Nothing says which cluster is meant, or what says so is broken.
    #[error(transparent)]
    Kubeconfig(pintle_kubeconfig::Error),
    /// The text that was given for the key of a lease is none.
    #[error("leader election: {0}")]
    Lease(pintle_meta::InvalidKey),
    /// The cluster cannot be planned for.
    #[cfg(feature = "apiserver")]
    #[error(transparent)]
    Plan(pintle_apiserver::PlanError),
    /// The embedded API server does not start.
    #[cfg(feature = "apiserver")]
    #[error("the embedded API server does not start: {0}")]
    Server(pintle_apiserver::StartError),
}
