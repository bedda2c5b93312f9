//! Steps that check the minimum versions of dependencies and of Rust in the manifests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use xshell::{Shell, cmd};

use super::Done;
use super::command::Quiet;
use super::published::PUBLISHED;

/// Checks the published crates with the minimum versions of their direct dependencies.
///
/// Indirect dependencies have their newest versions, because the minimum versions in other projects' manifests often
/// do not work.
pub(super) fn minimal(sh: &Shell) -> anyhow::Result<Done> {
    let copy = copy(sh)?;
    let update =
        Quiet::cargo(sh, "minimal").args("update --quiet -Z direct-minimal-versions --manifest-path").arg(&copy);
    // `RUSTC_BOOTSTRAP` enables the unstable cargo option for minimum versions. The check below does not set it,
    // because some build scripts would then use unstable features.
    update.env("RUSTC_BOOTSTRAP", "1").run()?;
    let check =
        format!("check {PUBLISHED} --all-features --locked --target-dir target/ci/minimal/target --manifest-path");
    Quiet::cargo(sh, "minimal").args(&check).arg(&copy).run()?;
    Ok(Done::default())
}

/// Copies the manifests and sources to a folder in `target/ci`, which protects the workspace's lock file. Returns the
/// path of the workspace manifest in this folder.
fn copy(sh: &Shell) -> anyhow::Result<PathBuf> {
    let folder = sh.current_dir().join("target/ci/minimal");
    for part in ["crates", "xtask"] {
        sh.remove_path(folder.join(part))?;
    }
    let files = cmd!(sh, "git ls-files --cached --others --exclude-standard Cargo.toml crates xtask").quiet().read()?;
    for file in files.lines().map(Path::new) {
        let (from, to) = (sh.current_dir().join(file), folder.join(file));
        // Skip deleted files, which git lists as well.
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(&folder))?;
            fs::copy(&from, &to).with_context(|| format!("copying {}", file.display()))?;
        }
    }
    let manifest = folder.join("Cargo.toml");
    sh.remove_path(folder.join("Cargo.lock"))?;
    Ok(manifest)
}

/// Checks that each lock file below `crates` lists all dependencies of its project. Most of these projects depend on
/// crates of the workspace, but other steps do not build them.
pub(super) fn locks(sh: &Shell) -> anyhow::Result<Done> {
    let files = cmd!(sh, "git ls-files crates/**/Cargo.lock").quiet().read()?;
    for file in files.lines() {
        let manifest = Path::new(file).with_extension("toml");
        let metadata = "metadata --locked --quiet --format-version 1 --manifest-path";
        Quiet::cargo(sh, "locks").args(metadata).arg(&manifest).run()?;
    }
    Ok(Done::noting(format!("{} lock files", files.lines().count())))
}

/// Checks the published crates with the minimum Rust version in the manifests.
pub(super) fn msrv(sh: &Shell) -> anyhow::Result<Done> {
    let packages = crate::packages(sh)?;
    let versions = packages.iter().filter_map(|package| package["rust_version"].as_str());
    let Some(version) = versions.max() else { bail!("no package states a rust-version") };
    if is_version(&cmd!(sh, "rustc --version").quiet().read()?, version) {
        return Ok(Done::noting(format!("Rust {version} runs all steps")));
    }
    let toolchain = cmd!(sh, "rustup run {version} rustc --version").quiet().ignore_stdout().ignore_stderr().run();
    if toolchain.is_err() {
        println!();
        println!("  installing Rust {version} with rustup: once");
        let install = Quiet::new(sh, "msrv", "rustup").args(&format!("toolchain install {version} --profile minimal"));
        install.run().with_context(|| format!("Rust {version} is missing; install it"))?;
    }
    let check = format!("run {version} cargo check {PUBLISHED} --all-features --locked --target-dir target/ci/msrv");
    Quiet::new(sh, "msrv", "rustup").args(&check).run()?;
    Ok(Done::noting(format!("Rust {version}")))
}

/// Returns `true` if `output`, from `rustc --version`, is a patch release of `version`, such as 1.95.
fn is_version(output: &str, version: &str) -> bool {
    let patch = output.strip_prefix("rustc ").and_then(|output| output.strip_prefix(version));
    patch.is_some_and(|patch| patch.starts_with(['.', ' ']))
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn version_of_rustc_is_compared_without_its_patch() {
        assert!(is_version("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
        assert!(is_version("rustc 1.95.1 (59807616e 2026-04-14)", "1.95.1"));
        assert!(!is_version("rustc 1.95.0 (59807616e 2026-04-14)", "1.9"));
        assert!(!is_version("rustc 1.96.0-nightly (59807616e 2026-04-14)", "1.95"));
    }
}
