//! `cargo xtask docs` builds the rustdoc site.

use std::process::ExitCode;

use xshell::{Shell, cmd};

pub(crate) fn run(sh: &Shell) -> anyhow::Result<ExitCode> {
    let cargo = crate::cargo();
    // With this flag, the documentation of the facade crate includes the pages in `docs/`.
    let _flags = sh.push_env("RUSTDOCFLAGS", "-D warnings --cfg pintle_docs");
    cmd!(sh, "{cargo} doc --workspace --no-deps --all-features --locked").quiet().run()?;
    let index = crate::target_dir(sh)?.join("doc/pintle/index.html");
    println!("{}", index.display());
    Ok(ExitCode::SUCCESS)
}
