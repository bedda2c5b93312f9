//! Builds the workspace packages with the lock types of loom or shuttle.
//!
//! A `--cfg` flag in `RUSTFLAGS` would rebuild all dependencies. Therefore, a compiler wrapper adds the flag, and
//! cargo runs the wrapper only for workspace packages. The wrapper is a symbolic link to xtask. xtask reads the flag
//! from the name of this link, such as `loom`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use xshell::Shell;

const PREFIX: &str = "rustc-with-";

/// Returns the path of the compiler wrapper that adds `--cfg NAME`.
pub(super) fn compiler(sh: &Shell, name: &str) -> anyhow::Result<PathBuf> {
    link(sh, &format!("{PREFIX}{name}"))
}

/// Creates a link to this program under another name, and returns the path of the link.
pub(super) fn link(sh: &Shell, name: &str) -> anyhow::Result<PathBuf> {
    let link = sh.current_dir().join("target/ci").join(name);
    let program = std::env::current_exe()?;
    // Replace an existing link, which may refer to an older build.
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

/// If this program was started through a link from [`compiler`], runs rustc with the `--cfg` flag. Returns `None` if
/// the program was started under its own name.
pub(crate) fn compile() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = PathBuf::from(arguments.next()?);
    let flag = name.file_name()?.to_str()?.strip_prefix(PREFIX)?.to_owned();
    let status = Command::new(arguments.next()?).args(arguments).args(["--cfg", &flag]).status();
    match status {
        Ok(status) => Some(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into()),
        Err(error) => {
            eprintln!("error: cannot start the compiler: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}
