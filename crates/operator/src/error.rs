//! The manager's error type.

use std::net::SocketAddr;

use pintle_meta::ApiError;
use thiserror::Error;

/// The error type of [`Manager`](crate::Manager).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The cluster configuration or the leader election configuration is invalid.
    #[error(transparent)]
    Cluster(#[from] pintle_cluster::Error),
    /// A controller is misconfigured, for example with two finalizers.
    #[error("the controller {controller:?} cannot start: {problem}")]
    Controller {
        /// The controller's name.
        controller: String,
        /// The problem and how to fix it.
        problem: String,
    },
    /// The manager's name cannot be used as the name of a Lease.
    #[error(
        "the manager {0:?} cannot use leader election: a Lease cannot have this name; \
         use lower case letters, digits, '-' and '.', and begin and end with a letter or digit"
    )]
    LeaseName(String),
    /// A sharded controller has no shards.
    #[error("the sharded controller {0:?} has 0 shards, so no replica would handle its objects; use at least 1")]
    NoShards(String),
    /// A CustomResourceDefinition or a webhook configuration cannot be installed.
    #[error("cannot install the {kind} {name:?}: {cause}")]
    Install {
        /// The kind of the object, such as `CustomResourceDefinition`.
        kind: &'static str,
        /// The object's name.
        name: String,
        /// The last request's error.
        cause: Box<ApiError>,
    },
    /// The installed CustomResourceDefinition does not contain a version that this build serves, and this build must
    /// not replace it. For example, a newer build may have removed the version.
    #[error("cannot use the CustomResourceDefinition {name:?}: {problem}")]
    Definition {
        /// The CustomResourceDefinition's name.
        name: String,
        /// The reason, including the versions of both builds if they are known.
        problem: String,
    },
    /// The server did not start to serve a custom resource in time.
    #[error("the CustomResourceDefinition {name:?} is not established after {seconds} s: {reason}")]
    NotEstablished {
        /// The CustomResourceDefinition's name.
        name: String,
        /// The time that the manager waited, in seconds.
        seconds: u64,
        /// The false conditions of the definition with their messages, or the version that the server does not list.
        reason: String,
    },
    /// The server for probes and metrics cannot listen on the address.
    #[error("cannot listen on {address} for probes and metrics: {cause}")]
    Listen {
        /// The address that cannot be used.
        address: SocketAddr,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// A controller, a service or the leader election failed, or the manager did not stop within the shutdown timeout.
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
