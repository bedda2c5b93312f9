//! The program `pintle-conformance`, which replays the recorded cases against a server. By default, the program starts
//! the embedded server.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program writes to a terminal")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use pintle_apiserver::ApiServer;
use pintle_conformance::failing::{self, Drift};
use pintle_conformance::page::{page, page_file};
use pintle_conformance::side_by_side::{self, Comparison};
use pintle_conformance::{Case, Target, Trust, Verdict, embedded, load, pack, packed_folder, replay};

/// Replay recorded cases of a real kube-apiserver against a server.
#[derive(Parser)]
struct Flags {
    /// URL of the server [default: start the embedded server].
    #[arg(long)]
    url: Option<String>,
    /// Token of an administrator of the server.
    #[arg(long, default_value = "admin-token")]
    token: String,
    /// CA certificates (PEM) to trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Run only cases whose name contains TEXT, without checking the list of failing cases.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print all differences.
    #[arg(short, long)]
    verbose: bool,
    /// Number of concurrent cases.
    #[arg(long, value_name = "N", default_value_t = 32)]
    at_once: usize,
    /// Rewrite the list of failing cases and the page with the results.
    #[arg(long, conflicts_with_all = ["only", "url"])]
    update: bool,
    /// Folder of the cases [default: the packed cases].
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Send the manifests below DIR to the new server at --url and to the embedded server, and compare the responses.
    #[arg(long, value_name = "DIR", requires = "url")]
    compare: Option<PathBuf>,
    /// Pack the cases of DIR into the repository without replaying them.
    #[arg(long, value_name = "DIR")]
    pack: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Flags::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> anyhow::Result<bool> {
    if let Some(folder) = &flags.pack {
        let cases = load(folder)?;
        for file in pack(&cases, &packed_folder())? {
            println!("wrote {}", file.display());
        }
        println!("{} cases", cases.len());
        return Ok(true);
    }
    if let Some(folder) = &flags.compare {
        return compare_servers(&flags, folder).await;
    }
    let mut cases = load(&flags.cases.clone().unwrap_or_else(packed_folder))?;
    if let Some(only) = &flags.only {
        cases.retain(|case| case.name.contains(only));
        anyhow::ensure!(!cases.is_empty(), "no case's name contains {only:?}");
    }
    // Only a full run against the embedded server can be compared to the list of failing cases.
    let checks_list = flags.url.is_none() && flags.only.is_none() && flags.cases.is_none();
    let listed = if checks_list { failing::read(&failing::list_file())? } else { BTreeSet::new() };
    let (target, embedded) = target(&flags).await?;

    let started = Instant::now();
    let mut verdicts = replay(&target, cases.clone(), |verdict| {
        if flags.verbose && !verdict.differences.is_empty() {
            print(verdict);
        }
    })
    .await?;
    if checks_list {
        retry_alone(&target, &cases, &listed, &mut verdicts).await?;
    }
    if let Some(server) = embedded {
        server.shutdown().await;
    }
    report(&verdicts);
    println!("{} cases in {:.1} s", verdicts.len(), started.elapsed().as_secs_f64());
    let failed = names(verdicts.iter().filter(|verdict| !verdict.passes()));
    if checks_list { check_list(&listed, &failed, &verdicts, flags.update) } else { Ok(failed.is_empty()) }
}

/// Sends the same manifests to two servers and prints one line per cause of differences. Returns `true` if the servers
/// sent equal responses.
async fn compare_servers(flags: &Flags, folder: &Path) -> anyhow::Result<bool> {
    let (target, _) = target(flags).await?;
    let started = Instant::now();
    let Comparison { documents, requests, skipped, causes } = side_by_side::compare_servers(&target, folder).await?;
    skipped.iter().for_each(|why| println!("skipped {why}"));
    let mut causes: Vec<_> = causes.0.into_iter().collect();
    causes.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.count));
    let mut count = 0;
    for (cause, seen) in &causes {
        count += seen.count;
        let requests: Vec<&str> = seen.requests.iter().map(String::as_str).collect();
        let first = seen.documents.first().map_or("", String::as_str);
        println!("{} {cause} [{}; {first}] {}", seen.count, requests.join(", "), seen.example);
        if flags.verbose {
            seen.documents.iter().for_each(|document| println!("   {document}"));
        }
    }
    let took = started.elapsed().as_secs_f64();
    println!("{documents} documents, {requests} requests to each server, {} skipped, {took:.1} s", skipped.len());
    println!("{count} differences of {} causes", causes.len());
    Ok(causes.is_empty())
}

/// Returns the server selected by the flags, and the embedded server if it was started.
async fn target(flags: &Flags) -> anyhow::Result<(Target, Option<ApiServer>)> {
    let trust = match &flags.ca {
        Some(file) => Trust::Authorities(std::fs::read(file).with_context(|| format!("reading {}", file.display()))?),
        None if flags.insecure => Trust::Anyone,
        None => Trust::Authorities(Vec::new()),
    };
    let (url, embedded, patience) = match &flags.url {
        Some(url) => (url.clone(), None, Duration::MAX),
        None => {
            let server = embedded::start().await?;
            (server.url(), Some(server), Duration::from_secs(15))
        }
    };
    let limit = Duration::from_secs(60);
    Ok((Target { url, token: flags.token.clone(), trust, at_once: flags.at_once, limit, patience }, embedded))
}

/// Repeats the unexpectedly failed cases one after another, because steps can time out on a busy machine.
async fn retry_alone(
    target: &Target,
    cases: &[Case],
    listed: &BTreeSet<String>,
    verdicts: &mut [Verdict],
) -> anyhow::Result<()> {
    /// The maximum number of cases to repeat. If more cases fail, machine load is unlikely to be the cause.
    const MAX_RETRIED: usize = 40;
    let unexpected = |verdict: &&mut Verdict| !verdict.passes() && !listed.contains(&verdict.name);
    let failed: Vec<&mut Verdict> = verdicts.iter_mut().filter(unexpected).collect();
    if failed.len() > MAX_RETRIED {
        return Ok(());
    }
    for verdict in failed {
        let case = cases.iter().filter(|case| case.name == verdict.name).cloned().collect();
        for retried in replay(target, case, |_| {}).await? {
            println!("{} failed in the concurrent run; alone: {}", retried.name, retried.state());
            *verdict = retried;
        }
    }
    Ok(())
}

/// Checks that exactly the listed cases fail, and prints all unexpected results. If `update` is true, rewrites the list
/// of failing cases and the results page.
fn check_list(
    listed: &BTreeSet<String>,
    failed: &BTreeSet<String>,
    verdicts: &[Verdict],
    update: bool,
) -> anyhow::Result<bool> {
    let file = failing::list_file();
    if update {
        failing::write(&file, failed)?;
        println!("wrote {}", file.display());
        let page_path = page_file();
        std::fs::write(&page_path, page(verdicts.iter().map(|verdict| verdict.name.as_str()), failed))
            .with_context(|| format!("writing {}", page_path.display()))?;
        println!("wrote {}", page_path.display());
        return Ok(true);
    }
    let drift = Drift::of(listed, &names(verdicts.iter()), failed);
    for verdict in verdicts.iter().filter(|verdict| drift.failing.contains(&verdict.name)) {
        print(verdict);
    }
    let groups = [
        (&drift.failing, "failed but are not listed as failing"),
        (&drift.passing, "are listed as failing but passed: remove them from the list"),
        (&drift.unknown, "are listed as failing but do not exist"),
    ];
    for (names, problem) in groups {
        if !names.is_empty() {
            println!("{} cases {problem}:\n  {}", names.len(), names.join("\n  "));
        }
    }
    let old_page =
        std::fs::read_to_string(page_file()).with_context(|| format!("reading {}", page_file().display()))?;
    if drift == Drift::default() && old_page != page(verdicts.iter().map(|verdict| verdict.name.as_str()), failed) {
        println!(
            "{} does not match the results: `cargo xtask conformance --server --update` rewrites it",
            page_file().display()
        );
        return Ok(false);
    }
    if drift == Drift::default() {
        println!("as listed: {} pass, {} do not pass yet", verdicts.len() - failed.len(), failed.len());
        return Ok(true);
    }
    println!("`cargo xtask conformance --server --update` rewrites {}", file.display());
    Ok(false)
}

fn print(verdict: &Verdict) {
    println!("{} {}", verdict.state(), verdict.name);
    for difference in verdict.differences.iter().take(12) {
        let kind = if difference.is_wording { "words " } else { "" };
        println!("   {kind}{}\n      want {}\n      got  {}", difference.at, difference.want, difference.got);
    }
}

fn report(verdicts: &[Verdict]) {
    let mut areas: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for verdict in verdicts {
        let area = verdict.name.split_once('/').map_or("", |(area, _)| area);
        let counts = areas.entry(area).or_default();
        counts[["pass", "words", "fail"].iter().position(|state| *state == verdict.state()).unwrap_or(2)] += 1;
    }
    for (area, [pass, words, fail]) in areas {
        println!("{area:14} {pass} pass, {words} pass with different wording, {fail} fail");
    }
}

fn names<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> BTreeSet<String> {
    verdicts.map(|verdict| verdict.name.clone()).collect()
}
