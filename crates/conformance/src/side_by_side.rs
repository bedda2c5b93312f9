//! Sends manifests to a real kube-apiserver and to the embedded server, and compares the responses.

mod causes;
mod definitions;
mod exchange;
mod manifests;
mod normalise;
mod resources;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pintle_apiserver::Controllers;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::manifests::Manifest;
use self::resources::{Resource, Resources};
use crate::case::Step;
use crate::client::Client;
use crate::embedded;
use crate::session::{Server, Session};
use crate::verdict::Target;

pub use self::causes::{Cause, Causes, Sightings};

const STARTED: Duration = Duration::from_secs(60);

/// The result of a comparison of two servers.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The number of documents sent to both servers.
    pub documents: usize,
    /// The number of requests sent to each server.
    pub requests: usize,
    /// The skipped documents, each with a reason.
    pub skipped: Vec<String>,
    /// The differences between the servers, grouped by cause.
    pub causes: Causes,
}

/// Sends the manifests in a folder and its subfolders to a real server and to the embedded server, and compares the
/// responses. Starts the embedded server itself. The real server should be empty and run without controllers, because
/// this function does not delete the objects that it creates.
///
/// # Errors
///
/// Returns an error if the folder contains no manifests, or if a server does not start or respond.
pub async fn compare_servers(real: &Target, folder: &Path) -> anyhow::Result<Comparison> {
    let manifests = manifests::read(folder)?;
    let own = embedded::start_with(Controllers::NONE).await?;
    let server = |url: &str, token: &str| -> anyhow::Result<Arc<Server>> {
        let client = Client::new(url, &real.trust, real.limit)?;
        Ok(Arc::new(Server { client, token: token.to_owned(), patience: real.patience }))
    };
    let servers = Servers { real: server(&real.url, &real.token)?, embedded: server(&own.url(), "admin-token")? };
    ready(&servers.real).await?;

    let (definitions, others): (Vec<_>, Vec<_>) = manifests.documents.into_iter().partition(Manifest::is_definition);
    let mut comparison = Comparison { skipped: manifests.skipped, ..Comparison::default() };
    servers.compare_definitions(definitions, real.at_once, &mut comparison).await?;
    let others = comparison.with_resources(others, &Resources::of(&servers.real).await?);
    // Send cluster-scoped objects one after another, because they can change how a server handles other objects. For
    // example, a default StorageClass changes PersistentVolumeClaims.
    let (spaced, alone): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, resource)| resource.namespaced);
    servers.compare_all(alone, 1, &mut comparison).await?;
    servers.compare_all(spaced, real.at_once, &mut comparison).await?;
    own.shutdown().await;
    Ok(comparison)
}

#[derive(Clone)]
struct Servers {
    real: Arc<Server>,
    embedded: Arc<Server>,
}

struct Answers {
    manifest: Manifest,
    real: Vec<Step>,
    embedded: Vec<Step>,
}

impl Servers {
    async fn compare_all(
        &self,
        documents: Vec<(Manifest, Resource)>,
        at_once: usize,
        comparison: &mut Comparison,
    ) -> anyhow::Result<()> {
        let (mut running, mut answers) = (JoinSet::new(), Vec::new());
        for (index, (manifest, resource)) in documents.into_iter().enumerate() {
            if running.len() >= at_once.max(1)
                && let Some(done) = running.join_next().await
            {
                answers.push(done??);
            }
            let (servers, id) = (self.clone(), letters(comparison.documents + index));
            running.spawn(async move {
                let place = manifest.place.clone();
                let answers = servers.one(&id, manifest, resource).await.with_context(|| place)?;
                anyhow::Ok((index, answers))
            });
        }
        while let Some(done) = running.join_next().await {
            answers.push(done??);
        }
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().for_each(|(_, answers)| comparison.add(answers));
        Ok(())
    }

    async fn one(&self, id: &str, manifest: Manifest, resource: Resource) -> anyhow::Result<Answers> {
        let (real, embedded) = tokio::join!(
            exchange::exchange(&self.real, id, &manifest, &resource),
            exchange::exchange(&self.embedded, id, &manifest, &resource)
        );
        Ok(Answers {
            manifest,
            real: real.context("the real server")?,
            embedded: embedded.context("the embedded server")?,
        })
    }

    async fn get_from_both(&self, paths: &[String]) -> anyhow::Result<[Vec<Step>; 2]> {
        let (real, embedded) = tokio::join!(exchange::look(&self.real, paths), exchange::look(&self.embedded, paths));
        Ok([real.context("the real server")?, embedded.context("the embedded server")?])
    }
}

impl Comparison {
    /// Looks up the resource of each document, and skips documents of kinds that the server does not serve.
    fn with_resources(&mut self, documents: Vec<Manifest>, resources: &Resources) -> Vec<(Manifest, Resource)> {
        let mut found = Vec::new();
        for document in documents {
            match resources.get(&document) {
                Some(resource) => found.push((document, resource.clone())),
                None => self.skipped.push(format!("{}: {} is not served", document.place, document.kind())),
            }
        }
        found
    }

    fn add(&mut self, mut answers: Answers) {
        let custom = answers.manifest.is_custom();
        normalise::normalise(&mut answers.real, custom);
        normalise::normalise(&mut answers.embedded, custom);
        self.documents += 1;
        self.requests += answers.real.len();
        self.causes.add(&answers.manifest.kind(), &answers.manifest.place, &answers.real, &answers.embedded);
    }
}

async fn ready(server: &Arc<Server>) -> anyhow::Result<()> {
    let deadline = Instant::now() + STARTED;
    let session = Session::new(server, "ready");
    while let Err(error) = session.get("/api/v1/namespaces/default").await {
        anyhow::ensure!(Instant::now() < deadline, "the real server is not ready: {error:#}");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Encodes a number as letters for generated names, so that the text is unlikely to occur in documents.
fn letters(mut number: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz";
    let mut text = String::new();
    for _ in 0..5 {
        text.push(char::from(LETTERS[number % LETTERS.len()]));
        number /= LETTERS.len();
    }
    text.push('q');
    text
}
