//! Copies files to a simulated pod and back.

use std::fs;

use anyhow::ensure;

use crate::{download, pod, upload};

pub(crate) async fn run() -> anyhow::Result<()> {
    let (pods, root) = pod::start().await?;
    let local = tempfile::tempdir()?;
    let page = "<h1>Hello</h1>\n".repeat(10_000);
    fs::create_dir_all(local.path().join("site/images"))?;
    fs::write(local.path().join("site/index.html"), &page)?;
    upload(&pods, &local.path().join("site"), "default/web-1", ".").await?;
    ensure!(fs::read_to_string(root.path().join("site/index.html"))? == page);
    download(&pods, "default/web-1", "site/index.html", local.path()).await?;
    ensure!(fs::read_to_string(local.path().join("index.html"))? == page);
    match download(&pods, "default/web-1", "missing", local.path()).await {
        Ok(()) => anyhow::bail!("the file does not exist"),
        Err(missing) => println!("as expected: {missing:#}"),
    }
    Ok(())
}
