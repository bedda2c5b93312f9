//! The errors of a manager.

use std::net::SocketAddr;

use pintle_meta::ApiError;
use thiserror::Error;

/// The reason why a [`Manager`](crate::Manager) failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The cluster cannot be used, or the configuration of the leader election is invalid.
    #[error(transparent)]
    Cluster(#[from] pintle_cluster::Error),
    /// A controller cannot work. For example, it has two finalizers.
    #[error("the controller {controller:?} cannot start: {problem}")]
    Controller {
        /// The name of the controller.
        controller: String,
        /// The fault, and how to correct it.
        problem: String,
    },
    /// The name of the manager cannot be the name of a Lease.
    #[error(
        "the manager {0:?} cannot use leader election: a Lease cannot have this name; \
         use lower case letters, digits, '-' and '.', and begin and end with a letter or digit"
    )]
    LeaseName(String),
    /// A sharded controller has no shards.
    #[error("the sharded controller {0:?} has 0 shards, so no replica would handle its objects; use at least 1")]
    NoShards(String),
    /// A CustomResourceDefinition, or the configuration of webhooks, cannot be installed.
    #[error("cannot install the {kind} {name:?}: {cause}")]
    Install {
        /// The kind of the object, such as `CustomResourceDefinition`.
        kind: &'static str,
        /// The name of the object.
        name: String,
        /// The error of the last request.
        cause: Box<ApiError>,
    },
    /// The installed CustomResourceDefinition lacks a version that this build serves, and this build must not replace the
    /// definition. For example, a newer build has removed the version.
    #[error("cannot use the CustomResourceDefinition {name:?}: {problem}")]
    Definition {
        /// The name of the CustomResourceDefinition.
        name: String,
        /// The reason, with the versions of both builds if they are known.
        problem: String,
    },
    /// The server did not serve a custom resource in time.
    #[error("the CustomResourceDefinition {name:?} is not established after {seconds} s: {reason}")]
    NotEstablished {
        /// The name of the CustomResourceDefinition.
        name: String,
        /// How long the manager waited.
        seconds: u64,
        /// The conditions of the definition that are false, each with its message.
        reason: String,
    },
    /// The address for probes and metrics cannot be used.
    #[error("cannot listen on {address} for probes and metrics: {cause}")]
    Listen {
        /// The address that cannot be used.
        address: SocketAddr,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// A controller, a service or the election failed, or the manager did not stop in time.
    #[error(transparent)]
    Manager(#[from] pintle_controller::ManagerError),
    /// The handlers for signals cannot be installed.
    #[error("cannot listen for signals: {0}")]
    Signal(std::io::Error),
    /// The webhooks cannot be served. For example, the port is in use, or the certificate cannot be read.
    #[cfg(feature = "webhook")]
    #[error(transparent)]
    Webhooks(#[from] pintle_webhook::WebhookServerError),
}
