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
    /// The address to listen on. Default: 127.0.0.1. On another address, every client that can reach it is an
    /// administrator, unless there is a [token file](Self::token_auth_file).
    pub bind: IpAddr,
    /// The port to listen on. Default: 0, which picks a free port.
    pub port: u16,
    /// Whether to serve TLS with a certificate generated at startup, and HTTP/2 for clients that support it. Default:
    /// no.
    pub tls: bool,
    /// A file of users and their tokens, in the CSV format of kube-apiserver: `token,user,uid,"group1,group2"`. The
    /// server reads it once, at startup. Members of `system:masters` may do everything; other users need RBAC roles.
    /// Default: no file, and every caller is an administrator.
    pub token_auth_file: Option<PathBuf>,
    /// The seed of all generated values: names, uids, the administrator's token, and TLS keys and certificates. The
    /// same seed gives the same values in each run. Default: `None`, which makes them random.
    ///
    /// - Faults with a probability use the seed, too. Without a seed, they use 0.
    /// - Service account tokens are the same only if their times are, too: set [`start_time`](Self::start_time).
    /// - Anyone who knows the seed can derive the tokens and keys.
    /// - With a seed, TLS keys are Ed25519, which browsers reject. Without a seed, they are P-256.
    pub seed: Option<u64>,
    /// The wall time at startup. Default: `None`, which uses the machine's time. From then on the server follows
    /// tokio's clock, which a test can pause.
    pub start_time: Option<SystemTime>,
    /// The interval between bookmarks of a watch that allows them. Default: one minute. Minimum: one millisecond.
    pub bookmark_interval: Duration,
    /// How many changes of its resource a watcher may lag behind before its stream is closed. Default: 4096. Minimum:
    /// 1.
    ///
    /// All watchers share one copy of the changes, so a slow watcher uses no extra memory. A watch's initial objects
    /// are available as long as all changes since then are stored. A watcher that has not read them by then is
    /// disconnected, too.
    pub watch_buffer: usize,
    /// The resource version of the server before its first write. Default: 1. Maximum: half of `u64::MAX`.
    ///
    /// A server that replaces another one needs a value above all versions that the other one returned. Its clients
    /// then learn that their versions are too old, and re-list. Otherwise they would wait for versions that they
    /// believe to have seen.
    pub first_revision: u64,
    /// How many changes to keep for each resource. Default: 100 000. Each write also drops up to a thousand changes
    /// that are older than five minutes. The last change of a resource is always kept. Watches and lists from an older
    /// version fail.
    pub history: usize,
    /// The approximate memory limit for the changes of all resources together, in bytes. Default: 256 MiB. Above it the
    /// oldest changes are dropped first, and watches that have not read them yet are closed. The last change of a
    /// resource is always kept.
    ///
    /// A separate cache of half this size has other encodings of current and past objects: protobuf, metadata only, and
    /// table rows. Above its limit it evicts encodings that were not used again. They are encoded again on demand, and
    /// twice for a list in protobuf, because that begins with its length.
    pub history_bytes: usize,
    /// The approximate memory limit for request bodies that are being received or served, in bytes. Default: 256 MiB,
    /// plus one eighth that is reserved for bodies of at most 64 KiB.
    ///
    /// Above the limit the server aborts the incomplete large body that began first. Its client gets 429 with a retry
    /// after one second. A single body may have at most 3 MiB.
    pub body_bytes: usize,
    /// The maximum number of connections. Default: 16 384. Minimum: 1. It is capped at half of the files that the
    /// process may open at startup, which leaves the other half for everything else. Further clients wait until a
    /// connection closes.
    pub connections: usize,
    /// The controllers to run. Default: all. Custom resource definitions and the Service `kubernetes` are always
    /// managed.
    pub controllers: Controllers,
    /// Whether to serve coordinated leader election, like kube-apiserver with the feature gate
    /// `CoordinatedLeaderElection` and `coordination.k8s.io/v1beta1`. Default: no, as in kube-apiserver. If enabled,
    /// LeaseCandidates are served, and leases keep `strategy` and `preferredHolder`. The server does not assign leases:
    /// that needs a controller.
    pub coordinated_leader_election: bool,
    /// Whether the server runs on its own thread with its own runtime. Default: no, it runs on the runtime that starts
    /// it. There it yields to other tasks every few milliseconds, even during long lists and with large bodies. On its
    /// own thread it delays no other task. The cost is two thread switches for each request.
    ///
    /// On its own thread the server uses the machine's clock. If a test pauses or advances tokio's clock, the
    /// server's timestamps and deadlines do not change. [The audit](crate::ApiServer::audit) uses the machine's clock,
    /// too.
    ///
    /// A paused tokio clock jumps to the next timer when its own threads are idle, even while another thread works. A
    /// call [in process](crate::ApiServer::in_process) prevents that until its response is complete, unless it is a
    /// watch. A call over a socket does not, so its deadlines can pass at once.
    pub own_thread: bool,
    /// How many of the latest requests [the audit](crate::ApiServer::audit) keeps. Default: 10 000. It keeps fewer if they take more than
    /// 32 MiB.
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
    /// Delete the dependents of deleted owners.
    pub garbage: bool,
    /// Empty deleted namespaces.
    pub namespaces: bool,
    /// Aggregate cluster roles.
    pub roles: bool,
}

impl Controllers {
    /// No controller, as in a bare API server.
    pub const NONE: Self = Self { garbage: false, namespaces: false, roles: false };
}

/// All controllers.
impl Default for Controllers {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, roles: true }
    }
}
