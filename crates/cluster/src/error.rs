//! The error type of the facade.

use thiserror::Error as ThisError;

/// The error of a [`Cluster`](crate::Cluster) that cannot be created or used.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// No client can be created from the client configuration.
    #[error(transparent)]
    Client(pintle_restreq::ConfigError),
    /// The configuration of the election is invalid, because it breaks a rule.
    #[error("leader election: {0}")]
    Election(pintle_leaderelect::InvalidConfig),
    /// The environment contains no client configuration, or an invalid one.
    #[error(transparent)]
    Kubeconfig(pintle_kubeconfig::Error),
    /// The key of a lease is invalid.
    #[error("leader election: {0}")]
    Lease(pintle_meta::InvalidKey),
    /// The API server for the dry run of a plan cannot start.
    #[cfg(feature = "apiserver")]
    #[error(transparent)]
    Plan(pintle_apiserver::PlanError),
    /// The embedded API server cannot start.
    #[cfg(feature = "apiserver")]
    #[error("the embedded API server cannot start: {0}")]
    Server(pintle_apiserver::StartError),
}
