//! `cargo xtask conformance --clients` runs the requests of a typical controller against the embedded server, once with
//! each of several client libraries.
//!
//! Each client is a program that runs the scenario, and fails at the first result that differs from a real cluster. The
//! clients are kubectl, client-go (`crates/bench/go/conformance`), Python, JavaScript and Java
//! (`crates/conformance/clients`), and kube (`crates/apiserver/examples/kube`).
//!
//! A client is skipped if its tool is not installed. The last line of the output lists the skipped clients. A skipped
//! client counts as failed with `--all`, or if `--only` names it. Each tool downloads dependencies to its usual cache
//! and writes build artifacts to the target folder.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use xshell::{Shell, cmd};

use crate::real_server::Killed;

type Client = (&'static str, &'static str, fn(&Shell, &Path) -> anyhow::Result<()>);

const CLIENTS: [Client; 6] = [
    ("kubectl", "kubectl", kubectl),
    ("client-go", "go", client_go),
    ("kube", "cargo", kube),
    ("Python", "python3", python),
    ("JavaScript", "npm", javascript),
    ("fabric8", "mvn", fabric8),
];

/// Runs the scenario with all clients, or with the clients in the comma-separated list `only`. If `all` is set, skipped
/// clients count as failed.
pub(crate) fn run(sh: &Shell, only: Option<&str>, all: bool) -> anyhow::Result<ExitCode> {
    let wanted: Vec<&str> = only.into_iter().flat_map(|names| names.split(',')).collect();
    if let Some(unknown) = wanted.iter().find(|wanted| !CLIENTS.iter().any(|(name, ..)| name == *wanted)) {
        bail!("no client {unknown:?}; there are: {}", CLIENTS.map(|(name, ..)| name).join(", "));
    }
    let target = crate::target_dir(sh)?;
    let work = target.join("clients");
    sh.create_dir(&work)?;
    let kubeconfig = work.join("kubeconfig");
    let _server = start_server(sh, &target, &kubeconfig)?;
    let _environment = sh.push_env("KUBECONFIG", &kubeconfig);
    let mut days = Vec::new();
    for (name, tool, day) in CLIENTS.into_iter().filter(|(name, ..)| wanted.is_empty() || wanted.contains(name)) {
        let ended = match Command::new(tool).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Err(_) => Day::NotRun { tool },
            Ok(_) => match day(sh, &work) {
                Ok(()) => Day::Ok,
                Err(error) => Day::Failed(format!("{error:#}")),
            },
        };
        println!("{name}: {ended}");
        days.push((name, ended));
    }
    println!("{}", closing(&days));
    let has_to_run = all || !wanted.is_empty();
    Ok(if days.iter().all(|(_, day)| day.is_well(has_to_run)) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, PartialEq)]
enum Day {
    Ok,
    Failed(String),
    /// The client was skipped, because its tool is not installed.
    NotRun {
        tool: &'static str,
    },
}

impl Day {
    fn is_well(&self, has_to_run: bool) -> bool {
        match self {
            Self::Ok => true,
            Self::Failed(_) => false,
            Self::NotRun { .. } => !has_to_run,
        }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::NotRun { tool } => write!(f, "NOT RUN, `{tool}` is not installed"),
        }
    }
}

/// Returns the last line of the output: the number of passed clients, and the names of failed and skipped clients.
fn closing(days: &[(&str, Day)]) -> String {
    let names = |of: fn(&Day) -> bool| {
        days.iter().filter(|(_, day)| of(day)).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let mut line = format!("{} of {} clients ok", days.iter().filter(|(_, day)| *day == Day::Ok).count(), days.len());
    let (failed, not_run) =
        (names(|day| matches!(day, Day::Failed(_))), names(|day| matches!(day, Day::NotRun { .. })));
    for (what, names) in [("failed", failed), ("NOT RUN", not_run)] {
        if !names.is_empty() {
            line.push_str(&format!("; {what}: {names}"));
        }
    }
    line
}

fn start_server(sh: &Shell, target: &Path, kubeconfig: &Path) -> anyhow::Result<Killed> {
    let cargo = crate::cargo();
    cmd!(sh, "{cargo} build --quiet --locked --package pintle-apiserver").quiet().run()?;
    let program = target.join("debug/pintle-apiserver");
    let server = Command::new(program).arg("--tls").arg("--kubeconfig").arg(kubeconfig).stdout(Stdio::piped()).spawn();
    let mut server = Killed(server.context("cannot start the embedded server")?);
    let mut url = String::new();
    BufReader::new(server.0.stdout.take().context("the embedded server has no output")?).read_line(&mut url)?;
    ensure!(url.starts_with("https://"), "the embedded server did not start");
    Ok(server)
}

const NOTHING: &str = "";

fn kubectl(sh: &Shell, work: &Path) -> anyhow::Result<()> {
    let file = "crates/conformance/clients/kubectl/manifest.yaml";
    // The commands with the text that their output must contain. `kubectl diff` prints nothing if there are no
    // differences.
    for (arguments, says) in [
        (format!("apply -f {file}"), "deployment.apps/web created"),
        (format!("apply -f {file}"), "deployment.apps/web unchanged"),
        (format!("apply --server-side --force-conflicts -f {file}"), "deployment.apps/web serverside-applied"),
        (format!("diff -f {file}"), NOTHING),
        ("get deployments -n kubectl -o wide".into(), "web:1"),
        ("get all -n kubectl".into(), "service/web"),
        ("get services -n kubectl -o jsonpath={.items[0].spec.ports[0].port}".into(), "80"),
        ("api-resources --api-group=apps".into(), "StatefulSet"),
        ("auth can-i create pods -n kubectl".into(), "yes"),
        ("describe deployment web -n kubectl".into(), "Pod Template"),
        ("scale deployment web -n kubectl --replicas=3".into(), "scaled"),
        ("label configmap settings -n kubectl size=large".into(), "labeled"),
        ("get configmaps -n kubectl -l size=large -o name".into(), "configmap/settings"),
        ("annotate configmap settings -n kubectl a=b".into(), "annotated"),
        ("set image deployment/web -n kubectl web=web:2".into(), "image updated"),
        ("patch configmap settings -n kubectl -p {\"data\":{\"colour\":\"red\"}}".into(), "patched"),
        ("wait configmap settings -n kubectl --for=jsonpath={.data.colour}=red --timeout=10s".into(), "condition met"),
        ("create serviceaccount default -n kubectl".into(), "created"),
        // All JWTs start with `eyJ`, the base64 form of `{"`.
        ("create token default -n kubectl".into(), "eyJ"),
        ("explain deployment.spec.replicas".into(), "<integer>"),
        ("delete configmap settings -n kubectl".into(), "deleted"),
        ("delete namespace kubectl --timeout=60s".into(), "deleted"),
    ] {
        let words = arguments.split(' ');
        let output = cmd!(sh, "kubectl --cache-dir={work} {words...}").quiet().read()?;
        let is_as_said = if says == NOTHING { output.is_empty() } else { output.contains(says) };
        ensure!(is_as_said, "`kubectl {arguments}` printed {output:?}");
    }
    Ok(())
}

fn client_go(sh: &Shell, work: &Path) -> anyhow::Result<()> {
    let program = work.join("client-go");
    let _module = sh.push_dir("crates/bench/go");
    cmd!(sh, "go build -mod=readonly -trimpath -o {program} ./conformance").quiet().run()?;
    Ok(cmd!(sh, "{program}").quiet().run()?)
}

/// Runs the scenario with the kube example, which starts an embedded server in its own process.
fn kube(sh: &Shell, work: &Path) -> anyhow::Result<()> {
    let (cargo, target) = (crate::cargo(), work.join("kube"));
    let _project = sh.push_dir("crates/apiserver/examples/kube");
    Ok(cmd!(sh, "{cargo} run --quiet --locked --target-dir {target}").quiet().run()?)
}

fn python(sh: &Shell, work: &Path) -> anyhow::Result<()> {
    let folder = work.join("python");
    cmd!(sh, "python3 -m venv {folder}").quiet().run()?;
    let python = folder.join("bin/python");
    let clients = "crates/conformance/clients/python";
    cmd!(sh, "{python} -m pip install --quiet -r {clients}/requirements.txt").quiet().run()?;
    Ok(cmd!(sh, "{python} {clients}/scenario.py").quiet().run()?)
}

fn javascript(sh: &Shell, work: &Path) -> anyhow::Result<()> {
    let folder = work.join("node");
    sh.create_dir(&folder)?;
    for file in ["package.json", "package-lock.json", "scenario.mjs"] {
        sh.copy_file(format!("crates/conformance/clients/node/{file}"), &folder)?;
    }
    let _folder = sh.push_dir(&folder);
    cmd!(sh, "npm ci --silent --no-audit --no-fund").quiet().run()?;
    Ok(cmd!(sh, "node scenario.mjs").quiet().run()?)
}

fn fabric8(sh: &Shell, work: &Path) -> anyhow::Result<()> {
    let folder = work.join("java");
    let _project = sh.push_dir("crates/conformance/clients/java");
    // Let Maven write its build artifacts to the target folder.
    let run = cmd!(sh, "mvn --quiet --batch-mode -DbuildDirectory={folder} compile exec:java");
    Ok(run.quiet().run()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_clients_are_listed_last_and_fail_when_required() {
        let days =
            [("a", Day::Ok), ("b", Day::NotRun { tool: "mvn" }), ("c", Day::Failed("why".into())), ("d", Day::Ok)];
        assert_eq!(closing(&days), "2 of 4 clients ok; failed: c; NOT RUN: b");
        assert_eq!(closing(&days[..1]), "1 of 1 clients ok");
        assert_eq!(days[1].1.to_string(), "NOT RUN, `mvn` is not installed");
        let well = |has_to_run: bool| days.iter().map(|(_, day)| day.is_well(has_to_run)).collect::<Vec<_>>();
        assert_eq!(well(false), [true, true, false, true]);
        assert_eq!(well(true), [true, false, false, true]);
    }
}
