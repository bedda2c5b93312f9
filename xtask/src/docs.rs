//! `cargo xtask docs` builds the rustdoc site.

use std::process::ExitCode;

use xshell::{Shell, cmd};

/// The cargo arguments to build the rustdoc site without the internal crates of the workspace.
pub(crate) const SITE: &str = "doc --workspace --exclude pintle-bench --exclude pintle-conformance --exclude xtask --no-deps --all-features --locked";

pub(crate) fn run(sh: &Shell) -> anyhow::Result<ExitCode> {
    let cargo = crate::cargo();
    // With this flag, the documentation of the facade crate includes the pages in `docs/`.
    let _flags = sh.push_env("RUSTDOCFLAGS", "-D warnings --cfg pintle_docs");
    let args = SITE.split(' ');
    cmd!(sh, "{cargo} {args...}").quiet().run()?;
    let index = crate::target_dir(sh)?.join("doc/pintle/index.html");
    println!("{}", index.display());
    Ok(ExitCode::SUCCESS)
}
