//! Builds the workspace's own packages, and no others, with a checker's locks.
//!
//! `RUSTFLAGS` would have everything that they use built once more. Cargo calls a wrapper for the packages of the workspace alone:
//! a link to this very program, whose name says the flag.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use xshell::Shell;

const PREFIX: &str = "rustc-with-";

/// Where cargo finds the compiler that adds `--cfg NAME`.
pub(super) fn compiler(sh: &Shell, name: &str) -> anyhow::Result<PathBuf> {
    let link = sh.current_dir().join("target/ci").join(format!("{PREFIX}{name}"));
    let program = std::env::current_exe()?;
    // Made anew: it may be of a program of before.
    let made = fs::create_dir_all(link.parent().unwrap_or(Path::new("."))).and_then(|()| {
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
        fs::hard_link(&program, &link)
    });
    made.with_context(|| format!("making {}", link.display()))?;
    Ok(link)
}

/// Compiles, if this program was called for that: by such a link, with the compiler and its arguments.
pub(crate) fn compile() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = PathBuf::from(arguments.next()?);
    let flag = name.file_name()?.to_str()?.strip_prefix(PREFIX)?.to_owned();
    let status = Command::new(arguments.next()?).args(arguments).args(["--cfg", &flag]).status();
    match status {
        Ok(status) => Some(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into()),
        Err(error) => {
            eprintln!("error: the compiler does not start: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}
