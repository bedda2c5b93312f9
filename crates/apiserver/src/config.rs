//! The server's configuration.

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
    /// The address to listen on. Default: 127.0.0.1. If there is no [token file](Self::token_auth_file), every client
    /// that can connect to the address is an administrator.
    pub bind: IpAddr,
    /// The port to listen on. Default: 0, which selects a free port.
    pub port: u16,
    /// Whether to serve TLS. If `true`, the server generates a certificate at
    /// startup and serves HTTP/2 to clients that support it. Default: `false`.
    pub tls: bool,
    /// The path of a file with users and their tokens, in kube-apiserver's CSV format:
    /// `token,user,uid,"group1,group2"`. The server reads the file once, at startup. Members of `system:masters` have
    /// all permissions. Other users need RBAC roles. By default (`None`), every caller is an administrator.
    ///
    /// Without a token file, the server rejects requests that may come from web pages of other sites. An `Origin`
    /// header must name the server itself or this machine. Without TLS, the `Host` header must be an IP address,
    /// `localhost`, one of [`allowed_hosts`](Self::allowed_hosts), or a private name. A private name has no dot, or
    /// ends in `.internal`, `.local` or `.svc`. The server rejects private names in requests from browsers. A request
    /// with an `Accept-Language` header, which Node's `fetch` also sends, or with a `User-Agent` that starts with
    /// `Mozilla/`, is treated as a browser request.
    pub token_auth_file: Option<PathBuf>,
    /// Other host names of this server, without a port. Default: empty. This field is needed only without a token file
    /// and TLS, if clients use a DNS name of the server. Browsers also need an entry for each private name.
    pub allowed_hosts: Vec<String>,
    /// The seed for names, uids, the administrator's token, and TLS keys and certificates. Runs with the same seed
    /// generate the same values. By default (`None`), the server generates random values.
    ///
    /// - Fault rules with a probability also use the seed, or 0 if the seed is `None`.
    /// - Service account tokens contain timestamps. To generate the same tokens in each run, also set
    ///   [`start_time`](Self::start_time).
    /// - Anyone who knows the seed can derive the tokens and keys.
    /// - With a seed, the TLS keys are Ed25519 keys, which browsers reject. Without a seed, the TLS keys are P-256
    ///   keys.
    pub seed: Option<u64>,
    /// The server's wall time at startup. The wall time advances with tokio's clock, which a test can pause. By default
    /// (`None`), the wall time starts at the machine's current time.
    pub start_time: Option<SystemTime>,
    /// Whether to run long computations on other threads. Default: `true`. If `false`, long computations block the
    /// thread of the runtime. The order of requests then does not depend on the speed of other threads, which makes
    /// tests more reproducible.
    pub offload: bool,
    /// The interval between the bookmarks of a watch, if the client allows bookmarks. Default: one minute. Minimum: one
    /// millisecond.
    pub bookmark_interval: Duration,
    /// The maximum number of changes that a watcher can lag behind before the server closes its stream. Changes to
    /// other resources do not count. Default: 4096. Minimum: 1.
    ///
    /// All watchers share one copy of the changes, so a slow watcher uses no additional memory. While a watcher reads
    /// its initial objects, the server keeps a limited number of newer changes. If the server must drop a change that a
    /// watcher has not read, it closes the watcher's stream.
    pub watch_buffer: usize,
    /// The resource version of the server before its first write. Default: 1. Maximum: half of `u64::MAX`.
    ///
    /// If the server replaces an earlier server, `first_revision` must be higher than every resource version that the
    /// earlier server returned. Clients of the earlier server then receive an "expired" error, and list their objects
    /// again. If `first_revision` is too low, a client can start a watch at a version that the new server has not
    /// reached yet. Such a watch receives no events until the new server passes the start version of the watch.
    pub first_revision: u64,
    /// The maximum number of changes that the server keeps for each resource. Default: 100 000. Each write also removes
    /// up to a thousand changes that are more than five minutes old. The last change of a resource is always kept.
    /// Watches and lists at resource versions before a removed change fail.
    pub history: usize,
    /// The approximate memory limit, in bytes, for the changes that the server keeps for all resources. Default: 256
    /// MiB. Above the limit, the server drops the oldest changes first, but always keeps the last change of a resource.
    /// The server closes watches that have not yet read a dropped change.
    ///
    /// A separate cache contains current and past objects in encodings other than JSON: protobuf, metadata only, and
    /// table rows. The limit of this cache is half of `history_bytes`. A full cache first evicts encodings that have
    /// been used only once. The server encodes an object again when it needs an evicted encoding. For a list in
    /// protobuf, the server encodes each evicted object twice, because the length of all objects precedes the objects.
    pub history_bytes: usize,
    /// The approximate memory limit, in bytes, for all request bodies that the server is receiving or processing.
    /// Default: 256 MiB. An additional eighth of this limit is reserved for bodies of at most 64 KiB.
    ///
    /// Above the limit, the server aborts the oldest incomplete body that is larger than 64 KiB. The client of this
    /// body receives status 429 and should retry after one second. A single body may have at most 3 MiB.
    pub body_bytes: usize,
    /// The maximum number of connections. Default: 16 384. Minimum: 1. At startup, the server lowers the maximum to
    /// half of the open file limit of the process, so that the other half remains for other files and connections. When
    /// the maximum is reached, new clients wait until a connection closes.
    pub connections: usize,
    /// The optional controllers to run. Default: all. The controllers for
    /// custom resource definitions and for the Service `kubernetes` always run.
    pub controllers: Controllers,
    /// Whether to serve coordinated leader election, like a kube-apiserver with the feature gate
    /// `CoordinatedLeaderElection` and the API version `coordination.k8s.io/v1beta1`. Disabled by default, as in
    /// kube-apiserver. If `true`, the server serves LeaseCandidates, and Leases keep `strategy` and `preferredHolder`.
    /// The server does not assign Leases to candidates, so a separate controller must assign them.
    pub coordinated_leader_election: bool,
    /// The addresses of Services, keyed by `namespace/name:port`. Default: empty. The server has no pod network, so it
    /// connects to these addresses when the configuration of a webhook names a Service. The webhook's certificate must
    /// be valid for `name.namespace.svc`. If the map does not contain a Service, the server does not call the webhooks
    /// of the Service, and adds a warning to the response.
    pub services: BTreeMap<String, SocketAddr>,
    /// Whether the server runs on a separate thread with its own runtime. By default (`false`), the server runs on the
    /// runtime that starts it. On a shared runtime, the server yields to other tasks every few milliseconds, even while
    /// it processes long lists or large bodies. On a separate thread, the server does not delay other tasks, but each
    /// request needs two thread switches.
    ///
    /// On a separate thread, the server and its [audit](crate::ApiServer::audit) use the machine's clock.
    /// Pausing or advancing tokio's clock in a test does not affect the server's timestamps and deadlines.
    ///
    /// A paused tokio clock jumps to the next timer when its runtime is idle, even if the server's separate thread is
    /// working. An [in-process](crate::ApiServer::in_process) request other than a watch prevents the clock from
    /// jumping until its response is complete. A request over a socket does not prevent the jump, so deadlines of the
    /// client can expire immediately.
    pub own_thread: bool,
    /// The maximum number of requests in [the audit](crate::ApiServer::audit). The default is 10,000. The audit keeps
    /// fewer requests if their records would use more than 32 MiB.
    pub audit: usize,
}

impl Default for ApiServerConfig {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            tls: false,
            token_auth_file: None,
            allowed_hosts: Vec::new(),
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

/// The optional controllers of a server. All controllers run by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Whether the garbage collector deletes the dependents of deleted owners.
    pub garbage: bool,
    /// Whether a controller empties deleted namespaces.
    pub namespaces: bool,
    /// Whether a controller aggregates cluster roles, as kube-controller-manager does.
    pub roles: bool,
    /// Whether a controller writes the status of ValidatingAdmissionPolicies, which contains the warnings of the type
    /// check and the checked generation.
    pub policies: bool,
}

impl Controllers {
    /// Disables all optional controllers, so that the server behaves like a kube-apiserver without a
    /// kube-controller-manager.
    pub const NONE: Self = Self { garbage: false, namespaces: false, roles: false, policies: false };
}

impl Default for Controllers {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, roles: true, policies: true }
    }
}
