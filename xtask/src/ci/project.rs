//! Creates an operator with `cargo xtask new-operator`, and runs its tests and its program.

use std::fs;

use anyhow::ensure;
use xshell::Shell;

use super::Done;
use super::command::Quiet;
use super::front_page::PROFILE;

const NAME: &str = "example-operator";

/// Checks that the project is formatted, that its tests pass, and that the program prints its CustomResourceDefinition.
pub(super) fn check(sh: &Shell) -> anyhow::Result<Done> {
    let step = "new-operator";
    let parent = sh.current_dir().join("target/new-operator");
    let (folder, profile) = (parent.join(NAME), parent.join("profile.toml"));
    if parent.exists() {
        fs::remove_dir_all(&parent)?;
    }
    crate::new_operator::write(sh, NAME, &folder)?;
    fs::write(&profile, PROFILE)?;
    // This empty file overrides the repository's rustfmt configuration with the default style.
    fs::write(parent.join("rustfmt.toml"), "")?;

    let manifest = folder.join("Cargo.toml");
    Quiet::cargo(sh, step).args("fmt --check --manifest-path").arg(&manifest).run()?;
    let target = crate::target_dir(sh)?;
    let tests = Quiet::cargo(sh, step).args("test --locked --test operator --manifest-path").arg(&manifest);
    // Use the target folder of the workspace, which already contains most dependencies for this profile.
    let tests =
        tests.arg("--config").arg(&profile).env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0").run()?;
    // Start the program from the tests' build, because `cargo run` would rebuild Pintle without the features for tests.
    let program = target.join("debug").join(NAME).with_extension(std::env::consts::EXE_EXTENSION);
    let printed = Quiet::new(sh, step, program).arg("crd").run()?;
    let stored = fs::read_to_string(folder.join("deploy/crd.yaml"))?;
    ensure!(printed == stored, "`{NAME} crd` does not print deploy/crd.yaml:\n{printed}");
    Ok(Done { note: "a new project passes its tests".into(), tests: super::Tally::read(&tests) })
}
