//! The manager's error type.

use std::net::SocketAddr;

use pintle_meta::ApiError;
use thiserror::Error;

/// The error type of [`Manager`](crate::Manager).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The cluster cannot be used, or the leader election configuration is invalid.
    #[error(transparent)]
    Cluster(#[from] pintle_cluster::Error),
    /// A controller is misconfigured, for example with two finalizers.
    #[error("the controller {controller:?} cannot start: {problem}")]
    Controller {
        /// The controller's name.
        controller: String,
        /// The problem, and how to correct it.
        problem: String,
    },
    /// The manager's name is not a valid Lease name.
    #[error(
        "the manager {0:?} cannot use leader election: a Lease cannot have this name; \
         use lower case letters, digits, '-' and '.', and begin and end with a letter or digit"
    )]
    LeaseName(String),
    /// A sharded controller has zero shards.
    #[error("the sharded controller {0:?} has 0 shards, so no replica would handle its objects; use at least 1")]
    NoShards(String),
    /// A CustomResourceDefinition or webhook configuration cannot be installed.
    #[error("cannot install the {kind} {name:?}: {cause}")]
    Install {
        /// The object's kind, such as `CustomResourceDefinition`.
        kind: &'static str,
        /// The object's name.
        name: String,
        /// The last request's error.
        cause: Box<ApiError>,
    },
    /// The installed CustomResourceDefinition lacks a version that this build serves, and this build must not replace
    /// the definition. For example, a newer build has removed the version.
    #[error("cannot use the CustomResourceDefinition {name:?}: {problem}")]
    Definition {
        /// The CustomResourceDefinition's name.
        name: String,
        /// The reason, with the versions of both builds if they are known.
        problem: String,
    },
    /// The server did not serve a custom resource within the time limit.
    #[error("the CustomResourceDefinition {name:?} is not established after {seconds} s: {reason}")]
    NotEstablished {
        /// The CustomResourceDefinition's name.
        name: String,
        /// How long the manager waited, in seconds.
        seconds: u64,
        /// The definition's false conditions with their messages, or the version that the server does not list.
        reason: String,
    },
    /// The address for probes and metrics cannot be used.
    #[error("cannot listen on {address} for probes and metrics: {cause}")]
    Listen {
        /// The address that cannot be used.
        address: SocketAddr,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// A controller, a service or the election failed, or the manager did not stop within the shutdown timeout.
    #[error(transparent)]
    Manager(#[from] pintle_controller::ManagerError),
    /// The signal handlers cannot be installed.
    #[error("cannot listen for signals: {0}")]
    Signal(std::io::Error),
    /// The webhooks cannot be served, for example because the port is in use or the certificate cannot be read.
    #[cfg(feature = "webhook")]
    #[error(transparent)]
    Webhooks(#[from] pintle_webhook::WebhookServerError),
}
