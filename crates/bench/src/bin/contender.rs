//! A process that contends for a lease, and while it leads writes down each of its deeds: a line with the time of day in nanoseconds at
//! which it was allowed. `contender --server KUBECONFIG --lease NAME --identity NAME --log FILE`. It ends, and releases, when nobody holds
//! its input any more.

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
    let asked = stop.clone();
    std::thread::spawn(move || {
        // An input that breaks is as good as one that ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        asked.cancel();
    });
    let work = LeaderCallbacks::new(async |leadership: Leadership| {
        let mut deeds = OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        writeln!(deeds, "term").expect("a log");
        while !leadership.is_cancelled() {
            // Read before the check, so that a signal between the two does not count.
            let allowed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            if leadership.check().is_ok() {
                writeln!(deeds, "{allowed}").expect("a log");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut elector = Cluster::connect(server)?.elector(value("--lease")?.as_str(), config)?;
    elector.run(&stop, work).await;
    Ok(())
}
