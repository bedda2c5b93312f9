//! The server as a value: start it, use it, drop it.

mod activity;
mod kubeconfig;
mod listen;
mod load;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ClientConfig, PemSource, Secret};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{TokenFileError, Tokens};
use crate::config::ApiServerConfig;
use crate::faults::Faults;
use crate::registry::Registry;

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
    address: SocketAddr,
    ca: Option<String>,
    token: Option<Secret>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Up to which revision the controllers have nothing left to do.
    quiet: watch::Receiver<u64>,
}

impl ApiServer {
    /// What this server takes and does nothing about, though a real one would, each with why. Whoever writes such a thing so that it
    /// would count gets a Warning.
    pub const WITHOUT_EFFECT: &[(&str, &str)] = crate::registry::WITHOUT_EFFECT;

    /// Starts a server. When this returns, it answers. Dropping the future starts nothing.
    ///
    /// # Errors
    ///
    /// The port is taken, the token file cannot be used, or no certificate can be made.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn start(config: ApiServerConfig) -> Result<Self, StartError> {
        let mut tokens = config.token_auth_file.as_deref().map(Tokens::load).transpose().map_err(StartError::Tokens)?;
        let wanted = SocketAddr::from(([127, 0, 0, 1], config.port));
        let bound = |cause| StartError::Bind { address: wanted, cause };
        let listener = TcpListener::bind(wanted).await.map_err(bound)?;
        let address = listener.local_addr().map_err(bound)?;
        let (acceptor, ca) = match config.tls {
            true => {
                let (acceptor, ca) = tls::acceptor().map_err(StartError::Tls)?;
                (Some(acceptor), Some(ca))
            }
            false => (None, None),
        };
        let token = tokens.as_mut().map(|tokens| {
            let text = format!("{:032x}", fastrand::u128(..));
            tokens.insert(&text, crate::request::user::User::admin());
            Secret::new(text)
        });
        let registry = Arc::new(Registry::new(config, tokens));
        load::bootstrap(&registry, address);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (told, quiet) = watch::channel(0);
        tasks.spawn(crate::background::run(registry.clone(), address, stop.clone(), told));
        tasks.spawn(listen::accept(listener, acceptor, registry.clone(), stop.clone(), tasks.clone()));
        Ok(Self { registry, address, ca, token, stop, tasks, quiet })
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

    /// Creates the objects of a YAML or JSON text, in order, and returns how many it created. An object that exists already
    /// is left alone.
    ///
    /// # Errors
    ///
    /// The first object that cannot be created, and why. Those before it stay.
    pub fn load(&self, text: &str) -> Result<usize, LoadError> {
        load::text(&self.registry, text)
    }

    /// Creates the objects of each `.yaml`, `.yml` and `.json` file below a folder, in the order of their names, as
    /// [`load`](Self::load) does, and returns how many it created.
    ///
    /// # Errors
    ///
    /// The first file that cannot be read, or the first object that cannot be created, and why. Objects before it stay.
    pub fn load_dir(&self, dir: &Path) -> Result<usize, LoadError> {
        load::dir(&self.registry, dir)
    }

    /// The faults that this server is to make on purpose.
    pub fn faults(&self) -> &Faults {
        &self.registry.faults
    }

    /// Forgets the past: from now on, versions older than the present one can neither be watched from nor listed.
    pub fn compact(&self) {
        self.registry.db.compact(self.registry.db.revision());
    }

    /// Lets the server's wall clock run ahead of the machine's from now on, as on a cluster whose clocks disagree.
    pub fn set_clock_ahead(&self, ahead: Duration) {
        self.registry.clock.set_ahead(ahead);
    }

    /// The version of the last write.
    pub fn resource_version(&self) -> u64 {
        self.registry.db.revision()
    }

    /// Waits until the server's own controllers have done all that follows from the writes so far: definitions are in force,
    /// dependents gone, deleted namespaces emptied. It does not wait for what a finalizer holds back. Dropping the future has no
    /// effect.
    pub async fn settle(&self) {
        let mut quiet = self.quiet.clone();
        loop {
            let revision = self.registry.db.revision();
            // It fails only where the server ends, and nothing will follow any more.
            let Ok(reached) = quiet.wait_for(|quiet| *quiet >= revision).await.map(|reached| *reached) else { return };
            if reached >= self.registry.db.revision() {
                return;
            }
        }
    }

    /// Ends all connections and tasks, and waits until they are gone. Watches end at once. If the future is dropped, they end all
    /// the same, with nobody waiting.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
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
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, cause } => write!(f, "cannot listen on {address}: {cause}"),
            Self::Tokens(error) => error.fmt(f),
            Self::Tls(error) => write!(f, "no certificate could be made: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { cause, .. } => Some(cause),
            Self::Tokens(_) => None,
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
