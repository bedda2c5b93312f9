//! Tests with a fleet of real processes that compete for a lease. The tests kill, stop and pause these processes,
//! and disconnect them from the server.
//!
//! If `PINTLE_FLEET_GO` is the path of a client-go program, half of the processes run that program. `cargo xtask
//! conformance --fleet` builds the program. The tests use the server in the kubeconfig `PINTLE_FLEET_KUBECONFIG` if
//! it is set, and otherwise the embedded server.

mod proxy;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pintle::apiserver::{ApiServer, ApiServerConfig};
use proxy::Proxy;

struct Process {
    identity: String,
    is_ours: bool,
    child: Child,
    log: PathBuf,
    proxy: Proxy,
    is_paused: bool,
}

/// A disruption of the leader, which ends when another process has become the leader.
#[derive(Clone, Copy, Debug)]
enum Disruption {
    Kill,
    /// Closes the standard input of the process, which then releases the lease.
    Stop,
    /// Sends SIGSTOP to the process, and sends SIGCONT when another process has become the leader.
    Pause,
    Disconnect,
}

struct Fleet {
    folder: PathBuf,
    lease: String,
    kubeconfig: String,
    address: String,
    go: Option<PathBuf>,
    started: usize,
    processes: Vec<Process>,
    /// The identities and log files of all processes, including those that have exited.
    logs: Vec<(String, PathBuf)>,
}

impl Fleet {
    async fn start(&mut self) {
        let is_ours = self.go.is_none() || self.started.is_multiple_of(2);
        let identity = format!("{}-{}", if is_ours { "ours" } else { "client-go" }, self.started);
        self.started += 1;
        let server = self.address.parse().unwrap();
        let proxy = Proxy::start(server).await;
        let kubeconfig = self.folder.join(format!("{identity}.kubeconfig"));
        fs::write(&kubeconfig, self.kubeconfig.replace(&self.address, &format!("127.0.0.1:{}", proxy.port))).unwrap();
        let log = self.folder.join(format!("{identity}.log"));
        let program = self.go.as_deref().filter(|_| !is_ours).unwrap_or(Path::new(env!("CARGO_BIN_EXE_contender")));
        let mut command = Command::new(program);
        command.args(["--lease", &self.lease, "--identity", &identity]).arg("--server").arg(&kubeconfig);
        command.arg("--log").arg(&log).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        self.logs.push((identity.clone(), log.clone()));
        self.processes.push(Process { identity, is_ours, child, log, proxy, is_paused: false });
    }

    /// Waits until a process other than `other_than` acts as the leader, and returns its index.
    async fn leader(&self, other_than: Option<&str>) -> usize {
        let begin = Instant::now();
        let log_length = |process: &Process| fs::metadata(&process.log).map_or(0, |log| log.len());
        let before: Vec<u64> = self.processes.iter().map(log_length).collect();
        loop {
            let grew = self.processes.iter().zip(&before).position(|(process, before)| {
                other_than != Some(process.identity.as_str()) && log_length(process) > *before
            });
            if let Some(index) = grew {
                return index;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "no process leads except {other_than:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn disrupt(&mut self, disruption: Disruption) {
        let index = self.leader(None).await;
        let leader = &mut self.processes[index];
        // After a pause, client-go's elector continues to act until a renewal fails, even if another process leads.
        // This behavior is known, so the tests kill client-go processes instead of pausing them.
        let disruption = match disruption {
            Disruption::Pause if !leader.is_ours => Disruption::Kill,
            disruption => disruption,
        };
        let identity = leader.identity.clone();
        match disruption {
            Disruption::Kill => leader.child.kill().unwrap(),
            Disruption::Stop => drop(leader.child.stdin.take()),
            Disruption::Pause => leader.pause(true),
            Disruption::Disconnect => leader.proxy.cut(true),
        }
        self.leader(Some(&identity)).await;
        let leader = &mut self.processes[index];
        match disruption {
            Disruption::Pause => return leader.pause(false),
            Disruption::Disconnect => leader.proxy.cut(false),
            Disruption::Kill | Disruption::Stop => {}
        }
        // A client-go process exits when it loses its lease.
        if !leader.is_ours || !matches!(disruption, Disruption::Disconnect) {
            leader.child.wait().unwrap();
            self.processes.remove(index);
            self.start().await;
        }
    }

    /// Returns the times of the first and last action of each leadership term, and the leader's identity. The terms
    /// are sorted by their first action.
    fn terms(&self) -> Vec<(u128, u128, String)> {
        let mut terms = Vec::new();
        for (identity, log) in &self.logs {
            // A process that has never led has no log. The log of a killed process may end with an incomplete line.
            let text = fs::read_to_string(log).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            for term in whole.split("term\n").map(str::trim).filter(|term| !term.is_empty()) {
                let mut actions = term.lines().map(|line| line.parse::<u128>().unwrap());
                let first = actions.next().unwrap();
                terms.push((first, actions.next_back().unwrap_or(first), identity.clone()));
            }
        }
        terms.sort();
        terms
    }
}

impl Process {
    fn pause(&mut self, pause: bool) {
        let signal = if pause { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
        self.is_paused = pause;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_paused {
            self.pause(false);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_paused_and_disconnected_processes_never_overlap() {
    let folder = env::temp_dir().join(format!("pintle-fleet-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (server, kubeconfig) = match env::var_os("PINTLE_FLEET_KUBECONFIG") {
        Some(path) => (None, fs::read_to_string(path).unwrap()),
        None => {
            let config = ApiServerConfig { tls: true, ..ApiServerConfig::default() };
            let server = ApiServer::start(config).await.unwrap();
            let kubeconfig = server.kubeconfig();
            (Some(server), kubeconfig)
        }
    };
    let (_, address) = kubeconfig.split_once("https://").unwrap();
    let address = address.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').next().unwrap().to_owned();
    let lease = format!("default/fleet-{}", std::process::id());
    let go = env::var_os("PINTLE_FLEET_GO").map(PathBuf::from);
    let (processes, logs) = (Vec::new(), Vec::new());
    let mut fleet = Fleet { folder: folder.clone(), lease, kubeconfig, address, go, started: 0, processes, logs };
    for _ in 0..4 {
        fleet.start().await;
    }
    let disruptions = [Disruption::Pause, Disruption::Disconnect, Disruption::Kill, Disruption::Stop];
    for disruption in disruptions.into_iter().cycle().take(8) {
        fleet.disrupt(disruption).await;
    }
    fleet.leader(None).await;
    // All paused processes have resumed by now, so the logs contain all actions.
    fleet.processes.clear();
    let terms = fleet.terms();
    for pair in terms.windows(2) {
        let [(_, last, one), (first, _, other)] = pair else { continue };
        assert!(last <= first, "{one} and {other} overlapped for {} ms: {terms:?}", (last - first) / 1_000_000);
    }
    assert!(terms.len() > 8, "{terms:?}");
    if let Some(server) = server {
        server.shutdown().await;
    }
    fs::remove_dir_all(folder).unwrap();
}
