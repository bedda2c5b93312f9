//! `cargo xtask new-operator NAME` creates an operator project outside of this workspace.
//!
//! The template `crates/pintle/template` is a complete project. The job copies it with another name and another path
//! to Pintle.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use xshell::{Shell, cmd};

use crate::flags::NewOperator;

const TEMPLATE: &str = "crates/pintle/template";
const PLACEHOLDER: &str = "website-operator";
/// The beginning of the line in the template that declares the dependency on Pintle.
const DEPENDENCY: &str = "pintle = { path = \"..\"";
/// The maximum length of a project name. The name also becomes a label value and the name of a Lease.
const LONGEST: usize = 50;

/// Names that the compiler or cargo rejects, and names of crates that every project depends on.
const TAKEN: &str = "\
    abstract alloc as async await become box break build const continue core crate deps do dyn else enum examples \
    extern false final fn for gen if impl in incremental k8s-openapi let loop macro match mod move mut operator \
    override pintle priv proc-macro pub ref return schemars self serde serde-yaml static std struct super test tokio \
    tracing-subscriber trait true try type typeof unsafe unsized use virtual where while yield";

pub(crate) fn run(sh: &Shell, flags: &NewOperator) -> anyhow::Result<ExitCode> {
    let (root, name) = (sh.current_dir(), flags.name.as_str());
    let folder = match &flags.path {
        Some(path) => std::path::absolute(path)?,
        None => root.parent().context("the repository has no parent folder; set --path")?.join(name),
    };
    let folder = normal(&folder);
    ensure!(!folder.starts_with(&root), "{} is inside of this repository; choose another --path", folder.display());
    write(sh, name, &folder)?;
    println!("{} is a working operator. Next:", folder.display());
    println!("  cd {}", folder.display());
    println!("  cargo test      # needs no cluster");
    println!("  cargo run       # on the cluster of your kubeconfig");
    println!("README.md describes how to change the operator.");
    Ok(ExitCode::SUCCESS)
}

/// Creates the project in a folder, which must be empty or absent.
pub(crate) fn write(sh: &Shell, name: &str, folder: &Path) -> anyhow::Result<()> {
    check_name(name)?;
    let root = sh.current_dir();
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not empty; choose another --path", folder.display());
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // Resolve symbolic links, because cargo does not follow them when it removes `..` from a dependency's path.
    let folder = &folder.canonicalize()?;
    let pintle = relative(folder, &root.canonicalize()?);
    let template = root.join(TEMPLATE);
    for file in crate::files(&template, &["target", "Cargo.lock"])? {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let target = folder.join(file.strip_prefix(&template)?);
        fs::create_dir_all(target.parent().unwrap_or(folder))?;
        fs::write(&target, fill(&text, name, &pintle)).with_context(|| format!("writing {}", target.display()))?;
    }
    // Copy the lock file, so that the project has the dependency versions that this repository is tested with. cargo
    // removes unused entries.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let (cargo, manifest) = (crate::cargo(), folder.join("Cargo.toml"));
    cmd!(sh, "{cargo} metadata --quiet --format-version 1 --manifest-path {manifest}").quiet().ignore_stdout().run()?;
    Ok(())
}

/// Replaces the project name and the paths to Pintle in a template file. Builds on this machine and builds of the
/// container image need different paths.
fn fill(text: &str, name: &str, pintle: &Path) -> String {
    let in_image = normal(&Path::new("/src").join(name).join(pintle));
    let (pintle, in_image) = (slashes(pintle), slashes(&in_image));
    text.replace(DEPENDENCY, &format!("pintle = {{ path = \"{pintle}/crates/pintle\""))
        .replace("@PINTLE@", &pintle)
        .replace("@PINTLE_IN_IMAGE@", &in_image)
        .replace(PLACEHOLDER, name)
        .replace(&PLACEHOLDER.replace('-', "_"), &name.replace('-', "_"))
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_kebab_case = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.split('-').all(word);
    ensure!(
        is_kebab_case,
        "the name {name:?} is not in kebab-case: use lower-case letters, digits and single hyphens, such as website-operator"
    );
    ensure!(name.len() <= LONGEST, "the name {name:?} has {} characters; at most {LONGEST} are allowed", name.len());
    ensure!(
        !TAKEN.split(' ').any(|taken| taken == name),
        "the name {name:?} is taken by Rust or by a crate that the project uses; choose another"
    );
    Ok(())
}

/// Returns the relative path between two absolute folders, or an absolute path if they share only the root.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(left, right)| left == right).count();
    if common <= 1 {
        return to.to_owned();
    }
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

/// Removes `.` and `..` from an absolute path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}

fn slashes(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_are_rejected_with_advice() {
        for name in ["website-operator", "a", "redis7", "a-1"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(51);
        for (name, advice) in [
            ("", "kebab-case"),
            ("WebsiteOperator", "kebab-case"),
            ("web_site", "kebab-case"),
            ("web--site", "kebab-case"),
            ("-web", "kebab-case"),
            ("web-", "kebab-case"),
            ("7web", "kebab-case"),
            ("wéb", "kebab-case"),
            ("../web", "kebab-case"),
            ("tokio", "taken"),
            ("async", "taken"),
            (&long, "at most 50"),
            ("build", "taken"),
            ("deps", "taken"),
            ("examples", "taken"),
            ("incremental", "taken"),
        ] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains(advice), "{name:?}: {error}");
        }
    }

    #[test]
    fn project_and_image_find_pintle() {
        let path = |project, root| relative(Path::new(project), Path::new(root));
        assert_eq!(path("/home/ann/shop", "/home/ann/pintle"), Path::new("../pintle"));
        assert_eq!(path("/home/ann/code/shop", "/home/ann/pintle"), Path::new("../../pintle"));
        assert_eq!(path("/srv/shop", "/home/ann/pintle"), Path::new("/home/ann/pintle"));
        let text = "pintle = { path = \"..\", features = [] } COPY @PINTLE_IN_IMAGE@ website_operator website-operator";
        let filled = fill(text, "shop-keeper", Path::new("../pintle"));
        let expected =
            "pintle = { path = \"../pintle/crates/pintle\", features = [] } COPY /src/pintle shop_keeper shop-keeper";
        assert_eq!(filled, expected);
        assert!(fill(text, "shop", Path::new("/home/ann/pintle")).contains("COPY /home/ann/pintle shop"));
    }
}
