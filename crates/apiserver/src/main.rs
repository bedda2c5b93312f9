//! `pintle-apiserver`: the embedded API server as a program.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers, LoadError, ServerSnapshot};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// A Kubernetes API server in one process: nothing to install, nothing kept.
#[derive(Debug, Parser)]
#[command(name = "pintle-apiserver", version)]
struct Arguments {
    /// The address to listen on. Whoever reaches another than this machine's own is an administrator, unless there are tokens.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::from([127, 0, 0, 1]))]
    bind: IpAddr,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Speak TLS, with a certificate made at the start.
    #[arg(long)]
    tls: bool,
    /// Make names, uids, the administrator's token, and the keys and certificates of TLS of this number: the same in each run, and known to who knows it.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Know users by the tokens in this CSV file: token,user,uid,"group1,group2". Without it every caller is an administrator.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Create the objects of this manifest, or of all below this folder; may be given several times.
    #[arg(long, value_name = "PATH")]
    load: Vec<PathBuf>,
    /// The same for custom resource definitions: they are in force before anything else is loaded.
    #[arg(long, value_name = "PATH")]
    crd: Vec<PathBuf>,
    /// Begin with the objects of this file, if it is there, and write all of them to it in the end.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// The controllers to run, with commas between them. All by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<ControllerName>>,
    /// Write a kubeconfig for this server here.
    #[arg(long, value_name = "OUT")]
    kubeconfig: Option<PathBuf>,
}

/// A controller, by the name that the kube-controller-manager's flag has for it, or the beginning of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ControllerName {
    #[value(name = "gc", alias = "garbage-collector-controller")]
    Garbage,
    #[value(name = "namespace", alias = "namespace-controller")]
    Namespaces,
    #[value(name = "clusterrole-aggregation", alias = "clusterrole-aggregation-controller")]
    Roles,
    /// No controller at all.
    #[value(name = "none")]
    Nothing,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is all there is to tell of it.
            let _ = writeln!(std::io::stderr(), "pintle-apiserver: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    raise_open_files();
    if arguments.token_auth_file.is_some() && !arguments.tls {
        tracing::warn!(
            "clients in Go, kubectl among them, send no token over plain HTTP; add --tls for them to be known"
        );
    }
    if arguments.token_auth_file.is_none() && !arguments.bind.is_loopback() {
        tracing::warn!(
            "whoever reaches {} is an administrator; add --token-auth-file to know who asks",
            arguments.bind
        );
    }
    let snapshot = arguments.snapshot.as_deref().map(read_snapshot).transpose()?.flatten();
    let after_snapshot = snapshot.as_ref().map_or(0, |snapshot| snapshot.resource_version() + 1);
    let runs = |name| arguments.controllers.as_ref().is_none_or(|names| names.contains(&name));
    let controllers = Controllers {
        garbage: runs(ControllerName::Garbage),
        namespaces: runs(ControllerName::Namespaces),
        roles: runs(ControllerName::Roles),
    };
    let config = ApiServerConfig {
        bind: arguments.bind,
        port: arguments.port,
        tls: arguments.tls,
        token_auth_file: arguments.token_auth_file,
        seed: arguments.seed,
        first_revision: first_revision().max(after_snapshot),
        controllers,
        ..ApiServerConfig::default()
    };
    let server = ApiServer::start(config).await?;
    if let Some(snapshot) = snapshot {
        server.restore(&snapshot);
        server.settle().await;
    }
    for path in &arguments.crd {
        load(&server, path)?;
    }
    server.settle().await;
    for path in &arguments.load {
        load(&server, path)?;
    }
    if let Some(path) = arguments.kubeconfig {
        write_secret(&path, &server.kubeconfig())
            .map_err(|cause| format!("the kubeconfig {} cannot be written: {cause}", path.display()))?;
    }
    // Before anybody knows of the server: a signal that nobody waits for would end it with nothing kept.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    writeln!(std::io::stdout(), "{}", server.url())?;
    tokio::select! {
        _ = terminate.recv() => (),
        _ = interrupt.recv() => (),
    }
    if let Some(path) = &arguments.snapshot {
        // What was there stays, unless all that takes its place could be written.
        let new = path.with_extension("new");
        write_secret(&new, &server.snapshot().to_text())
            .and_then(|()| std::fs::rename(&new, path))
            .map_err(|cause| format!("the snapshot {} cannot be written: {cause}", path.display()))?;
    }
    server.shutdown().await;
    Ok(())
}

/// Raises the number of files that the process may have open as far as the system lets it. Many systems begin with 1,024, which is for the sake of
/// programs that still use `select`.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, ..limit };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}

fn load(server: &ApiServer, path: &Path) -> Result<usize, LoadError> {
    if path.is_dir() {
        return server.load_dir(path);
    }
    let unreadable = |cause| LoadError::Unreadable { path: path.to_owned(), cause };
    server.load(&std::fs::read_to_string(path).map_err(unreadable)?)
}

/// Writes a file that holds secrets: nobody but its owner may read it, whoever could before.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // One that was there keeps its mode; what is no file, such as a pipe, has none to change.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(text.as_bytes())
}

/// The snapshot in a file; none where there is no file yet.
fn read_snapshot(path: &Path) -> Result<Option<ServerSnapshot>, Box<dyn std::error::Error>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(ServerSnapshot::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display()).into()),
    }
}

/// Tenths of a second since 2026: above what an earlier server on the same port gave out, unless it wrote more than ten times a
/// second all its life, so that its clients list anew. It stays below 2^32 for a decade, like the versions of real clusters,
/// since tools take larger ones for the far future.
fn first_revision() -> u64 {
    const START_OF_2026: i64 = 1_767_225_600;
    let tenths = jiff::Timestamp::now().as_millisecond() / 100 - START_OF_2026 * 10;
    tenths.try_into().unwrap_or(1)
}
