//! `cargo xtask conformance` replays recorded cases (`crates/conformance`) against a server. The job can also run the
//! client's test scenarios or a fleet of electors against a real server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use xshell::{Shell, cmd};

use crate::flags::Conformance;
use crate::real_server::RealServer;

pub(crate) fn run(sh: &Shell, flags: &Conformance) -> anyhow::Result<ExitCode> {
    if flags.client {
        return client(sh);
    }
    if flags.fleet {
        return fleet(sh);
    }
    if flags.clients {
        return crate::clients::run(sh, flags.only.as_deref(), flags.all);
    }
    if let Some(folder) = &flags.compare {
        return compare(sh, folder, &flags.replay);
    }
    if !flags.server && flags.replay.is_empty() {
        bail!("nothing to check: add `--server`, `--client`, `--clients`, `--compare DIR` or `--fleet`");
    }
    let (cargo, replay) = (crate::cargo(), &flags.replay);
    let only = flags.only.iter().map(|only| format!("--only={only}"));
    let replay = cmd!(sh, "{cargo} run --quiet --locked --package pintle-conformance -- {only...} {replay...}");
    // The replay program has already printed the error, so omit it.
    Ok(if replay.quiet().run().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends the manifests in a folder to the embedded server and to a real kube-apiserver, and compares the responses.
fn compare(sh: &Shell, folder: &Path, args: &[OsString]) -> anyhow::Result<ExitCode> {
    let real = RealServer::start(sh)?;
    let (cargo, url) = (crate::cargo(), real.url());
    let token = crate::real_server::TOKEN;
    let program = cmd!(sh, "{cargo} run --quiet --locked --package pintle-conformance -- --insecure --token {token}");
    let compared = program.args(["--url", &url]).arg("--compare").arg(folder).args(args).quiet().run();
    Ok(if compared.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the test scenarios of the client against a real kube-apiserver. The client's tests run the same scenarios
/// against the embedded server.
fn client(sh: &Shell) -> anyhow::Result<ExitCode> {
    let real = RealServer::start(sh)?;
    let (cargo, kubeconfig) = (crate::cargo(), real.kubeconfig());
    let scenarios = cmd!(sh, "{cargo} test --quiet --locked --package pintle --test it handles:: -- --test-threads=1");
    let passed = scenarios.quiet().env("PINTLE_CONFORMANCE_KUBECONFIG", &kubeconfig).run().is_ok();
    let requests =
        cmd!(sh, "{cargo} test --quiet --locked --package pintle-restreq --test it real:: -- --test-threads=1");
    let requested = requests.quiet().env("PINTLE_TEST_KUBECONFIG", kubeconfig).run().is_ok();
    Ok(if passed && requested { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs processes that compete for a lease (`crates/bench/tests/it/fleet.rs`). If `go` is installed, half of the
/// processes use client-go's elector.
fn fleet(sh: &Shell) -> anyhow::Result<ExitCode> {
    let folder = sh.create_temp_dir()?;
    let mut env: Vec<(&str, PathBuf)> = Vec::new();
    if cmd!(sh, "go version").quiet().ignore_stdout().ignore_stderr().run().is_ok() {
        let contender = folder.path().join("contender");
        let _module = sh.push_dir("crates/bench/go");
        cmd!(sh, "go build -mod=readonly -trimpath -o {contender} ./election/contender").quiet().run()?;
        env.push(("PINTLE_FLEET_GO", contender));
    } else {
        println!("`go` is not installed: the fleet runs without client-go's elector");
    }
    let real = match std::env::var_os("KUBEBUILDER_ASSETS") {
        Some(_) => Some(RealServer::start(sh)?),
        None => {
            println!("KUBEBUILDER_ASSETS is not set: the fleet runs on the embedded server");
            None
        }
    };
    env.extend(real.iter().map(|real| ("PINTLE_FLEET_KUBECONFIG", real.kubeconfig())));
    let cargo = crate::cargo();
    let passed =
        cmd!(sh, "{cargo} test --quiet --locked --package pintle-bench --test it fleet::").quiet().envs(env).run();
    Ok(if passed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
