//! A leader election candidate as a separate process: `contender --server KUBECONFIG --lease NAME --identity NAME --log
//! FILE`.
//!
//! While it leads, the process logs its actions. Each line of the log is a time in nanoseconds since 1970 at which the
//! leadership guard allowed an action. At the end of standard input, the process releases the lease and exits.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pintle::prelude::*;
use pintle_kubeconfig::{Environment, Overrides};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name);
        at.and_then(|at| args.get(at + 1)).ok_or_else(|| format!("{name} is missing"))
    };
    let server =
        pintle_kubeconfig::infer(Some(value("--server")?.into()), &Overrides::default(), &Environment::default())?;
    let config = LeaderElectionConfig {
        identity: value("--identity")?.clone(),
        lease_duration: Duration::from_secs(4),
        renew_deadline: Duration::from_millis(2_500),
        retry_period: Duration::from_secs(1),
        events: Some(std::sync::Arc::new(|_| {})),
        ..LeaderElectionConfig::default()
    };
    let log = value("--log")?.clone();
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    std::thread::spawn(move || {
        // A read error also counts as the end of standard input.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopping.cancel();
    });
    let work = LeaderCallbacks::new(async |leadership: Leadership| {
        let mut log = OpenOptions::new().create(true).append(true).open(&log).expect("cannot open the log");
        writeln!(log, "term").expect("cannot write the log");
        while !leadership.is_cancelled() {
            // Read the time before checking the guard. A guard that is valid during the check was also valid at this
            // time, even if the process paused in between.
            let allowed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            if leadership.check().is_ok() {
                writeln!(log, "{allowed}").expect("cannot write the log");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut elector = Cluster::connect(server)?.elector(value("--lease")?.as_str(), config)?;
    elector.run(&stop, work).await;
    Ok(())
}
