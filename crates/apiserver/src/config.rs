//! How a server runs.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How an [`ApiServer`](crate::ApiServer) runs.
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
    /// The address to listen on: 127.0.0.1. Whoever reaches another one is an administrator there, unless there is a
    /// [file of tokens](Self::token_auth_file).
    pub bind: IpAddr,
    /// The port to listen on: 0, which takes a free one.
    pub port: u16,
    /// Whether to speak TLS, with a certificate made at the start, and HTTP/2 where the client can: no.
    pub tls: bool,
    /// A file of users and their tokens, in the CSV format of the kube-apiserver: `token,user,uid,"group1,group2"`. It is read
    /// once, at the start. Members of `system:masters` may do everything; others may do what roles grant them. Without a file,
    /// which is the default, every caller is an administrator.
    pub token_auth_file: Option<PathBuf>,
    /// Makes generated names, uids, the administrator's token, and the keys and certificates of TLS the same in each run: none, which
    /// makes them random. Faults that strike with a probability follow it too; without a seed they follow 0. The tokens of service
    /// accounts are the same where their times are as well, for which there is [`start_time`](Self::start_time). Whoever knows the seed
    /// can make the tokens and the keys. These are then of Ed25519, which browsers do not take, and of P-256 without a seed.
    pub seed: Option<u64>,
    /// The wall time at the start: none, which takes the machine's. From then on it goes as tokio's clock does, which a test can pause.
    pub start_time: Option<SystemTime>,
    /// How often a watch that allows bookmarks gets one: every minute, and at most once a millisecond.
    pub bookmark_interval: Duration,
    /// How many changes of its resource a watcher may lag before its stream is cut: 4096. At least 1 counts. They are kept once for
    /// all watchers; one that is read slowly, or not at all, keeps none of them. What was there when it began is shown to it for as
    /// long as all changes since are kept; if it has not read that by then, its stream is cut too.
    pub watch_buffer: usize,
    /// The resource version of the server before its first write: 1. A server that takes the place of another needs one above
    /// all that the other gave out: its clients then learn that their versions are too old and list again, where they would
    /// otherwise wait for versions that they believe to have seen. Half of `u64::MAX` is the most that counts.
    pub first_revision: u64,
    /// How many changes are kept for each resource: 100 000. Changes older than five minutes are dropped when anything is written next,
    /// a thousand with each write, but for the last of a resource. Watches and lists from a version before those kept are refused.
    pub history: usize,
    /// What the changes kept for all resources together may take in memory, about, in bytes: 256 MiB. Beyond it the oldest are
    /// dropped first, and watches that have not come so far are cut. The last change of a resource is kept in any case. As much again is
    /// kept of objects, present and past, as they were shown in protobuf, by their metadata or in a table. Where there is no more room,
    /// what was not asked for again gives way, and is made anew for who asks; for a list in protobuf twice, which begins with its
    /// length.
    pub history_bytes: usize,
    /// What the bodies of requests that are read or served may take in memory together, about, in bytes: 256 MiB; and an eighth of that
    /// more, which bodies of more than 64 KiB leave to others. Where there is no more room, of the larger bodies that are still coming
    /// that which began first gives way: its request is answered with 429, and is to come again after a second. A body alone has at
    /// most 3 MiB.
    pub body_bytes: usize,
    /// How many connections there are at once: 16 384, and no more than half of the files that the process may have open when the
    /// server starts, so that as many are left for all else. At least 1 counts. Who comes then is heard once another has gone.
    pub connections: usize,
    /// The controllers that run: all. Custom resource definitions and the Service `kubernetes` are looked after in any case.
    pub controllers: Controllers,
    /// Whether leases are given to candidates, as by the feature gate `CoordinatedLeaderElection` of a kube-apiserver that serves
    /// `coordination.k8s.io/v1beta1`: no, as there. If so, LeaseCandidates are served, and leases keep `strategy` and
    /// `preferredHolder`. Who is given which lease, a controller has to say, which is not here.
    pub coordinated_leader_election: bool,
    /// Whether the server has a thread of its own, with a runtime of its own: no, it runs on the runtime that it is started on. There,
    /// what shares its threads has its turns every few milliseconds, however long a list and however heavy a body is; on its own thread
    /// it holds nobody up, at the price of two switches of threads a request.
    ///
    /// Its clock is then that of the machine, whatever a test does with its own: pausing or advancing that moves neither the server's
    /// timestamps nor its deadlines, and [the audit](crate::ApiServer::audit) tells its times. tokio lets a paused clock jump to the
    /// next timer whenever its own threads rest, even while another works. [In process](crate::ApiServer::in_process) a call holds it
    /// still until its answer is whole, unless it is a watch; over a socket nothing does, so deadlines of requests come at once.
    pub own_thread: bool,
    /// How many requests [the audit](crate::ApiServer::audit) keeps: 10 000, the latest; fewer where they take more than 32 MiB.
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

/// Which of a cluster's controllers a server runs, beside what it needs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Dependents of deleted owners are collected.
    pub garbage: bool,
    /// Deleted namespaces are emptied.
    pub namespaces: bool,
    /// Cluster roles are aggregated.
    pub roles: bool,
}

impl Controllers {
    /// None of them: as a bare API server.
    pub const NONE: Self = Self { garbage: false, namespaces: false, roles: false };
}

/// All of them.
impl Default for Controllers {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, roles: true }
    }
}
