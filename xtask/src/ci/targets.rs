//! Checks the published crates for other operating systems.
//!
//! Build scripts of some dependencies compile C code. A check of the Rust code does not use the compiled C code,
//! so this program acts as a C compiler that creates empty files. Therefore, the step needs no cross compiler,
//! but does not check that the C code compiles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use xshell::{Shell, cmd};

use super::Done;
use super::checked::link;
use super::command::Quiet;
use super::published::PUBLISHED;

/// The targets to check, because all other steps run on Linux.
const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// The name of the link to this program that build scripts call as the C compiler and archiver.
const STUB: &str = "empty-c-output";

pub(super) fn check(sh: &Shell) -> anyhow::Result<Done> {
    let stub = link(sh, STUB)?;
    for target in TARGETS {
        install(sh, target)?;
        let name = target.replace('-', "_");
        // Use a separate target folder, because these build scripts must not reuse the output of a real C
        // compiler.
        let run = format!("check {PUBLISHED} --all-features --locked --target {target} --target-dir target/ci/targets");
        let run = Quiet::cargo(sh, "targets").args(&run);
        let run = run.env(&format!("CC_{name}"), &stub).env(&format!("AR_{name}"), &stub);
        run.env("RUSTFLAGS", "-D warnings").run()?;
    }
    Ok(Done::noting(TARGETS.join(", ")))
}

fn install(sh: &Shell, target: &str) -> anyhow::Result<()> {
    let library = cmd!(sh, "rustc --print target-libdir --target {target}").quiet().read()?;
    if Path::new(&library).is_dir() {
        return Ok(());
    }
    println!();
    println!("  installing the standard library for {target} with rustup: once");
    let add = Quiet::new(sh, "targets", "rustup").args(&format!("target add {target}"));
    add.run().map(drop).with_context(|| format!("the standard library for {target} is missing; install the target"))
}

/// If a build script has started this program as the C compiler or archiver, creates empty output files. Returns
/// `None` if the program was started under its own name.
pub(crate) fn compile_nothing() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().map(PathBuf::from);
    if arguments.next()?.file_stem()? != STUB {
        return None;
    }
    for output in outputs(arguments) {
        if let Err(error) = fs::write(&output, []) {
            eprintln!("error: cannot write {}: {error}", output.display());
            return Some(ExitCode::FAILURE);
        }
    }
    Some(ExitCode::SUCCESS)
}

/// Returns the output files among the arguments of a compiler or archiver: files after `-o`, and archives.
fn outputs(arguments: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut follows_option = false;
    let is_output = |argument: &PathBuf| {
        let is_archive = argument.extension().is_some_and(|extension| extension == "a");
        std::mem::replace(&mut follows_option, argument.as_os_str() == "-o") || is_archive
    };
    arguments.filter(is_output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: &[&str]) {
        let outputs = outputs(arguments.split(' ').map(PathBuf::from));
        assert_eq!(outputs, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
    }

    #[test]
    fn outputs_of_compiler_and_archiver_are_found() {
        check("-O2 -o a/b.o -c b.c", &["a/b.o"]);
        check("cq libb.a b.o c.o", &["libb.a"]);
        check("-E b.c", &[]);
    }
}
