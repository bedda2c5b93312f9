//! The error type of this crate.

use thiserror::Error as ThisError;

/// The error that is returned if a [`Cluster`](crate::Cluster) cannot be created or used.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// No client can be created from the client configuration.
    #[error(transparent)]
    Client(pintle_restreq::ConfigError),
    /// The configuration of the election breaks a rule.
    #[error("leader election: {0}")]
    Election(pintle_leaderelect::InvalidConfig),
    /// The environment contains no client configuration, or contains an invalid one.
    #[error(transparent)]
    Kubeconfig(pintle_kubeconfig::Error),
    /// The key of a Lease is invalid.
    #[error("leader election: {0}")]
    Lease(pintle_meta::InvalidKey),
    /// The API server for the dry run of a plan could not start.
    #[cfg(feature = "apiserver")]
    #[error(transparent)]
    Plan(pintle_apiserver::PlanError),
    /// The embedded API server could not start.
    #[cfg(feature = "apiserver")]
    #[error("the embedded API server cannot start: {0}")]
    Server(pintle_apiserver::StartError),
}
