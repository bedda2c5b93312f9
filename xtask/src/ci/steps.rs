//! The steps of `cargo xtask ci`, in the order in which they run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use xshell::Shell;

use super::command::{Ended, Quiet};
use super::tally::Tally;
use super::{Done, Step, TestsFailed, checked, front_page, project, published, targets, tools, versions};

/// All steps, fastest first. Three steps run in parallel with other steps, because they leave CPUs idle. `doctests`
/// mostly uses a single CPU, `conformance` waits a minute for a bookmark, and `examples` waits for timers.
/// `conformance` and `examples` replace this program, which is the compiler wrapper in the steps `loom` and `shuttle`.
/// Therefore, they run after `shuttle`.
pub(super) const STEPS: &[Step] = &[
    Step::new("tidy", "the repository's own rules: layers, crate pages, lengths, links, plain language", tidy),
    Step::new("fmt", "rustfmt would change nothing", fmt),
    Step::new("locks", "the lock files of the projects inside of crates are current", versions::locks),
    Step::new("clippy", "the tests compile without a warning, with all features", clippy),
    Step::new(
        "default-features",
        "the facade compiles with its default features, and without features",
        published::default_features,
    ),
    Step::new("lints", "no warning in any target, with all features", lints).only_in_full(),
    Step::new(
        "features",
        "each crate builds alone, with each feature and with each pair of features",
        published::features,
    )
    .only_in_full(),
    Step::new("targets", "the Rust code of the crates compiles for Windows and macOS", targets::check).only_in_full(),
    Step::new(
        "minimal",
        "the crates compile with the lowest versions of dependencies that they allow",
        versions::minimal,
    )
    .only_in_full(),
    Step::new("msrv", "the crates compile with the oldest version of Rust that they allow", versions::msrv)
        .only_in_full(),
    Step::new("package", "the published crates can be packed", published::package).only_in_full(),
    Step::new("front-page", "the README's program builds with the dependencies that the README lists", front_page).only_in_full(),
    Step::new("tests", "unit and integration tests", tests),
    Step::new("slow", "the tests that are too slow for the step `tests`", slow).only_in_full(),
    Step::new("doctests", "every example in the documentation", doctests).in_parallel(),
    Step::new("numbers", "the crates that read JSON, with serde_json's `arbitrary_precision`", numbers).only_in_full(),
    Step::new("loom", "the concurrent cores under loom: all schedules with few preemptions", loom),
    Step::new("shuttle", "the concurrent cores under shuttle: random schedules", shuttle).only_in_full(),
    Step::new(
        "conformance",
        "the embedded server returns the recorded responses of a real server, except in the listed cases",
        conformance,
    )
    .in_parallel(),
    Step::new("doc", "rustdoc builds without a warning", doc).only_in_full(),
    Step::new("examples", "every example runs to its end", examples).in_parallel(),
    Step::new("deny", "licences, sources and bans of all dependencies", deny).only_in_full(),
    Step::new("bench", "the programs of the benchmarks run", bench).only_in_full(),
    Step::new(
        "election",
        "electors in 20,000 simulated worlds, and all sequences of nine moves of two electors; PINTLE_WORLDS and PINTLE_DEPTH change this",
        election,
    )
    .only_in_full(),
    Step::new(
        "chaos",
        "an operator converges under 1,000 scripts of random faults, and its memory does not grow; PINTLE_SEEDS changes this",
        chaos,
    )
    .only_in_full(),
    Step::new("pauses", "no write of a large cache blocks readers for a millisecond, in a release build", pauses).only_in_full(),
    Step::new("browser", "the debug page works in headless Chromium, which must be installed", browser).only_in_full(),
    Step::new(
        "kube",
        "the examples compile that use kube: its client with the embedded server, its types with an operator",
        kube,
    )
    .only_in_full(),
    Step::new(
        "new-operator",
        "a project of `cargo xtask new-operator` compiles, passes its tests, and prints its definition",
        project::check,
    )
    .only_in_full(),
];

fn tidy(sh: &Shell) -> anyhow::Result<Done> {
    crate::tidy::run(sh).map(Done::noting)
}

fn fmt(sh: &Shell) -> anyhow::Result<Done> {
    tools::component(sh, "rustfmt", "fmt")?;
    Quiet::cargo(sh, "fmt").args("fmt --all --check -- --color never").run()?;
    Ok(Done::default())
}

fn clippy(sh: &Shell) -> anyhow::Result<Done> {
    tools::component(sh, "clippy", "clippy")?;
    let output = run_tests(sh, "clippy", WORKSPACE).args("--lib --bins --tests --no-run").run()?;
    if output.lines().any(|line| line.starts_with("warning")) {
        bail!("{}", output.trim_end());
    }
    Ok(Done::default())
}

/// Compiles with Clippy instead of rustc. A separate run of Clippy would check all dependencies and crates again, which
/// takes more than two minutes. All commands that reuse build artifacts of the step `clippy` must use this function.
fn with_clippy(command: Quiet) -> Quiet {
    command.env("RUSTC_WORKSPACE_WRAPPER", Path::new(&crate::cargo()).with_file_name("clippy-driver"))
}

fn lints(sh: &Shell) -> anyhow::Result<Done> {
    Quiet::cargo(sh, "lints").args("clippy --workspace --all-targets --all-features --locked -- -D warnings").run()?;
    // The programs of kube-rs are in a separate workspace, but share files with this one.
    let kube =
        "clippy --manifest-path crates/bench/kube/Cargo.toml --target-dir target/bench/kube --locked -- -D warnings";
    Quiet::cargo(sh, "lints of kube-rs").args(kube).run()?;
    Ok(Done::default())
}

fn front_page(sh: &Shell) -> anyhow::Result<Done> {
    front_page::check(sh)?;
    Ok(Done::default())
}

fn tests(sh: &Shell) -> anyhow::Result<Done> {
    tested(run_tests(sh, "tests", WORKSPACE).args("--lib --bins --tests").end()?)
}

/// Runs the ignored tests, except those that need a browser, a release build or another process.
fn slow(sh: &Shell) -> anyhow::Result<Done> {
    let tests = run_tests(sh, "slow", WORKSPACE).args("--lib --bins --tests -- --ignored");
    tested(
        tests
            .args("--skip chromium --skip longest_section --skip environment_decides")
            .limit(Duration::from_secs(60 * 60))
            .end()?,
    )
}

fn bench(sh: &Shell) -> anyhow::Result<Done> {
    tested(run_tests(sh, "bench", "--package pintle-bench").end()?)
}

/// The packages that most steps check. Benchmarks are excluded, because their programs take more than a minute to
/// build.
const WORKSPACE: &str = "--workspace --exclude pintle-bench";

/// The integration tests of [`WORKSPACE`]. With a single package, cargo would rebuild dependencies with different
/// features. Therefore, a step that needs only a few integration tests selects these tests by name.
const INTEGRATION: &str = "--workspace --exclude pintle-bench --test it";

fn run_tests(sh: &Shell, step: &str, packages: &str) -> Quiet {
    // Run more tests in parallel than there are CPUs, because some tests mostly wait.
    let threads = std::thread::available_parallelism().map_or(4, |count| count.get() * 2).to_string();
    // With this fixed seed, only code changes can cause new failures. `PINTLE_SEED` sets another seed.
    with_clippy(Quiet::cargo(sh, step))
        .args("test --all-features --locked --quiet --no-fail-fast")
        .args(packages)
        .env("RUST_TEST_THREADS", threads)
        .env("PINTLE_SEED", asked("PINTLE_SEED", "1"))
}

fn browser(sh: &Shell) -> anyhow::Result<Done> {
    tested(run_tests(sh, "browser", INTEGRATION).args("chromium -- --ignored").end()?)
}

/// The number of simulated clusters ("worlds") for each of the ten kinds of clusters in the step `election`.
const WORLDS: &str = "2000";

/// Repeats some tests of the step `tests` with more cases in a release build.
fn election(sh: &Shell) -> anyhow::Result<Done> {
    let (worlds, depth) = (asked("PINTLE_WORLDS", WORLDS), asked("PINTLE_DEPTH", "9"));
    let run = "test --release --package pintle-leaderelect --package pintle-sharding --all-features --locked --quiet \
               --no-fail-fast --test it -- simulation:: exhaustive:: survival::";
    let run = Quiet::cargo(sh, "election").args(run).env("PINTLE_WORLDS", worlds).env("PINTLE_DEPTH", depth);
    tested(run.end()?)
}

fn chaos(sh: &Shell) -> anyhow::Result<Done> {
    let run = run_tests(sh, "chaos", INTEGRATION).args("website_survives_chaos").limit(Duration::from_secs(60 * 60));
    tested(run.env("PINTLE_SEEDS", asked("PINTLE_SEEDS", "1000")).end()?)
}

fn pauses(sh: &Shell) -> anyhow::Result<Done> {
    let run = "test --release --locked --package pintle-informer --lib longest_section_of_a_large_shard -- --ignored";
    tested(Quiet::cargo(sh, "pauses").args(run).end()?)
}

/// Returns the value of an environment variable, or the default value `usual`.
fn asked(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

fn doctests(sh: &Shell) -> anyhow::Result<Done> {
    let run = "test --doc --all-features --locked --quiet --no-fail-fast";
    tested(with_clippy(Quiet::cargo(sh, "doctests")).args(run).args(WORKSPACE).end()?)
}

fn numbers(sh: &Shell) -> anyhow::Result<Done> {
    let run = "test --package pintle-json --package pintle-schema --package pintle-store --package pintle-fieldmanager \
               --features serde_json/arbitrary_precision --locked --quiet --no-fail-fast --lib --tests";
    tested(Quiet::cargo(sh, "numbers").args(run).end()?)
}

fn loom(sh: &Shell) -> anyhow::Result<Done> {
    model(sh, "loom")
}

fn shuttle(sh: &Shell) -> anyhow::Result<Done> {
    model(sh, "shuttle")
}

/// Runs the tests for loom or shuttle, with the lock types of the checker. The name of each test program is the name of
/// the checker.
fn model(sh: &Shell, checker: &str) -> anyhow::Result<Done> {
    let run = format!("test --workspace --all-features --locked --no-fail-fast --test {checker}");
    let compiler = checked::compiler(sh, &format!("pintle_{checker}"))?;
    tested(Quiet::cargo(sh, checker).args(&run).env("RUSTC_WORKSPACE_WRAPPER", compiler).end()?)
}

fn doc(sh: &Shell) -> anyhow::Result<Done> {
    let run = Quiet::cargo(sh, "doc").args(crate::docs::SITE);
    run.env("RUSTDOCFLAGS", "-D warnings --cfg pintle_docs").run()?;
    Ok(Done::default())
}

fn deny(sh: &Shell) -> anyhow::Result<Done> {
    let deny = tools::deny(sh)?;
    // cargo-deny runs offline, so fetch the dependencies of all platforms first.
    Quiet::cargo(sh, "deny").args("fetch --locked").run()?;
    // Do not check advisories, because they require a database from the network, and a new advisory would fail the step
    // without a code change.
    let run = "--offline --all-features --locked check --hide-inclusion-graph bans licenses sources";
    Quiet::new(sh, "deny", deny).args(run).run()?;
    Ok(Done::default())
}

fn conformance(sh: &Shell) -> anyhow::Result<Done> {
    let replayer = build(sh, "conformance")?.join("pintle-conformance");
    let output = Quiet::new(sh, "conformance", replayer).run()?;
    Ok(Done::noting(output.lines().rev().find(|line| line.starts_with("as listed:")).unwrap_or_default()))
}

fn examples(sh: &Shell) -> anyhow::Result<Done> {
    let programs = build(sh, "examples")?.join("examples");
    let mut count = 0;
    for package in crate::packages(sh)? {
        for name in targets(&package, "example") {
            // Start the program directly, because `cargo run` would check for each example whether all packages are up
            // to date.
            let run = Quiet::new(sh, "examples", programs.join(&name));
            run.limit(Duration::from_secs(180)).run()?;
            count += 1;
        }
    }
    Ok(Done::noting(format!("{count} examples")))
}

fn kube(sh: &Shell) -> anyhow::Result<Done> {
    // The examples that use kube are separate workspaces, so that this workspace's lock file does not contain kube.
    // Only check them, because a full build takes minutes.
    for manifest in KUBE {
        let check = Quiet::cargo(sh, "kube").args(&format!("check --quiet --locked --manifest-path {manifest}"));
        check.env("CARGO_TARGET_DIR", crate::target_dir(sh)?).run().with_context(|| {
            format!("if its lock file is out of date, run: cargo update --workspace --manifest-path {manifest}")
        })?;
    }
    Ok(Done::default())
}

/// The examples that use kube: its client with the embedded server, and its types in an operator.
const KUBE: [&str; 2] = ["crates/apiserver/examples/kube/Cargo.toml", "crates/operator/examples/kube_types/Cargo.toml"];

/// Builds all programs of the workspace and returns their folder. The build has the same flags as the tests, so that
/// cargo can reuse build artifacts.
fn build(sh: &Shell, step: &str) -> anyhow::Result<PathBuf> {
    with_clippy(Quiet::cargo(sh, step))
        .args("build --workspace --exclude pintle-bench --all-features --locked --bins --examples")
        .run()?;
    Ok(crate::target_dir(sh)?.join("debug"))
}

fn tested(ended: Ended) -> anyhow::Result<Done> {
    let tests = Tally::read(&ended.output);
    if !ended.status.success() {
        return Err(TestsFailed { tests, output: ended.output.trim_end().to_owned() }.into());
    }
    if tests.passed == 0 {
        bail!("{}\nno tests ran", ended.output.trim_end());
    }
    Ok(Done { note: passed(&tests), tests })
}

fn passed(tests: &Tally) -> String {
    format!("{} passed", tests.passed)
}

fn targets(package: &Value, kind: &str) -> Vec<String> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let has_kind =
        |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|known| known == kind));
    targets.filter(has_kind).map(|target| text(&target["name"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{STEPS, WORLDS};

    #[test]
    fn election_step_and_docs_state_the_simulated_worlds() {
        let simulation = include_str!("../../../crates/leaderelect/tests/it/simulation.rs");
        let kinds = simulation.matches("    survive_many(").count();
        let worlds = kinds * WORLDS.parse::<usize>().expect("a number");
        let number = format!("{},{:03}", worlds / 1_000, worlds % 1_000);
        let step = STEPS.iter().find(|step| step.name == "election").expect("the step");
        assert!(step.about.contains(&format!("{number} simulated worlds")), "{number}: {}", step.about);
        assert!(include_str!("../../../docs/ELECTION.md").contains(&format!("simulates {number} worlds")), "{number}");
    }
}
