//! Builds both sides, and names the peers that cannot be built.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use xshell::{Shell, cmd};

use super::{Area, Program, Work};

/// The programs that stand ready, and the peers without one.
pub(crate) struct Built {
    rust: PathBuf,
    go: Option<PathBuf>,
    /// Peer → why its column is empty.
    pub(crate) missing: BTreeMap<&'static str, String>,
}

impl Built {
    /// The file to run, or `None` for a peer that is missing.
    pub(crate) fn program(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Rust(name) => Some(self.rust.join(name)),
            Program::Go(name) => Some(self.go.as_ref()?.join(name)),
        }
    }
}

pub(crate) fn build(sh: &Shell, area: &Area, works: &[&Work]) -> anyhow::Result<Built> {
    println!("building our side");
    let cargo = crate::cargo();
    // As one who wants it fast builds it; Go has no such choice.
    let fast = ["--config", "profile.release.lto='fat'", "--config", "profile.release.codegen-units=1"];
    cmd!(sh, "{cargo} build --quiet --locked --release {fast...} --package pintle-bench --bins").quiet().run()?;
    let target = crate::target_dir(sh)?;

    let go_peers: Vec<&'static str> = {
        let peers = works.iter().flat_map(|work| work.peers);
        peers.filter(|(_, run)| matches!(run.program, Program::Go(_))).map(|(peer, _)| *peer).collect()
    };
    let mut missing = BTreeMap::new();
    let mut go = None;
    if !go_peers.is_empty() {
        println!("building {}", unique(&go_peers).join(", "));
        match build_go(sh, area, &target.join("bench").join(area.name)) {
            Ok(folder) => go = Some(folder),
            Err(why) => missing.extend(go_peers.into_iter().map(|peer| (peer, format!("{why:#}")))),
        }
    }
    for (peer, why) in &missing {
        println!("{peer} is left out: {why}");
    }
    Ok(Built { rust: target.join("release"), go, missing })
}

fn build_go(sh: &Shell, area: &Area, into: &std::path::Path) -> anyhow::Result<PathBuf> {
    if cmd!(sh, "go version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
        bail!("`go` is not installed");
    }
    let module = sh.current_dir().join("crates/bench/go").join(area.name);
    if !module.join("go.mod").is_file() {
        bail!("{} is not there", module.join("go.mod").display());
    }
    std::fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let into_folder = format!("{}/", into.display());
    let _module = sh.push_dir(&module);
    // `readonly`: the peers' versions are those of go.sum, or the build fails.
    cmd!(sh, "go build -mod=readonly -trimpath -o {into_folder} ./...").quiet().run()?;
    Ok(into.to_owned())
}

fn unique(names: &[&'static str]) -> Vec<&'static str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    names
}
