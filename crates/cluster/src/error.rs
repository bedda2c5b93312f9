//! The error type of the facade.

use thiserror::Error as ThisError;

/// The error of a [`Cluster`](crate::Cluster) that cannot be made or used.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// No client can be built from the configuration.
    #[error(transparent)]
    Client(pintle_restreq::ConfigError),
    /// The election's configuration breaks a rule.
    #[error("leader election: {0}")]
    Election(pintle_leaderelect::InvalidConfig),
    /// No configuration names a cluster, or the one that does is invalid.
    #[error(transparent)]
    Kubeconfig(pintle_kubeconfig::Error),
    /// The key of a lease is invalid.
    #[error("leader election: {0}")]
    Lease(pintle_meta::InvalidKey),
    /// A plan for the cluster cannot start.
    #[cfg(feature = "apiserver")]
    #[error(transparent)]
    Plan(pintle_apiserver::PlanError),
    /// The embedded API server does not start.
    #[cfg(feature = "apiserver")]
    #[error("the embedded API server cannot start: {0}")]
    Server(pintle_apiserver::StartError),
}
