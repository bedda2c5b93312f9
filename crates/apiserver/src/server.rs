//! The server as a value: start it, use it, drop it.

mod activity;
mod bootstrap;
mod framing;
mod front;
mod header_blocks;
mod heads;
mod in_process;
mod kubeconfig;
mod listen;
mod load;
mod snapshot;
mod streams;
#[cfg(test)]
mod tests;
mod thread;
mod tls;
#[cfg(test)]
mod witness;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use front::Front;
use pintle_meta::{ClientConfig, PemSource, Secret};
use tokio::net::TcpListener;
use tokio::runtime::{EnterGuard, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::ServerAudit;
use crate::auth::{TokenFileError, Tokens};
use crate::background::Background;
use crate::config::ApiServerConfig;
use crate::faults::Faults;
use crate::live::{Live, Upstream};
use crate::registry::Registry;
#[cfg(any(test, fuzzing))]
pub(crate) use header_blocks::fuzz as fuzz_header_blocks;
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
    registry: Arc<Registry>,
    /// The cluster that it is laid over, if it is.
    live: Option<Arc<Live>>,
    address: SocketAddr,
    ca: Option<String>,
    token: Option<Secret>,
    stop: CancellationToken,
    tasks: TaskTracker,
    background: Background,
    /// Its own runtime, if it has one.
    home: Option<Handle>,
}

impl ApiServer {
    /// What this server takes and does nothing about, though a real one would, each with why. Whoever writes such a thing so that it
    /// would count gets a Warning.
    pub const WITHOUT_EFFECT: &[(&str, &str)] = crate::kinds::WITHOUT_EFFECT;

    /// Starts a server. When this returns, it answers, and is ready. Dropping the future starts nothing that lasts.
    ///
    /// # Errors
    ///
    /// The port is taken, the token file cannot be used, no certificate can be made, or there is no thread to be had.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, unless it has [its own thread](ApiServerConfig::own_thread).
    pub async fn start(config: ApiServerConfig) -> Result<Self, StartError> {
        Self::over(config, None).await
    }

    /// Starts it, over another cluster if there is one.
    pub(crate) async fn over(config: ApiServerConfig, upstream: Option<Upstream>) -> Result<Self, StartError> {
        match config.own_thread {
            true => thread::start(config, upstream).await,
            false => Self::launch(config, upstream).await,
        }
    }

    /// Starts it on the present runtime.
    async fn launch(config: ApiServerConfig, upstream: Option<Upstream>) -> Result<Self, StartError> {
        let mut tokens = config.token_auth_file.as_deref().map(Tokens::load).transpose().map_err(StartError::Tokens)?;
        let wanted = SocketAddr::new(config.bind, config.port);
        let bound = |cause| StartError::Bind { address: wanted, cause };
        let listener = TcpListener::bind(wanted).await.map_err(bound)?;
        let mut address = listener.local_addr().map_err(bound)?;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let (acceptor, ca) = match config.tls {
            true => {
                let (acceptor, ca) = tls::acceptor(address.ip(), config.seed).map_err(StartError::Tls)?;
                (Some(acceptor), Some(ca))
            }
            false => (None, None),
        };
        let token = tokens.as_mut().map(|tokens| {
            let text = token(config.seed)?;
            tokens.insert(&text, crate::request::user::User::admin());
            Ok(Secret::new(text))
        });
        let token = token.transpose()?;
        let registry = Arc::new(Registry::new(config, tokens));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let live = match upstream {
            Some(upstream) => Some(Live::over(upstream, registry.clone(), stop.clone(), tasks.clone())),
            None => {
                bootstrap::bootstrap(&registry, address);
                None
            }
        };
        let given_up = stop.clone().drop_guard();
        // Ready is who has looked at all there is.
        let background = Background::start(&registry, address, &stop, &tasks).await;
        let front = Front { registry: registry.clone(), live: live.clone() };
        let most = listen::room(registry.config.connections);
        tasks.spawn(listen::accept(listener, acceptor, front, most, stop.clone(), tasks.clone()));
        given_up.disarm();
        Ok(Self { registry, live, address, ca, token, stop, tasks, background, home: None })
    }

    /// Where it listens: `http://127.0.0.1:PORT`, or `https` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// How a client reaches it, as an administrator.
    pub fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new(self.url());
        config.tls.ca = self.ca.as_ref().map(|pem| PemSource::Inline(pem.clone().into_bytes()));
        config.token = self.token.clone();
        config
    }

    /// The same as a kubeconfig file.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::render(&self.url(), self.ca.as_deref(), self.token.as_ref())
    }

    /// A way to it that needs no socket, for clients of this process.
    pub fn in_process(&self) -> InProcess {
        let front = Front { registry: self.registry.clone(), live: self.live.clone() };
        let home = self.home.clone().map(|runtime| thread::Home {
            runtime,
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
        });
        InProcess::new(front, self.token.clone(), self.stop.clone(), home)
    }

    /// Creates the objects of a YAML or JSON text, in order, and returns how many it created. An object that exists already
    /// is left alone.
    ///
    /// # Errors
    ///
    /// The first object that cannot be created, and why. Those before it stay.
    pub fn load(&self, text: &str) -> Result<usize, LoadError> {
        let _at_home = self.at_home();
        load::text(&self.registry, text)
    }

    /// Creates the objects of each `.yaml`, `.yml` and `.json` file below a folder, in the order of their names, as
    /// [`load`](Self::load) does, and returns how many it created.
    ///
    /// # Errors
    ///
    /// The first file that cannot be read, or the first object that cannot be created, and why. Objects before it stay.
    pub fn load_dir(&self, dir: &Path) -> Result<usize, LoadError> {
        let _at_home = self.at_home();
        load::dir(&self.registry, dir)
    }

    /// All objects, as they are now, and the key of the tokens of service accounts.
    pub fn snapshot(&self) -> ServerSnapshot {
        ServerSnapshot::of(&self.registry.db, self.registry.authenticator.accounts.seed())
    }

    /// Makes the objects those of a snapshot, of this server or another one, with their uids, and returns how many writes that took.
    /// Versions do not go back: what is as the snapshot has it is left alone, and what is not is deleted or made anew, under a version
    /// of its own, as those who watch are told. Tokens of service accounts that were given out before the snapshot hold on, and others no
    /// more if they were another server's. Definitions are in force, or no more, once the server has
    /// [settled](Self::settle).
    pub fn restore(&self, snapshot: &ServerSnapshot) -> usize {
        let _at_home = self.at_home();
        if let Some(key) = snapshot.token_key() {
            self.registry.authenticator.accounts.replace(key);
        }
        self.registry.db.restore(snapshot.objects())
    }

    /// The requests that were answered so far, as many as [are kept](ApiServerConfig::audit).
    pub fn audit(&self) -> ServerAudit {
        self.registry.audit.read()
    }

    /// The faults that this server is to make on purpose.
    pub fn faults(&self) -> &Faults {
        &self.registry.faults
    }

    /// Has a check of `/readyz`, `/livez` and `/healthz` fail from now on, or no more: `etcd`, `informer-sync` and so on, as
    /// `/readyz?verbose` names them. What has no such check has no effect.
    pub fn fail_check(&self, name: &str, fails: bool) {
        self.registry.health.fail(name, fails);
    }

    /// Forgets the past: from now on, versions older than the present one can neither be watched from nor listed.
    pub fn compact(&self) {
        self.registry.db.compact(self.registry.db.revision());
    }

    /// Lets the server's wall clock run ahead of the machine's from now on, as on a cluster whose clocks disagree.
    pub fn set_clock_ahead(&self, ahead: Duration) {
        self.registry.clock.set_ahead(ahead);
    }

    /// On a thread of its own, a server goes by the clock of its runtime, whoever calls.
    fn at_home(&self) -> Option<EnterGuard<'_>> {
        self.home.as_ref().map(Handle::enter)
    }

    /// What it holds, for what is built on it.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The cluster that it is laid over, if it is.
    pub(crate) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// The version of the last write.
    pub fn resource_version(&self) -> u64 {
        self.registry.db.revision()
    }

    /// Waits until the server's own controllers have done all that follows from the writes so far: definitions are in force,
    /// dependents gone, deleted namespaces emptied. It does not wait for what a finalizer holds back. Dropping the future has no
    /// effect.
    pub async fn settle(&self) {
        self.background.settle(&self.registry.db).await;
    }

    /// Ends all connections and tasks, and waits until they are gone. Watches end at once. If the future is dropped, they end all
    /// the same, with nobody waiting. A heavy body that is being worked on is worked on to the end, which may be a little later.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A token that nobody guesses, but who knows the seed.
fn token(seed: Option<u64>) -> Result<String, StartError> {
    let mut bytes = [0; 16];
    match seed {
        // Not what the uids are made of: clients see those.
        Some(seed) => fastrand::Rng::with_seed(!seed).fill(&mut bytes),
        None => aws_lc_rs::rand::fill(&mut bytes).map_err(|_| StartError::NoRandomness)?,
    }
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen on the address, mostly because something else does.
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// The token file cannot be used.
    Tokens(TokenFileError),
    /// No certificate can be made.
    Tls(Box<dyn std::error::Error + Send + Sync>),
    /// The system gives no randomness for the administrator's token.
    NoRandomness,
    /// The system gives no thread, or no runtime for it.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, cause } => write!(f, "cannot listen on {address}: {cause}"),
            Self::Tokens(error) => error.fmt(f),
            Self::Tls(error) => write!(f, "no certificate could be made: {error}"),
            Self::NoRandomness => f.write_str("the system gives no randomness for a token"),
            Self::Thread(cause) => write!(f, "the server cannot have a thread of its own: {cause}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { cause, .. } | Self::Thread(cause) => Some(cause),
            Self::Tokens(_) | Self::NoRandomness => None,
            Self::Tls(error) => Some(&**error),
        }
    }
}

/// Why a manifest cannot be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A file or folder cannot be read.
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A document is not an object of a kind that is served, or it breaks a rule.
    Refused {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// The number of the document in it, from 1.
        document: usize,
        /// Which object, and what is wrong with it.
        why: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, cause } => write!(f, "{} cannot be read: {cause}", path.display()),
            Self::Refused { path: Some(path), document, why } => {
                write!(f, "{}, document {document}: {why}", path.display())
            }
            Self::Refused { path: None, document, why } => write!(f, "document {document}: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}
