//! A fleet of real processes, killed, stopped, paused by a signal and cut off from the server, with client-go's elector among them where
//! `PINTLE_FLEET_GO` names its program: `cargo xtask conformance --fleet` builds that. The server is an embedded one, or that of the
//! kubeconfig `PINTLE_FLEET_KUBECONFIG`.

mod proxy;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pintle::apiserver::{ApiServer, ApiServerConfig};
use proxy::Proxy;

/// A process on its way.
struct Process {
    identity: String,
    is_ours: bool,
    child: Child,
    log: PathBuf,
    proxy: Proxy,
    is_paused: bool,
}

/// What is done to the leader, until another one leads.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    /// Its input ends, so it releases.
    Stop,
    /// SIGSTOP, and SIGCONT when another one leads.
    Pause,
    CutOff,
}

struct Fleet {
    folder: PathBuf,
    lease: String,
    kubeconfig: String,
    address: String,
    go: Option<PathBuf>,
    born: usize,
    processes: Vec<Process>,
    /// The logs of those that are gone, too.
    logs: Vec<(String, PathBuf)>,
}

impl Fleet {
    async fn start(&mut self) {
        let is_ours = self.go.is_none() || self.born.is_multiple_of(2);
        let identity = format!("{}-{}", if is_ours { "ours" } else { "client-go" }, self.born);
        self.born += 1;
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

    /// Waits until somebody does something who did not lead before: its place.
    async fn leader(&self, other_than: Option<&str>) -> usize {
        let started = Instant::now();
        let seen = |process: &Process| fs::metadata(&process.log).map_or(0, |log| log.len());
        let before: Vec<u64> = self.processes.iter().map(seen).collect();
        loop {
            let grew =
                self.processes.iter().zip(&before).position(|(process, before)| {
                    other_than != Some(process.identity.as_str()) && seen(process) > *before
                });
            if let Some(index) = grew {
                return index;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "nobody leads but {other_than:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn trouble(&mut self, what: Trouble) {
        let index = self.leader(None).await;
        let leader = &mut self.processes[index];
        // client-go's goes on after a pause, until a renewal is refused: that it may act beside another one is known.
        let what = match what {
            Trouble::Pause if !leader.is_ours => Trouble::Kill,
            what => what,
        };
        let identity = leader.identity.clone();
        match what {
            Trouble::Kill => leader.child.kill().unwrap(),
            Trouble::Stop => drop(leader.child.stdin.take()),
            Trouble::Pause => leader.pause(true),
            Trouble::CutOff => leader.proxy.cut(true),
        }
        self.leader(Some(&identity)).await;
        let leader = &mut self.processes[index];
        match what {
            Trouble::Pause => return leader.pause(false),
            Trouble::CutOff => leader.proxy.cut(false),
            Trouble::Kill | Trouble::Stop => {}
        }
        // One of client-go that has lost its term ends, too.
        if !leader.is_ours || !matches!(what, Trouble::CutOff) {
            leader.child.wait().unwrap();
            self.processes.remove(index);
            self.start().await;
        }
    }

    /// The terms of all, by their first and last deeds, in order.
    fn terms(&self) -> Vec<(u128, u128, String)> {
        let mut terms = Vec::new();
        for (identity, log) in &self.logs {
            // Who never led has written nothing. One that was killed may have left half a line.
            let text = fs::read_to_string(log).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            for term in whole.split("term\n").map(str::trim).filter(|term| !term.is_empty()) {
                let mut deeds = term.lines().map(|line| line.parse::<u128>().unwrap());
                let first = deeds.next().unwrap();
                terms.push((first, deeds.next_back().unwrap_or(first), identity.clone()));
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
async fn processes_that_are_killed_paused_and_cut_off_never_act_at_a_time() {
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
    let mut fleet = Fleet { folder: folder.clone(), lease, kubeconfig, address, go, born: 0, processes, logs };
    for _ in 0..4 {
        fleet.start().await;
    }
    let troubles = [Trouble::Pause, Trouble::CutOff, Trouble::Kill, Trouble::Stop];
    for what in troubles.into_iter().cycle().take(8) {
        fleet.trouble(what).await;
    }
    fleet.leader(None).await;
    // Those that were paused, too, have had their say.
    fleet.processes.clear();
    let terms = fleet.terms();
    for pair in terms.windows(2) {
        let [(_, last, one), (first, _, other)] = pair else { continue };
        assert!(last <= first, "{one} acted for {} ms beside {other}: {terms:?}", (last - first) / 1_000_000);
    }
    assert!(terms.len() > 8, "{terms:?}");
    if let Some(server) = server {
        server.shutdown().await;
    }
    fs::remove_dir_all(folder).unwrap();
}
