//! The error type of this crate.

use thiserror::Error as ThisError;

/// An error from creating or using a [`Cluster`](crate::Cluster).
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The client configuration is invalid.
    #[error(transparent)]
    Client(pintle_restreq::ConfigError),
    /// The election configuration is invalid.
    #[error("leader election: {0}")]
    Election(pintle_leaderelect::InvalidConfig),
    /// The environment contains no valid client configuration.
    #[error(transparent)]
    Kubeconfig(pintle_kubeconfig::Error),
    /// The key of a lock is invalid.
    #[error("leader election: {0}")]
    Lease(pintle_meta::InvalidKey),
    /// The embedded API server for a [`plan`](crate::Cluster::plan) could not start.
    #[cfg(feature = "apiserver")]
    #[error(transparent)]
    Plan(pintle_apiserver::PlanError),
    /// The embedded API server could not start.
    #[cfg(feature = "apiserver")]
    #[error("the embedded API server cannot start: {0}")]
    Server(pintle_apiserver::StartError),
}
