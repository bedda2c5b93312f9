//! The program `pintle-apiserver`, which runs the embedded API server.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use pintle_apiserver::{ApiServer, ApiServerConfig, Controllers, ServerSnapshot, check_manifests};
use tokio::time::Instant;

/// A Kubernetes API server in a single process that needs no installation and stores no data on disk.
#[derive(Debug, Parser)]
#[command(name = "pintle-apiserver", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The address to listen on. Without --token-auth-file, every client that can connect to the address is an administrator.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::from([127, 0, 0, 1]))]
    bind: IpAddr,
    /// The port to listen on. 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serve TLS with a certificate that is generated at startup.
    #[arg(long)]
    tls: bool,
    /// The seed for names, uids, the administrator's token, and TLS keys and certificates. Two runs with the same seed use the same values.
    /// Anyone who knows the seed can derive all of these values.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Authenticate users by the tokens in this CSV file, whose lines have the form token,user,uid,"group1,group2". Without this file,
    /// every caller is an administrator.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Accept this host name of the server in requests without TLS. Only needed without --token-auth-file, if clients use a DNS name
    /// instead of an IP address, or browsers use a name other than localhost. Can be repeated.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Create the objects in this manifest, or in all manifests below this folder. Can be repeated.
    #[arg(long, value_name = "PATH")]
    load: Vec<PathBuf>,
    /// Create the custom resource definitions in this manifest, or in all manifests below this folder. The definitions are established
    /// before the objects of --load are created. Can be repeated.
    #[arg(long, value_name = "PATH")]
    crd: Vec<PathBuf>,
    /// Start with the objects in this file, if the file exists. Write all objects to the file at exit.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// The names of the controllers to run, separated by commas. Default: all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Option<Vec<ControllerName>>,
    /// Write a kubeconfig for this server to this file.
    #[arg(long, value_name = "OUT")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check CustomResourceDefinitions, the costs of their rules, and custom resources, without a server. The command fails if a manifest
    /// is rejected.
    CheckCrd {
        /// Manifests that must be accepted, or folders with such manifests.
        #[arg(value_name = "PATH", required = true)]
        valid: Vec<PathBuf>,
        /// A manifest whose objects must all be rejected, or a folder with such manifests. Can be repeated.
        #[arg(long, value_name = "PATH")]
        invalid: Vec<PathBuf>,
    },
}

/// A controller, named on the command line as in kube-controller-manager's flags, or by a short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ControllerName {
    #[value(name = "gc", alias = "garbage-collector-controller")]
    Garbage,
    #[value(name = "namespace", alias = "namespace-controller")]
    Namespaces,
    #[value(name = "clusterrole-aggregation", alias = "clusterrole-aggregation-controller")]
    Roles,
    #[value(name = "policy-status", alias = "validatingadmissionpolicy-status-controller")]
    Policies,
    /// Run no controller.
    #[value(name = "none")]
    Nothing,
}

/// The maximum time that the start waits for the controllers.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Some(Command::CheckCrd { valid, invalid }) => check_crd(valid, invalid),
        None => run(arguments).await.map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // Ignore a failed write, because standard error is the last place to report an error.
            let _ = writeln!(std::io::stderr(), "pintle-apiserver: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks manifests and prints the results. Fails if a manifest has an unexpected result.
fn check_crd(valid: &[PathBuf], invalid: &[PathBuf]) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let checked = check_manifests(&[valid, invalid].concat())?;
    let (mut stdout, mut unexpected) = (io::stdout().lock(), 0);
    for manifest in &checked {
        let must_be_rejected = invalid.iter().any(|path| manifest.path.starts_with(path));
        writeln!(stdout, "{manifest}")?;
        let is_expected = match &manifest.rejection {
            Some(rejection) => must_be_rejected && rejection.is_from_server(),
            None => !must_be_rejected,
        };
        if !is_expected {
            unexpected += 1;
            writeln!(stdout, "  expected: {}", if must_be_rejected { "rejected by the server" } else { "accepted" })?;
        }
    }
    for path in invalid.iter().filter(|path| !checked.iter().any(|manifest| manifest.path.starts_with(path))) {
        unexpected += 1;
        writeln!(stdout, "{}: no object\n  expected: rejected by the server", path.display())?;
    }
    writeln!(stdout, "{} manifests checked, {unexpected} with an unexpected result", checked.len())?;
    Ok(if unexpected == 0 && !checked.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    platform::raise_open_files();
    if arguments.token_auth_file.is_some() && !arguments.tls {
        tracing::warn!("Go clients such as kubectl send no token over plain HTTP; add --tls to authenticate them");
    }
    if arguments.token_auth_file.is_none() && !arguments.bind.is_loopback() {
        tracing::warn!(
            "every client that reaches {} is an administrator; add --token-auth-file to authenticate clients",
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
        policies: runs(ControllerName::Policies),
    };
    let config = ApiServerConfig {
        bind: arguments.bind,
        port: arguments.port,
        tls: arguments.tls,
        token_auth_file: arguments.token_auth_file,
        allowed_hosts: arguments.allow_host,
        seed: arguments.seed,
        first_revision: first_revision().max(after_snapshot),
        controllers,
        ..ApiServerConfig::default()
    };
    let server = ApiServer::start(config).await?;
    let deadline = Instant::now() + SETTLE_LIMIT;
    if let Some(snapshot) = snapshot {
        server.restore(&snapshot);
        settle(&server, deadline).await;
    }
    for path in &arguments.crd {
        server.load_path(path)?;
    }
    settle(&server, deadline).await;
    for path in &arguments.load {
        server.load_path(path)?;
    }
    if let Some(path) = arguments.kubeconfig {
        write_secret(&path, &server.kubeconfig())
            .map_err(|cause| format!("cannot write the kubeconfig {}: {cause}", path.display()))?;
    }
    // Install the signal handlers before printing the URL, because an earlier signal would end the process before the
    // snapshot is written.
    let stopped = platform::stop_signal()?;
    writeln!(std::io::stdout(), "{}", server.url())?;
    stopped.await;
    if let Some(path) = &arguments.snapshot {
        // Write the snapshot to a new file first, and then replace the old file. If writing fails, the old snapshot
        // remains.
        let new = path.with_extension("new");
        write_secret(&new, &server.snapshot().to_text())
            .and_then(|()| std::fs::rename(&new, path))
            .map_err(|cause| format!("cannot write the snapshot {}: {cause}", path.display()))?;
    }
    server.shutdown().await;
    Ok(())
}

/// Waits until the controllers have processed the loaded objects. Continues after [`SETTLE_LIMIT`], because a slow webhook
/// in a snapshot can review many deletions.
async fn settle(server: &ApiServer, deadline: Instant) {
    if tokio::time::timeout_at(deadline, server.settle()).await.is_err() {
        tracing::warn!("the controllers have not processed all loaded objects yet; an admission webhook may be slow");
    }
}

/// Writes a file with secrets, which only the owner can read. If the file already existed with a less strict mode, this
/// function changes its mode.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    platform::only_for_owner(&mut options);
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    platform::restrict_to_owner(&file)?;
    file.write_all(text.as_bytes())
}

/// Reads a snapshot, or returns `None` if the file does not exist.
fn read_snapshot(path: &Path) -> Result<Option<ServerSnapshot>, Box<dyn std::error::Error>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(ServerSnapshot::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display()).into()),
    }
}

/// Returns the server's first revision: the number of tenths of a second since the start of 2026.
///
/// This revision is higher than all revisions of an earlier server with at most ten writes per second on average.
/// Therefore, clients of the earlier server get an error for their old revisions, and list again. The revision stays
/// below 2^32 for ten years, as in real clusters. Some tools interpret revisions above 2^32 as times in the far future.
fn first_revision() -> u64 {
    const START_OF_2026: i64 = 1_767_225_600;
    let tenths = jiff::Timestamp::now().as_millisecond() / 100 - START_OF_2026 * 10;
    tenths.try_into().unwrap_or(1)
}

#[cfg(unix)]
mod platform {
    use std::fs::{File, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use tokio::signal::unix::{SignalKind, signal};

    /// Raises the open file limit to the maximum that the operating system allows. Many
    /// systems start programs with a limit of 1,024, because some programs still use `select`.
    pub(super) fn raise_open_files() {
        let limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            let raised = Rlimit { current: limit.maximum, ..limit };
            if let Err(error) = setrlimit(Resource::Nofile, raised) {
                tracing::warn!(%error, "cannot raise the limit of open files");
            }
        }
    }

    /// Installs handlers for SIGTERM and SIGINT. The returned future completes when the process receives either of
    /// these signals.
    pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        })
    }

    pub(super) fn only_for_owner(options: &mut OpenOptions) {
        options.mode(0o600);
    }

    /// Restricts access to the file to its owner, because the file may have existed with another mode. The mode of
    /// special files, such as pipes, stays unchanged.
    pub(super) fn restrict_to_owner(file: &File) -> io::Result<()> {
        if file.metadata()?.is_file() { file.set_permissions(Permissions::from_mode(0o600)) } else { Ok(()) }
    }
}

/// On Windows, there is no open file limit to raise, and new files inherit the permissions of their folder.
#[cfg(not(unix))]
mod platform {
    use std::fs::{File, OpenOptions};
    use std::io;

    pub(super) fn raise_open_files() {}

    /// Returns a future that completes when the user presses Ctrl-C.
    pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
        Ok(async {
            if let Err(error) = tokio::signal::ctrl_c().await {
                tracing::error!(%error, "cannot wait for Ctrl-C");
                std::future::pending::<()>().await;
            }
        })
    }

    pub(super) fn only_for_owner(_: &mut OpenOptions) {}

    pub(super) fn restrict_to_owner(_: &File) -> io::Result<()> {
        Ok(())
    }
}
