//! The environment of a scenario: the server, the network proxy and the operator process.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::faults::Faults;
use pintle::apiserver::{ApiServer, AuditRecord, RequestVerb};
use pintle::prelude::*;
use tokio::time::{Instant, sleep, timeout};

use super::proxy::Proxy;
use super::website::{Spec, Website};

pub(super) struct World {
    cluster: Cluster,
    pub(super) proxy: Proxy,
    kubeconfig: PathBuf,
    command: Vec<String>,
}

/// The maximum time to wait for a scenario's result.
const PATIENCE: Duration = Duration::from_secs(90);

impl World {
    pub(super) async fn new(command: Vec<String>) -> Self {
        let cluster = Cluster::embedded().await.expect("the server starts");
        let server = cluster.server().expect("the embedded server");
        let address = server.url().trim_start_matches("http://").parse().expect("an address");
        let proxy = Proxy::start(address).await;
        let kubeconfig = std::env::temp_dir().join(format!("pintle-operators-{}.kubeconfig", std::process::id()));
        let text = server.kubeconfig().replace(&format!(":{}", address.port()), &format!(":{}", proxy.port));
        std::fs::write(&kubeconfig, text).expect("the temporary folder is writable");
        let world = Self { cluster, proxy, kubeconfig, command };
        // Install the CustomResourceDefinition, because the controller-runtime operator does not do so. The
        // operators with Pintle and kube-rs accept an existing definition.
        let definitions = world.cluster.api::<CustomResourceDefinition>();
        definitions.create(&Website::crd(), &WriteOptions::default()).await.expect("a valid definition");
        definitions.wait_for_condition("websites.example.com", &["Established"]).await.expect("it is established");
        world
    }

    pub(super) async fn end(self) {
        self.cluster.shutdown().await;
    }

    pub(super) fn start(&self) -> Process {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env("KUBECONFIG", &self.kubeconfig).env("LEASE_NAMESPACE", "default");
        command.env("PROBES", "0").env("METRICS", "0").stdout(Stdio::null());
        if std::env::var_os("VERBOSE").is_none() {
            command.stderr(Stdio::null());
        }
        Process(command.spawn().expect("the operator is a program"))
    }

    pub(super) fn faults(&self) -> &Faults {
        self.server().faults()
    }

    fn server(&self) -> &ApiServer {
        self.cluster.server().expect("the embedded server")
    }

    /// Returns the operator's requests since `since`, without watches and without requests for Leases and Events.
    pub(super) fn requests(&self, since: Instant) -> Vec<AuditRecord> {
        let all = self.server().audit();
        let is_own = |record: &&AuditRecord| {
            record.received >= since
                && !record.user_agent.starts_with("pintle-bench")
                && !["leases", "events"].contains(&&*record.resource)
        };
        all.records().iter().filter(is_own).filter(|record| record.verb != Some(RequestVerb::Watch)).cloned().collect()
    }

    pub(super) async fn create(&self, name: &str, domain: &str) {
        let site = Website {
            metadata: ObjectMeta::new("default", name),
            spec: Spec { domain: domain.to_owned() },
            status: None,
        };
        self.cluster.api().create(&site, &WriteOptions::default()).await.expect("a valid website");
    }

    /// Waits until a website is ready and its ConfigMap contains its URL, and returns the time since `from` in
    /// seconds.
    pub(super) async fn published(&self, name: &str, from: Instant) -> String {
        let sites = self.cluster.namespaced::<Website>("default");
        let maps = self.cluster.namespaced::<ConfigMap>("default");
        let wait = async {
            loop {
                let site = sites.get(name).await.expect("the website exists");
                let is_ready = site.status.is_some_and(|status| status.conditions.is_true("Ready"));
                if is_ready && maps.get(name).await.is_ok() {
                    return;
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        match timeout(PATIENCE, wait).await {
            Ok(()) => format!("{:.2} s", from.elapsed().as_secs_f64()),
            Err(_) => format!("not within {} s", PATIENCE.as_secs()),
        }
    }

    pub(super) fn maps(&self) -> Api<ConfigMap> {
        self.cluster.namespaced("default")
    }
}

/// An operator process, which is killed on drop.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn kill(mut self) {
        self.0.kill().expect("the process can be killed");
        self.0.wait().expect("the process has ended");
    }

    pub(super) async fn terminate(mut self) -> Option<ExitStatus> {
        let process = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &process]).status().expect("there is a program `kill`");
        let from = Instant::now();
        while from.elapsed() < PATIENCE {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            sleep(Duration::from_millis(2)).await;
        }
        None
    }

    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("the state of a child is known")
    }

    pub(super) fn state(&mut self) -> String {
        self.ended().map_or_else(|| "still runs".to_owned(), |status| format!("ended with {status}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ignore the error, because the process may already have exited.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
