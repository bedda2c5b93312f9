//! `cargo xtask tidy` checks the repository rules that other tools do not check.

mod circles;
mod crates;
mod layers;
mod links;
mod modules;
mod plain;
mod rows;
mod text;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::bail;
use xshell::{Shell, cmd};

pub(crate) struct Finding {
    file: PathBuf,
    line: Option<usize>,
    text: String,
}

impl Finding {
    fn new(file: &Path, line: impl Into<Option<usize>>, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: line.into(), text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file.display(), self.text),
            None => write!(f, "{}: {}", self.file.display(), self.text),
        }
    }
}

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    fn is(&self, ending: &str) -> bool {
        self.path.extension().is_some_and(|found| found == ending)
    }
}

/// Checks all rules on all files, and returns all violations in one error.
pub(crate) fn run(sh: &Shell) -> anyhow::Result<String> {
    let root = sh.current_dir();
    let sources = sources(sh, &root)?;
    let packages = crate::packages(sh)?;
    let mut findings = Vec::new();
    text::check(&sources, &mut findings);
    links::check(&root, &sources, &mut findings);
    rows::check(&sources, &mut findings);
    plain::check(&sources, &mut findings);
    crates::check(&root, &sources, &packages, &mut findings);
    words::check(&root, &sources, &packages, &mut findings);
    modules::check(&sources, &mut findings);
    circles::check(&sources, &mut findings);
    layers::check(sh, &root, &packages, &mut findings)?;
    if findings.is_empty() {
        return Ok(format!("{} files", sources.len()));
    }
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    bail!("{}\n{} findings", lines.join("\n"), lines.len());
}

/// Returns all text files of the repository, including untracked files that are not ignored.
fn sources(sh: &Shell, root: &Path) -> anyhow::Result<Vec<Source>> {
    let listed = cmd!(sh, "git ls-files --cached --others --exclude-standard").quiet().ignore_stderr().read();
    let mut paths: Vec<PathBuf> = match listed {
        Ok(listed) => listed.lines().map(PathBuf::from).collect(),
        // Check all files if git is not available, for example in an unpacked archive.
        Err(_) => {
            let files = crate::files(root, &["target", ".git"])?;
            files.into_iter().filter_map(|file| Some(file.strip_prefix(root).ok()?.to_owned())).collect()
        }
    };
    paths.sort();
    // Skip deleted files, and files that are not valid UTF-8.
    let text =
        |path: PathBuf| Some(Source { text: String::from_utf8(std::fs::read(root.join(&path)).ok()?).ok()?, path });
    Ok(paths.into_iter().filter_map(text).collect())
}
