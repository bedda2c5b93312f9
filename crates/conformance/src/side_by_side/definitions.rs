//! Creates the CustomResourceDefinitions before all other documents, and compares the discovery and OpenAPI documents
//! of both servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::manifests::Manifest;
use super::normalise::without_shared;
use super::resources::Resources;
use super::{Causes, Comparison, Servers};
use crate::json::Json;
use crate::session::{Server, Session};

const MAX_DELAY: Duration = Duration::from_secs(10);

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Servers {
    /// Creates the definitions on both servers and waits until they are established. Afterwards, compares the discovery
    /// and OpenAPI documents for the new resources.
    pub(super) async fn compare_definitions(
        &self,
        definitions: Vec<Manifest>,
        at_once: usize,
        comparison: &mut Comparison,
    ) -> anyhow::Result<()> {
        let versions: BTreeSet<String> = definitions.iter().flat_map(served_versions).collect();
        let mut names = BTreeSet::new();
        // Send a duplicate definition only after the first definition with its name exists.
        let (first, repeated): (Vec<_>, Vec<_>) =
            definitions.into_iter().partition(|definition| names.insert(definition.text("/metadata/name").to_owned()));
        for (definitions, at_once) in [(first, at_once), (repeated, 1)] {
            let resources = Resources::of(&self.real).await?;
            let definitions = comparison.with_resources(definitions, &resources);
            self.compare_all(definitions, at_once, comparison).await?;
        }
        // All definitions share one deadline. Record the differences that remain at the deadline.
        let deadline = Instant::now() + MAX_DELAY;
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let [real, embedded] =
                [wait_until_settled(&self.real, &name).await?, wait_until_settled(&self.embedded, &name).await?];
            // Compare only definitions that both servers accepted. If one server rejected a definition, the results
            // already contain a difference for the create request.
            if real && embedded {
                self.compare_until_equal(&name, &[format!("{PATH}/{name}")], deadline, comparison).await?;
            }
        }
        let deadline = Instant::now() + MAX_DELAY;
        for version in versions {
            let paths = [format!("/apis/{version}"), format!("/openapi/v3/apis/{version}")];
            self.compare_until_equal(&version, &paths, deadline, comparison).await?;
        }
        Ok(())
    }

    /// Compares the responses of both servers to GET requests. Repeats the requests while the responses differ, because
    /// a real server publishes definitions with a delay.
    async fn compare_until_equal(
        &self,
        name: &str,
        paths: &[String],
        deadline: Instant,
        comparison: &mut Comparison,
    ) -> anyhow::Result<()> {
        loop {
            let [mut real, mut embedded] = self.get_from_both(paths).await?;
            without_shared(&mut real);
            without_shared(&mut embedded);
            let mut causes = Causes::default();
            causes.add("definition", name, &real, &embedded);
            if causes.0.is_empty() || Instant::now() >= deadline {
                comparison.requests += paths.len();
                comparison.causes.append(causes);
                return Ok(());
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Waits up to ten seconds until the server has established a definition or rejected its names. Returns `true` if the
/// definition exists on the server.
async fn wait_until_settled(server: &Arc<Server>, name: &str) -> anyhow::Result<bool> {
    let session = Session::new(server, "settled");
    let deadline = Instant::now() + MAX_DELAY;
    loop {
        let Ok(definition) = session.get(&format!("{PATH}/{name}")).await else { return Ok(false) };
        let has_condition = |kind: &str, status: &str| {
            definition.at(&format!("/status/conditions/type={kind}/status")).and_then(Json::text) == Some(status)
        };
        if has_condition("Established", "True") || has_condition("NamesAccepted", "False") {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(true);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn served_versions(definition: &Manifest) -> Vec<String> {
    let group = definition.text("/spec/group");
    let Some(Json::Array(versions)) = definition.body.at("/spec/versions") else { return Vec::new() };
    let served = versions.iter().filter(|version| version.member("served") == Some(&Json::Bool(true)));
    served.filter_map(|version| Some(format!("{group}/{}", version.member("name")?.text()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_served_ones_with_their_group() {
        let body = r#"{"spec":{"group":"g.io","versions":[{"name":"v1","served":true},{"name":"v2","served":false}]}}"#;
        let definition = Manifest { place: String::new(), body: serde_json::from_str(body).expect("JSON") };
        assert_eq!(served_versions(&definition), ["g.io/v1"]);
    }
}
