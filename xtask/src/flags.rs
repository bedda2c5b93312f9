//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser};

/// The project's own development tools.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
pub(crate) enum Xtask {
    Bench(Bench),
    Ci(Ci),
    NewOperator(NewOperator),
    /// Check the repository's own rules.
    Tidy,
    /// Build the rustdoc site.
    Docs,
    Conformance(Conformance),
}

/// Run the side-by-side benchmarks of one area and print the table.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The area to run. `cargo xtask bench --list` prints all areas.
    pub(crate) area: Option<String>,
    /// List the areas.
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the rows to this file as JSON. JSON output needs at least 9 runs, like --docs.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write AREA.md, AREA.svg and AREA.json in docs/bench from the same rows. This option needs a clean working tree.
    #[arg(long)]
    pub(crate) docs: bool,
    /// Print profiles of our side of the workloads that miss a goal. This option needs the program perf.
    #[arg(long)]
    pub(crate) profile: bool,
    /// Run only the workloads whose name contains this text.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// The number of runs of each side [default: 9].
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<usize>,
    /// Run each side once on a small part of each workload, as a smoke test.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Run all checks of the project, and print one line per step.
#[derive(Args, Debug)]
pub(crate) struct Ci {
    /// Run only this step. To run several steps, repeat the flag.
    #[arg(long, value_name = "STEP")]
    pub(crate) only: Vec<String>,
    /// Also run the steps that take long and rarely fail. `cargo xtask ci --list` shows which steps these are.
    #[arg(long)]
    pub(crate) full: bool,
    /// List the steps.
    #[arg(long)]
    pub(crate) list: bool,
}

/// Create the project of an operator outside of this workspace, from crates/pintle/template.
#[derive(Args, Debug)]
pub(crate) struct NewOperator {
    /// The name of the project, in kebab-case, such as website-operator.
    pub(crate) name: String,
    /// The folder of the project [default: NAME next to this repository].
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
}

/// Replay recorded cases of a real kube-apiserver (crates/conformance).
#[derive(Args, Debug)]
pub(crate) struct Conformance {
    /// Replay the cases against the embedded server, or against the server at --url.
    #[arg(long)]
    pub(crate) server: bool,
    /// Run the client's scenarios on the kube-apiserver and etcd in the folder KUBEBUILDER_ASSETS. The scenarios
    /// need openssl.
    #[arg(long)]
    pub(crate) client: bool,
    /// Run a fleet of electors on the server in KUBEBUILDER_ASSETS or on the embedded server. Half of the electors
    /// use client-go if `go` is installed.
    #[arg(long)]
    pub(crate) fleet: bool,
    /// Run the scenario of a controller on the embedded server with other clients: kubectl, client-go, kube, Python,
    /// JavaScript, fabric8.
    #[arg(long)]
    pub(crate) clients: bool,
    /// With --clients, count a client as failed if its tool is not installed.
    #[arg(long)]
    pub(crate) all: bool,
    /// Compare the embedded server with the kube-apiserver in KUBEBUILDER_ASSETS on the manifests below this folder
    /// (docs/CONFORMANCE.md).
    #[arg(long, value_name = "DIR")]
    pub(crate) compare: Option<PathBuf>,
    /// Run only cases whose name contains this text, without checking the list of failing cases. With --clients, run
    /// only these clients, separated by commas, and count a skipped client as failed.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Further flags of the replay program, after all other flags: --url, --token, --ca, --insecure, --verbose,
    /// --at-once, --update, --cases, --pack. `cargo run --package pintle-conformance -- --help` describes these
    /// flags.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, conflicts_with_all = ["client", "fleet", "clients"])]
    pub(crate) replay: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_replay_are_forwarded() {
        let parse = |line: &str| Xtask::try_parse_from(line.split(' '));
        let parsed = parse("xtask conformance --server --only watch/ -v --at-once 4");
        let Ok(Xtask::Conformance(Conformance { server: true, only, replay, .. })) = parsed else {
            panic!("{parsed:?}");
        };
        assert_eq!((only.as_deref(), replay), (Some("watch/"), ["-v", "--at-once", "4"].map(OsString::from).into()));
        assert!(parse("xtask conformance --clients -v").is_err());
        assert!(parse("xtask bench queue --fast").is_err());
    }
}
