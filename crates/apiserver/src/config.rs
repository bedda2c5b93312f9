//! The configuration of a server.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
    /// The address to listen on. Default: 127.0.0.1. Without a [token file](Self::token_auth_file), every client that can connect to the
    /// address is an administrator.
    pub bind: IpAddr,
    /// The port to listen on. Default: 0, so the system picks a free port.
    pub port: u16,
    /// Whether to serve TLS. With TLS, the server generates a certificate at startup and serves HTTP/2 to clients that support it. Default:
    /// no.
    pub tls: bool,
    /// The path of a file that contains users and their tokens. The file has the CSV format of kube-apiserver:
    /// `token,user,uid,"group1,group2"`. The server reads the file once, at startup. Members of `system:masters` have all permissions.
    /// Other users need RBAC roles. Default: no file. If this field is `None`, every caller is an administrator.
    pub token_auth_file: Option<PathBuf>,
    /// The seed for all generated values. The generated values are names, uids, the administrator's token, and TLS keys and certificates.
    /// Two runs with the same seed generate the same values. Default: `None`, so the values are random.
    ///
    /// - Fault rules with a probability also use the seed. Without a seed, the fault rules use the seed 0.
    /// - Service account tokens contain timestamps. Therefore, the tokens are the same in each run only if [`start_time`](Self::start_time)
    ///   is also set.
    /// - Anyone who knows the seed can derive the tokens and keys.
    /// - If a seed is set, the TLS keys are Ed25519 keys. Browsers reject such keys. Without a seed, the TLS keys are P-256 keys.
    pub seed: Option<u64>,
    /// The wall time at startup. Default: `None`. By default, the wall time is the machine's time. After startup, the wall time advances
    /// with tokio's clock. A test can pause tokio's clock.
    pub start_time: Option<SystemTime>,
    /// Whether the server moves long processing steps to other threads. Default: `true`. If this field is `false`, a
    /// long step blocks the thread of the runtime. In this case, the speed of other threads does not affect the order
    /// of the requests in a test.
    pub offload: bool,
    /// The interval at which a watch receives bookmarks, if the client allows bookmarks. Default: one minute. Minimum: one millisecond.
    pub bookmark_interval: Duration,
    /// The maximum number of changes by which a watcher can lag behind. The server closes the stream of a watcher that lags further behind.
    /// Only changes to objects of the watched resource count. Default: 4096. Minimum: 1.
    ///
    /// All watchers share one copy of the changes, so a slow watcher does not take extra memory. While a watcher still reads the initial
    /// objects, the server keeps a limited number of newer changes for this watcher. If the server must drop one of these changes, it
    /// closes the watcher's stream.
    pub watch_buffer: usize,
    /// The resource version of the server before its first write. Default: 1. Maximum: half of `u64::MAX`.
    ///
    /// If this server replaces an earlier server, this version must be higher than all versions that the earlier server returned. Clients
    /// of the earlier server then receive the error that their resource versions are too old, and they list again. If this version is too
    /// low, a client can start a watch at a version that the new server has not reached. Such a watch receives no events until the server
    /// has passed the version.
    pub first_revision: u64,
    /// The maximum number of changes that the server keeps for each resource. Default: 100 000. Each write also removes up to a thousand
    /// changes that are more than five minutes old. The server always keeps the last change of each resource. A watch or a list at a
    /// resource version fails if the server has dropped changes that were made after this version.
    pub history: usize,
    /// The approximate memory limit in bytes for the changes that the server keeps for all resources together. Default: 256 MiB. If the
    /// limit is exceeded, the server drops the oldest changes first. If a watch has not read a dropped change yet, the server closes the
    /// stream of this watch. The server always keeps the last change of each resource.
    ///
    /// A separate cache stores objects in encodings other than JSON. The limit of this cache is half of the limit in this field. These
    /// encodings are protobuf, objects that are reduced to their metadata, and table rows. The cache contains current and past objects.
    /// When the cache is full, it evicts encodings that have been used only once. If the server needs an evicted encoding later, it encodes
    /// the object again. For a list in protobuf, the server encodes each evicted object twice, because the length of the list precedes the
    /// objects in the response body.
    pub history_bytes: usize,
    /// The approximate memory limit in bytes for all request bodies that the server is receiving or processing. Default: 256 MiB. For
    /// bodies of at most 64 KiB, an additional eighth of this limit is reserved.
    ///
    /// If the limit is exceeded, the server aborts the oldest incomplete body that is larger than 64 KiB. The client of the aborted request
    /// receives status 429 and should retry after one second. A single body may have at most 3 MiB.
    pub body_bytes: usize,
    /// The maximum number of connections. Default: 16 384. Minimum: 1. At startup, the server reduces this number if it exceeds half of the
    /// maximum number of files that the process may open. The other half remains available to other parts of the process. When the limit is
    /// reached, new clients wait until a connection closes.
    pub connections: usize,
    /// The optional controllers to run. Default: all. The controllers for custom resource definitions and for the Service `kubernetes`
    /// always run, regardless of this field.
    pub controllers: Controllers,
    /// Whether to serve coordinated leader election, like a kube-apiserver that enables the feature gate `CoordinatedLeaderElection` and
    /// the API version `coordination.k8s.io/v1beta1`. Default: no, as in kube-apiserver. If the feature is enabled, the server serves
    /// LeaseCandidates, and leases keep `strategy` and `preferredHolder`. The server does not assign leases to candidates, because this is
    /// the task of a controller.
    pub coordinated_leader_election: bool,
    /// The addresses of Services, by `namespace/name:port`. The server has no pod network. If the client configuration of a webhook names a
    /// Service, the server connects to this address instead. The certificate must be valid for `name.namespace.svc`. Default: no addresses.
    /// A webhook whose Service has no address is not called, and the responses contain a warning.
    pub services: BTreeMap<String, SocketAddr>,
    /// Whether the server runs on a separate thread that has its own runtime. Default: no. By default, the server runs on the runtime that
    /// starts it. On a shared runtime, the server yields to other tasks every few milliseconds, even while it processes long lists or large
    /// bodies. On a separate thread, the server does not delay other tasks, but each request needs two thread switches.
    ///
    /// On a separate thread, the server uses the machine's clock. If a test pauses or advances tokio's clock, the timestamps and deadlines
    /// of such a server do not change. [The audit](crate::ApiServer::audit) also uses the machine's clock.
    ///
    /// A paused tokio clock jumps to the next timer when all threads of its runtime are idle. The clock ignores the server's separate
    /// thread, so it also jumps while this thread works. An [in-process](crate::ApiServer::in_process) request prevents this jump until its
    /// response is complete, unless the request is a watch. A request over a socket does not prevent the jump, so the client's deadlines
    /// can expire immediately.
    pub own_thread: bool,
    /// The maximum number of requests that [the audit](crate::ApiServer::audit) keeps. Default: 10 000. The audit keeps fewer requests if
    /// the records would take more than 32 MiB.
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
            offload: true,
            start_time: None,
            bookmark_interval: Duration::from_secs(60),
            watch_buffer: 4096,
            first_revision: 1,
            history: 100_000,
            history_bytes: 256 << 20,
            body_bytes: 256 << 20,
            connections: 16_384,
            controllers: Controllers::default(),
            services: BTreeMap::new(),
            coordinated_leader_election: false,
            own_thread: false,
            audit: 10_000,
        }
    }
}

/// The optional controllers of a server. Each field switches one controller on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Whether the garbage collector deletes the dependents of deleted owners.
    pub garbage: bool,
    /// Whether a controller deletes the objects in deleted namespaces.
    pub namespaces: bool,
    /// Whether a controller aggregates cluster roles.
    pub roles: bool,
    /// Whether a controller writes the status of ValidatingAdmissionPolicies. The status contains the warnings of the type check, and the
    /// generation of the policy at the time of the check.
    pub policies: bool,
}

impl Controllers {
    /// The configuration without optional controllers. A server with this configuration behaves like a kube-apiserver without
    /// kube-controller-manager.
    pub const NONE: Self = Self { garbage: false, namespaces: false, roles: false, policies: false };
}

/// Runs all controllers.
impl Default for Controllers {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, roles: true, policies: true }
    }
}
