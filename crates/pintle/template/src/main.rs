//! The operator's command line. The default command `run` runs the operator, and the commands `crd` and `role` print
//! manifests.

use pintle::prelude::*;
use tracing_subscriber::EnvFilter;

use website_operator::{NAME, Website, lease_role, operator, role};

#[tokio::main]
async fn main() -> pintle::Result<()> {
    match std::env::args().nth(1).as_deref() {
        None | Some("run") => {
            let filter =
                EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
            tracing_subscriber::fmt().with_env_filter(filter).init();
            // `serve` adds probes and metrics: /healthz, /readyz and /metrics.
            operator(Manager::infer(NAME)?)
                .serve(([0, 0, 0, 0], 8080))
                .run_until_signal()
                .await
        }
        Some("crd") => Ok(print!("{}", serde_yaml::to_string(&Website::crd())?)),
        Some("role") => {
            let (role, lease_role) = (
                serde_yaml::to_string(&role())?,
                serde_yaml::to_string(&lease_role())?,
            );
            Ok(print!("{role}---\n{lease_role}"))
        }
        Some(other) => {
            Err(format!("unknown command {other:?}; the commands are run, crd and role").into())
        }
    }
}
