//! Starts a real etcd and kube-apiserver on the loopback interface. Both programs must be in the folder
//! `KUBEBUILDER_ASSETS`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use xshell::{Shell, TempDir, cmd};

/// A running kube-apiserver with etcd, both of which are killed on drop.
pub(crate) struct RealServer {
    port: u16,
    /// The processes, with the latest first, because kube-apiserver must end before etcd.
    processes: Vec<Killed>,
    folder: TempDir,
}

pub(crate) const TOKEN: &str = "conformance";

impl RealServer {
    /// Starts etcd and kube-apiserver with data and logs in a temporary folder. Does not wait until the
    /// servers are ready.
    pub(crate) fn start(sh: &Shell) -> anyhow::Result<Self> {
        let temporary = sh.create_temp_dir()?;
        let folder = temporary.path();
        let [etcd_port, peer_port, api_port] = [free_port()?, free_port()?, free_port()?];
        let key = folder.join("accounts.key");
        let public = folder.join("accounts.pub");
        cmd!(sh, "openssl ecparam -name prime256v1 -genkey -noout -out {key}").quiet().ignore_stderr().run()?;
        cmd!(sh, "openssl ec -in {key} -pubout -out {public}").quiet().ignore_stderr().run()?;
        // The second token is for a user without permissions, whom the client's tests need.
        let tokens = format!("{TOKEN},admin,admin-uid,\"system:masters\"\nnobody-token,nobody,nobody\n");
        fs::write(folder.join("tokens.csv"), tokens)?;
        fs::write(folder.join("kubeconfig"), kubeconfig(api_port))?;
        let mut server = Self { port: api_port, processes: Vec::new(), folder: temporary };
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        server.start_process(
            &program_path("etcd")?,
            &[
                ("data-dir", "etcd"),
                ("listen-client-urls", &etcd_url),
                ("advertise-client-urls", &etcd_url),
                ("listen-peer-urls", &format!("http://127.0.0.1:{peer_port}")),
                ("unsafe-no-fsync", "true"),
            ],
        )?;
        server.start_process(
            &program_path("kube-apiserver")?,
            &[
                ("etcd-servers", &etcd_url),
                ("secure-port", &api_port.to_string()),
                ("bind-address", "127.0.0.1"),
                ("cert-dir", "certificates"),
                ("token-auth-file", "tokens.csv"),
                ("authorization-mode", "RBAC"),
                ("service-account-issuer", "https://kubernetes.default.svc"),
                ("service-account-key-file", "accounts.pub"),
                ("service-account-signing-key-file", "accounts.key"),
                ("service-cluster-ip-range", "10.0.0.0/24"),
                // Allow privileged containers, like the embedded server.
                ("allow-privileged", "true"),
                // The ServiceAccount plugin would reject pods, because no controller creates service accounts
                // here.
                ("disable-admission-plugins", "ServiceAccount"),
            ],
        )?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.0.id()).collect()
    }

    fn start_process(&mut self, program: &Path, flags: &[(&str, &str)]) -> anyhow::Result<()> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let log = File::create(self.folder.path().join(format!("{name}.log")))?;
        let child = Command::new(program)
            .args(flags.iter().map(|(flag, value)| format!("--{flag}={value}")))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        self.processes.insert(0, Killed(child));
        Ok(())
    }
}

pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Ignore the error, because the process may already have exited.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the path of a program in the folder `KUBEBUILDER_ASSETS`.
pub(crate) fn program_path(name: &str) -> anyhow::Result<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS");
    let assets = assets.context("set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver")?;
    let path = Path::new(&assets).join(name);
    ensure!(path.is_file(), "KUBEBUILDER_ASSETS: {} does not exist", path.display());
    Ok(path)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn kubeconfig(port: u16) -> String {
    format!(
        "current-context: real\n\
         contexts: [{{name: real, context: {{cluster: real, user: admin}}}}]\n\
         clusters: [{{name: real, cluster: {{server: 'https://127.0.0.1:{port}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: admin, user: {{token: {TOKEN}}}}}]\n"
    )
}
