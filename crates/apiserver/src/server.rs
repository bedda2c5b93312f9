//! The running server, [`ApiServer`].

mod bootstrap;
mod front;
mod in_process;
mod kubeconfig;
mod listen;
mod load;
pub(crate) mod manifests;
mod sites;
mod snapshot;
#[cfg(test)]
mod tests;
mod thread;
#[cfg(test)]
mod witness;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use front::Front;
use pintle_authz::{TokenFileError, Tokens};
use pintle_meta::{ClientConfig, PemSource, Secret};
use pintle_serving::tls;
use pintle_serving::webhook_client::LocalWebhooks;
use ring::rand::{SecureRandom as _, SystemRandom};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::{EnterGuard, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::ServerAudit;
use crate::background::Background;
use crate::config::ApiServerConfig;
use crate::faults::Faults;
use crate::live::{Live, Upstream};
use crate::registry::Registry;
pub use in_process::{InProcess, InProcessBody};
pub use snapshot::{InvalidSnapshot, ServerSnapshot};

/// An API server that runs in this process until it is shut down or dropped.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// let before = server.resource_version();
/// server.load("{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}")?;
/// server.settle().await;
/// assert!(server.resource_version() > before);
/// assert_eq!(server.client_config().server, server.url());
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ApiServer {
    pub(crate) registry: Arc<Registry>,
    /// The upstream cluster of a [`Plan`](crate::Plan), or `None` for other servers.
    live: Option<Arc<Live>>,
    address: SocketAddr,
    ca: Option<String>,
    token: Option<Secret>,
    stop: CancellationToken,
    tasks: TaskTracker,
    background: Background,
    /// The tokio runtime on the server's own thread, or `None` if the server runs on the caller's runtime.
    own_runtime: Option<Handle>,
}

type Starting = Pin<Box<dyn Future<Output = Result<ApiServer, StartError>> + Send>>;

impl ApiServer {
    /// The objects and fields that this server accepts but ignores, unlike kube-apiserver. Each entry contains an
    /// object or field and the reason why it has no effect. The response to a write of such an object or field contains
    /// a warning.
    pub const WITHOUT_EFFECT: &[(&str, &str)] = pintle_kinds::without_effect::WITHOUT_EFFECT;

    /// Starts a server, and waits until it is ready for requests.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels all tasks that the server has started.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is in use, the token file is invalid, no
    /// certificate can be created, or a thread cannot be spawned.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime, unless the server has [its own
    /// thread](ApiServerConfig::own_thread).
    pub async fn start(config: ApiServerConfig) -> Result<Self, StartError> {
        Self::start_with_upstream(config, None).await
    }

    /// Starts a server. If `upstream` is set, the server reads objects from the upstream
    /// cluster. The server never writes to the upstream cluster.
    ///
    /// Boxing the future makes the compiler generate the code of the server in this crate instead of in each program.
    #[inline(never)]
    pub(crate) fn start_with_upstream(config: ApiServerConfig, upstream: Option<Upstream>) -> Starting {
        Box::pin(async move {
            if config.own_thread { thread::start(config, upstream).await } else { Self::launch(config, upstream).await }
        })
    }

    async fn launch(config: ApiServerConfig, upstream: Option<Upstream>) -> Result<Self, StartError> {
        let mut tokens = config.token_auth_file.as_deref().map(Tokens::load).transpose().map_err(StartError::Tokens)?;
        let wanted = SocketAddr::new(config.bind, config.port);
        let bind_error = |cause| StartError::Bind { address: wanted, cause };
        let listener = TcpListener::bind(wanted).await.map_err(bind_error)?;
        let mut address = listener.local_addr().map_err(bind_error)?;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let (acceptor, ca) = if config.tls {
            let (acceptor, ca) = tls::acceptor(address.ip(), config.seed).map_err(StartError::Tls)?;
            (Some(acceptor), Some(ca))
        } else {
            (None, None)
        };
        let token = tokens.as_mut().map(|tokens| {
            let text = token(config.seed)?;
            tokens.insert(&text, pintle_apimachinery::request::user::User::admin());
            Ok(Secret::new(text))
        });
        let token = token.transpose()?;
        let registry = Arc::new(Registry::new(config, tokens));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let live = match upstream {
            Some(upstream) => Some(Live::new(upstream, registry.clone(), stop.clone(), tasks.clone())),
            None => {
                bootstrap::bootstrap(&registry, address);
                None
            }
        };
        let stop_on_drop = stop.clone().drop_guard();
        // Wait until each controller has processed all existing objects.
        let background = Background::start(&registry, address, &stop, &tasks).await;
        let front = Front { registry: registry.clone(), live: live.clone() };
        let limit = listen::connection_limit(registry.config.connections);
        tasks.spawn(listen::accept(listener, acceptor, front, limit, stop.clone(), tasks.clone()));
        stop_on_drop.disarm();
        Ok(Self { registry, live, address, ca, token, stop, tasks, background, own_runtime: None })
    }

    /// Returns the server's URL, such as `http://127.0.0.1:PORT`. With TLS, the scheme is `https`.
    pub fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns a client configuration with an administrator's permissions.
    pub fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new(self.url());
        config.tls.ca = self.ca.as_ref().map(|pem| PemSource::Inline(pem.clone().into_bytes()));
        config.token = self.token.clone();
        config
    }

    /// Returns the text of a kubeconfig file with an administrator's permissions.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::render(&self.url(), self.ca.as_deref(), self.token.as_ref())
    }

    /// Returns a service for in-process clients, which call the server without a socket.
    pub fn in_process(&self) -> InProcess {
        let front = Front { registry: self.registry.clone(), live: self.live.clone() };
        let own_runtime = self.own_runtime.clone().map(|runtime| thread::OwnRuntime {
            runtime,
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
        });
        InProcess::new(front, self.token.clone(), self.stop.clone(), own_runtime)
    }

    /// Creates the objects in a YAML or JSON string, in order. Skips objects that already exist, and returns the number
    /// of created objects.
    ///
    /// # Errors
    ///
    /// Returns an error if an object cannot be created. The server keeps the objects that were created before the
    /// failed object, and does not create the objects after it. Also returns an error for an object that a conversion
    /// webhook must convert, because this method calls no webhooks.
    pub fn load(&self, text: &str) -> Result<usize, LoadError> {
        let _runtime = self.enter_runtime();
        load::text(&self.registry, text)
    }

    /// Creates the objects in a file, or in all `.yaml`, `.yml` and `.json` files below a folder, in the order of their
    /// paths. Each file is loaded in the same way as by [`load`](Self::load). The files must be encoded as UTF-8, or as
    /// UTF-16 with a byte order mark. Returns the number of created objects.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or an object cannot be created. The server keeps the objects that were
    /// created before the failed object, and does not create the objects after it.
    pub fn load_path(&self, path: &Path) -> Result<usize, LoadError> {
        let _runtime = self.enter_runtime();
        load::path(&self.registry, path)
    }

    /// Takes a snapshot of the server's objects and of the key that signs service account tokens.
    pub fn snapshot(&self) -> ServerSnapshot {
        ServerSnapshot::of(&self.registry.db, self.registry.authenticator.accounts.seed())
    }

    /// Replaces the server's objects with the objects of a snapshot, which can come from another server. UIDs are kept.
    /// Returns the number of writes to the store.
    ///
    /// The server's revision never decreases. Objects that are equal in the snapshot are not written. Objects that differ from the
    /// snapshot are deleted or get a new revision, and watchers receive an event for each change.
    ///
    /// If the snapshot contains a key for service account tokens, the server uses this key after the call. Service
    /// account tokens that are signed with another key become invalid.
    ///
    /// After the server has [settled](Self::settle), it serves the restored CustomResourceDefinitions and no others.
    pub fn restore(&self, snapshot: &ServerSnapshot) -> usize {
        let _runtime = self.enter_runtime();
        if let Some(key) = snapshot.token_key {
            self.registry.authenticator.accounts.replace(key);
        }
        self.registry.db.restore(&snapshot.objects)
    }

    /// Returns the audit records of the requests that the server has answered so far, at most
    /// [`ApiServerConfig::audit`] records.
    pub fn audit(&self) -> ServerAudit {
        self.registry.audit.read()
    }

    /// Returns the server's fault rules, for adding and removing rules.
    pub fn faults(&self) -> &Faults {
        &self.registry.faults
    }

    /// Returns the webhooks that the server calls without a socket. For the test kit.
    #[doc(hidden)]
    pub fn local_webhooks(&self) -> &LocalWebhooks {
        &self.registry.local_webhooks
    }

    /// Makes the health check `name` of `/readyz`, `/livez` and `/healthz` fail, or pass again if `fails` is `false`.
    /// `/readyz?verbose` lists the names of the checks, such as `etcd` or `informer-sync`. Does nothing if no health
    /// check has this name.
    pub fn fail_check(&self, name: &str, fails: bool) {
        self.registry.health.fail(name, fails);
    }

    /// Compacts the store up to the current revision. Lists at older revisions and watches from older revisions then
    /// fail.
    pub fn compact(&self) {
        self.registry.db.compact(self.registry.db.revision());
    }

    /// Simulates clock skew: sets how far the server's wall clock is ahead of the machine's clock.
    pub fn set_clock_ahead(&self, ahead: Duration) {
        self.registry.clock.set_ahead(ahead);
    }

    /// Enters the runtime of the server's own thread, if any. Until the guard is dropped, the current thread uses the
    /// clock of this runtime.
    fn enter_runtime(&self) -> Option<EnterGuard<'_>> {
        self.own_runtime.as_ref().map(Handle::enter)
    }

    pub(crate) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// Returns the revision of the server's last write.
    pub fn resource_version(&self) -> u64 {
        self.registry.db.revision()
    }

    /// Waits until the controllers of the server have processed all previous writes. When the future completes, the
    /// server serves all CustomResourceDefinitions, the dependents of deleted owners are gone, and deleted namespaces
    /// are empty. Objects with finalizers may remain. Objects whose deletion an admission webhook denies may also remain.
    /// If a webhook reviews a write of a controller, the method waits for the webhook's response or timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the controllers.
    pub async fn settle(&self) {
        self.background.settle(&self.registry.db).await;
    }

    /// Closes all of the server's connections, stops its tasks, and waits until the tasks have ended. Computations on
    /// other threads are not interrupted and may end shortly after the shutdown.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the shutdown continues.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn token(seed: Option<u64>) -> Result<String, StartError> {
    let mut bytes = [0; 16];
    match seed {
        // The token and the UIDs are derived from different seeds, because all clients can read the UIDs.
        Some(seed) => fastrand::Rng::with_seed(!seed).fill(&mut bytes),
        None => SystemRandom::new().fill(&mut bytes).map_err(|_| StartError::NoRandomness)?,
    }
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The error type of [`ApiServer::start`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen on the address. Usually, another process uses the port.
    #[error("cannot listen on {address}: {cause}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The error from the operating system.
        #[source]
        cause: io::Error,
    },
    /// The token file is invalid.
    #[error("{0}")]
    Tokens(TokenFileError),
    /// No certificate can be created.
    #[error("cannot create a certificate: {0}")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system cannot provide random bytes for the administrator's token.
    #[error("the system provides no randomness for the administrator's token")]
    NoRandomness,
    /// The system cannot provide a thread for the server, or the thread's runtime cannot be created.
    #[error("cannot start the server's own thread: {0}")]
    Thread(#[source] io::Error),
}

/// The error type of [`ApiServer::load`] and [`ApiServer::load_path`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file or folder cannot be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Unreadable {
        /// The path of the file or folder.
        path: PathBuf,
        /// The I/O or decoding error.
        cause: io::Error,
    },
    /// A document is invalid, or one of its objects cannot be created.
    #[error("{}document {document}: {why}", in_file(.path))]
    Refused {
        /// The file that contains the document, or `None` if the document was not read from a file.
        path: Option<PathBuf>,
        /// The index of the document in its text or file, starting at 1.
        document: usize,
        /// A description of the rejected object and of the reason.
        why: String,
    },
}

fn in_file(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!("{}, ", path.display())).unwrap_or_default()
}
