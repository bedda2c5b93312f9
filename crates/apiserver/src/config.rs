//! The configuration of a server.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The configuration of an [`ApiServer`](crate::ApiServer).
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
///
/// let config = ApiServerConfig {
///     tls: true,
///     seed: Some(7),
///     bookmark_interval: Duration::from_millis(100),
///     ..ApiServerConfig::default()
/// };
/// let server = ApiServer::start(config).await?;
/// assert!(server.url().starts_with("https://127.0.0.1:"));
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServerConfig {
    /// The address to listen on. Default: 127.0.0.1. Without a [token file](Self::token_auth_file), every client that can reach the address
    /// is an administrator.
    pub bind: IpAddr,
    /// The port to listen on. Default: 0, which picks a free port.
    pub port: u16,
    /// Whether to serve TLS with a certificate generated at startup, and HTTP/2 for clients that support it. Default:
    /// no.
    pub tls: bool,
    /// A file of users and their tokens, in the CSV format of kube-apiserver: `token,user,uid,"group1,group2"`. The server reads it once,
    /// at startup. Members of `system:masters` have all permissions. Other users need RBAC roles. Default: no file. In that case, every
    /// caller is an administrator.
    pub token_auth_file: Option<PathBuf>,
    /// The seed of all generated values: names, uids, the administrator's token, and TLS keys and certificates. With the same seed, they
    /// are the same in each run. Default: `None`, which makes them random.
    ///
    /// - Faults with a probability also use the seed. If there is no seed, they use the seed 0.
    /// - Tokens of service accounts contain times. They are the same in each run only if [`start_time`](Self::start_time) is also set.
    /// - Anyone who knows the seed can derive the tokens and keys.
    /// - If a seed is set, TLS keys are Ed25519 keys, which browsers reject. Without a seed, they are P-256 keys.
    pub seed: Option<u64>,
    /// The wall time at startup. Default: `None`, which uses the machine's time. After startup, the wall time advances with tokio's clock,
    /// which a test can pause.
    pub start_time: Option<SystemTime>,
    /// The interval between the bookmarks of a watch, if the watch allows bookmarks. Default: one minute. Minimum: one millisecond.
    pub bookmark_interval: Duration,
    /// The maximum number of changes by which a watcher may lag behind. Beyond this number, the server closes the stream of the watcher.
    /// Only changes of the watched resource count. Default: 4096. Minimum: 1.
    ///
    /// All watchers share one copy of the changes, so a slow watcher uses no extra memory. A watcher must read its initial objects before
    /// the server drops the first change after the start of the watch. Otherwise, the server closes the stream.
    pub watch_buffer: usize,
    /// The resource version of the server before its first write. Default: 1. Maximum: half of `u64::MAX`.
    ///
    /// A server that replaces an earlier server needs a value above all versions that the earlier server returned. Clients of the earlier
    /// server then get the error that their versions are too old, and re-list. With a lower value, watches of these clients would wait
    /// until the new server reaches their versions.
    pub first_revision: u64,
    /// The maximum number of changes to keep for each resource. Default: 100 000. In addition, each write drops up to a thousand changes
    /// that are older than five minutes. The last change of a resource is always kept. A watch or list fails if it starts at a version
    /// whose changes have been dropped.
    pub history: usize,
    /// The approximate memory limit for the changes of all resources together, in bytes. Default: 256 MiB. Above the limit, the server
    /// drops the oldest changes first. It closes each watch that has not read a dropped change yet. The last change of a resource is always
    /// kept.
    ///
    /// A separate cache of half this size stores other encodings of current and past objects: protobuf, metadata only, and table rows. When
    /// the cache is full, it evicts encodings that have been used only once. If the server needs an evicted encoding, it creates the
    /// encoding again. For a list in protobuf, the server encodes each such object twice, because the body begins with its length.
    pub history_bytes: usize,
    /// The approximate memory limit for request bodies that are being received or served, in bytes. Default: 256 MiB,
    /// plus one eighth that is reserved for bodies of at most 64 KiB.
    ///
    /// Above the limit, the server aborts the oldest large body that is still incomplete. The client of this request gets status 429, with
    /// a retry after one second. A single body may have at most 3 MiB.
    pub body_bytes: usize,
    /// The maximum number of connections. Default: 16 384. Minimum: 1. The server uses at most half of the number of files that the process
    /// may open at startup. The other half remains for all other uses. When the limit is reached, further clients wait until a connection
    /// closes.
    pub connections: usize,
    /// The optional controllers to run. Default: all. The controllers for custom resource definitions and the Service `kubernetes` always
    /// run.
    pub controllers: Controllers,
    /// Whether to serve coordinated leader election, like kube-apiserver with the feature gate `CoordinatedLeaderElection` and
    /// `coordination.k8s.io/v1beta1`. Default: no, as in kube-apiserver. If enabled, LeaseCandidates are served, and leases keep `strategy`
    /// and `preferredHolder`. The server does not assign leases, because this is the task of a controller.
    pub coordinated_leader_election: bool,
    /// Whether the server runs on a separate thread with a separate runtime. Default: no, which means that the server runs on the runtime
    /// that starts it. On that runtime, the server yields to other tasks every few milliseconds, even during long lists and with large
    /// bodies. On its own thread, the server delays no other task, but each request costs two thread switches.
    ///
    /// On its own thread, the server uses the machine's clock. If a test pauses or advances tokio's clock, this does not affect the
    /// server's timestamps and deadlines. [The audit](crate::ApiServer::audit) also uses the machine's clock.
    ///
    /// A paused tokio clock jumps to the next timer when all threads of its runtime are idle, even while the server's thread works. A call
    /// [in process](crate::ApiServer::in_process) prevents the jump until its response is complete, unless the call is a watch. A call over
    /// a socket does not prevent the jump, so the client's deadlines can pass immediately.
    pub own_thread: bool,
    /// The maximum number of requests that [the audit](crate::ApiServer::audit) keeps. Default: 10 000. The audit keeps fewer requests if
    /// they take more than 32 MiB.
    pub audit: usize,
}

impl Default for ApiServerConfig {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            tls: false,
            token_auth_file: None,
            seed: None,
            start_time: None,
            bookmark_interval: Duration::from_secs(60),
            watch_buffer: 4096,
            first_revision: 1,
            history: 100_000,
            history_bytes: 256 << 20,
            body_bytes: 256 << 20,
            connections: 16_384,
            controllers: Controllers::default(),
            coordinated_leader_election: false,
            own_thread: false,
            audit: 10_000,
        }
    }
}

/// The optional controllers that a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Whether to delete the dependents of deleted owners.
    pub garbage: bool,
    /// Whether to delete the objects in deleted namespaces.
    pub namespaces: bool,
    /// Whether to aggregate cluster roles.
    pub roles: bool,
    /// Whether to write the status of ValidatingAdmissionPolicies: the generation that was checked, and the warnings of the type check.
    pub policies: bool,
}

impl Controllers {
    /// The configuration without optional controllers. It corresponds to a kube-apiserver without kube-controller-manager.
    pub const NONE: Self = Self { garbage: false, namespaces: false, roles: false, policies: false };
}

/// Runs all controllers.
impl Default for Controllers {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, roles: true, policies: true }
    }
}
