//! The error type of the facade.

use thiserror::Error as ThisError;

/// The error of a [`Cluster`](crate::Cluster) that cannot be created or used.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// No client can be created from the configuration.
    #[error(transparent)]
    Client(pintle_restreq::ConfigError),
    /// The configuration of the election breaks a rule.
    #[error("leader election: {0}")]
    Election(pintle_leaderelect::InvalidConfig),
    /// There is no client configuration in the environment, or it is invalid.
    #[error(transparent)]
    Kubeconfig(pintle_kubeconfig::Error),
    /// The key of a lease is invalid.
    #[error("leader election: {0}")]
    Lease(pintle_meta::InvalidKey),
    /// The dry-run API server of a plan cannot start.
    #[cfg(feature = "apiserver")]
    #[error(transparent)]
    Plan(pintle_apiserver::PlanError),
    /// The embedded API server does not start.
    #[cfg(feature = "apiserver")]
    #[error("the embedded API server cannot start: {0}")]
    Server(pintle_apiserver::StartError),
}
