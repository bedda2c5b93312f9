//! Builds the README's program like a new user: in a separate project with the dependencies from the README.

use std::fs;

use anyhow::Context;
use xshell::Shell;

use super::command::Quiet;

/// The path of the facade crate in the README's dependencies.
const CLONE: &str = "\"../pintle/crates/pintle\"";

/// The build profile of dependencies, as in this workspace. With the same profile, a separate workspace can reuse
/// most of the built dependencies.
pub(super) const PROFILE: &str = r#"
[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false

[profile.dev.package.compact_str]
opt-level = 2

[profile.dev.package.jiff]
opt-level = 2

[profile.dev.package.tokio]
opt-level = 2

[profile.dev.package.tokio-util]
opt-level = 2
"#;

const MANIFEST: &str = r#"
[workspace]

[package]
name = "front-page"
edition = "2024"

"#;

pub(super) fn check(sh: &Shell) -> anyhow::Result<()> {
    let root = sh.current_dir();
    let page = fs::read_to_string(root.join("README.md"))?;
    let block = |tag| first_block(&page, tag).with_context(|| format!("README.md has no {tag} block"));
    let dependencies = block("toml")?;
    anyhow::ensure!(dependencies.contains(CLONE), "README.md: the dependencies do not contain the path {CLONE}");
    let dependencies = dependencies.replace(CLONE, "\"../../crates/pintle\"");
    let manifest = format!("{MANIFEST}{dependencies}\n{PROFILE}");

    let project = root.join("target/front-page");
    fs::create_dir_all(project.join("src"))?;
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("src/main.rs"), block("rust,no_run")?)?;
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock"))?;
    let check = Quiet::cargo(sh, "front-page").args("check --manifest-path").arg(project.join("Cargo.toml"));
    check.env("CARGO_TARGET_DIR", crate::target_dir(sh)?).run()?;
    Ok(())
}

fn first_block<'a>(page: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("\n```{tag}\n"))?;
    Some(rest.split_once("\n```\n")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_block_with_a_tag() {
        let page = "# A\n\n```toml\nx = 1\ny = 2\n```\n\n```rust\nfn a() {}\n```\n\n```rust\nfn b() {}\n```\n";
        assert_eq!(first_block(page, "toml"), Some("x = 1\ny = 2"));
        assert_eq!(first_block(page, "rust"), Some("fn a() {}"));
        assert_eq!(first_block(page, "console"), None);
    }
}
