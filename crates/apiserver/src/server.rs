//! The server as a value: start it, use it, drop it.

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

use crate::api::{Api, Settings};
use crate::auth::{TokenFileError, Tokens};
use crate::faults::Faults;

/// An API server that runs in this process until it is shut down or dropped.
#[derive(Debug)]
pub struct ApiServer {
    api: Arc<Api>,
    address: SocketAddr,
    ca: Option<String>,
    token: Option<Secret>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Up to which revision the controllers have nothing left to do.
    quiet: watch::Receiver<u64>,
}

/// How to start an [`ApiServer`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    port: u16,
    tls: bool,
    tokens: Option<PathBuf>,
    settings: Settings,
}

impl ApiServer {
    /// What to set before the start; everything may be left as it is.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server with the defaults: plain HTTP on a free loopback port, everybody an administrator.
    ///
    /// # Errors
    ///
    /// No port can be had.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// Where it listens: `http://127.0.0.1:PORT`, or `https` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// What a client has to know to reach it, as an administrator.
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

    /// Creates the objects of a YAML or JSON text, in order; an object that is there already is left alone. Dropping the future
    /// leaves those created so far.
    ///
    /// # Errors
    ///
    /// The first object that cannot be created, and why.
    pub fn load(&self, text: &str) -> Result<usize, LoadError> {
        load::text(&self.api, text)
    }

    /// Creates the objects of each `.yaml`, `.yml` and `.json` file below a folder, in the order of their names.
    ///
    /// # Errors
    ///
    /// The first file that cannot be read or created, and why.
    pub fn load_dir(&self, dir: &Path) -> Result<usize, LoadError> {
        load::dir(&self.api, dir)
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> &Faults {
        &self.api.faults
    }

    /// Forgets the past: from now on, older versions can neither be watched from nor listed.
    pub fn compact(&self) {
        self.api.db.compact(self.api.db.revision());
    }

    /// Lets the server's wall clock run ahead of the machine's from now on, as on a cluster whose clocks disagree.
    pub fn set_clock_ahead(&self, ahead: Duration) {
        self.api.clock.set_ahead(ahead);
    }

    /// The version of the last write.
    pub fn resource_version(&self) -> u64 {
        self.api.db.revision()
    }

    /// Waits until the server's own controllers have done all that follows from the writes so far: definitions are in force,
    /// dependents gone, deleted namespaces emptied. What a finalizer holds is not waited for. Dropping it has no effect.
    pub async fn settle(&self) {
        let mut quiet = self.quiet.clone();
        loop {
            let revision = self.api.db.revision();
            // It fails only where the server ends, and nothing will follow any more.
            let Ok(reached) = quiet.wait_for(|quiet| *quiet >= revision).await.map(|reached| *reached) else { return };
            if reached >= self.api.db.revision() {
                return;
            }
        }
    }

    /// Ends all connections and tasks, and waits until they are gone. Watches end at once. Dropping the future leaves the rest
    /// to the drop of the server.
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

impl Builder {
    /// Listens on that port of 127.0.0.1; 0, the default, takes a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Speaks TLS, with a certificate of its own making, and HTTP/2 where the client can.
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// Knows users by the tokens in a file, in the CSV format of the kube-apiserver: `token,user,uid,"group1,group2"`. Members of
    /// `system:masters` may do everything, others next to nothing. Without it everybody is an administrator.
    pub fn token_auth_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tokens = Some(path.into());
        self
    }

    /// Makes names and identifiers, and the dice of faults, come out the same in each run.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// How often a watch that allows bookmarks gets one; a minute unless set.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.settings.bookmark_interval = interval;
        self
    }

    /// How many events a watcher may lag before its stream is cut; 4096 unless set.
    pub fn watch_buffer(mut self, events: usize) -> Self {
        self.settings.watch_buffer = events.max(1);
        self
    }

    /// The version that the server is at before its first write; 1 unless set. A server that takes the place of another wants one
    /// above all that the other gave out: its clients then learn that they know nothing of it, where they would otherwise wait
    /// for versions that they believe to have seen.
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.settings.first_revision = revision;
        self
    }

    /// How many changes are kept for each resource; watches and lists of what is older are refused. 100 000 unless set.
    pub fn history(mut self, changes: usize) -> Self {
        self.settings.history.max_changes = changes;
        self
    }

    /// Whether dependents of deleted owners, the contents of deleted namespaces and the objects of deleted definitions are
    /// cleaned up. They are unless it is set off.
    pub fn controllers(mut self, run: bool) -> Self {
        self.settings.controllers = run;
        self
    }

    /// Starts the server. When this returns, it answers. Dropping the future starts nothing.
    ///
    /// # Errors
    ///
    /// The port is taken, or a file cannot be read.
    pub async fn start(self) -> Result<ApiServer, StartError> {
        let mut tokens = match &self.tokens {
            Some(path) => Some(Tokens::load(path).map_err(StartError::Tokens)?),
            None => None,
        };
        let wanted = SocketAddr::from(([127, 0, 0, 1], self.port));
        let bound = |cause| StartError::Bind { address: wanted, cause };
        let listener = TcpListener::bind(wanted).await.map_err(bound)?;
        let address = listener.local_addr().map_err(bound)?;
        let (acceptor, ca) = match self.tls {
            true => {
                let (acceptor, ca) = tls::acceptor().map_err(StartError::Tls)?;
                (Some(acceptor), Some(ca))
            }
            false => (None, None),
        };
        let token = tokens.as_mut().map(|tokens| {
            let text = format!("{:032x}", fastrand::u128(..));
            tokens.insert(&text, crate::auth::User::admin());
            Secret::new(text)
        });
        let api = Arc::new(Api::new(self.settings, tokens));
        load::bootstrap(&api, address);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (told, quiet) = watch::channel(0);
        tasks.spawn(crate::background::run(api.clone(), address, stop.clone(), told));
        tasks.spawn(listen::accept(listener, acceptor, api.clone(), stop.clone(), tasks.clone()));
        Ok(ApiServer { api, address, ca, token, stop, tasks, quiet })
    }
}

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be had; mostly because something else listens there.
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
    /// A document is no object of a kind that is served, or breaks a rule.
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
