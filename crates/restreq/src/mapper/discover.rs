//! Fetches the server's discovery documents.

use std::collections::BTreeMap;

use pintle_meta::{ApiError, GroupVersion};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::documents::{Resources, Root};
use super::{DiscoveredResource, Known};
use crate::client::RestClient;

/// The media types that are accepted for discovery documents. The server uses the first of these types that it
/// supports.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList, \
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList, application/json";

const AT_ONCE: usize = 10;

/// Fetches all discovery documents of the server. `turn` is the sequence number of this fetch among all lookups
/// and fetches.
pub(super) async fn ask(client: &RestClient, turn: u64) -> Result<Known, ApiError> {
    let asked = Instant::now();
    let (core, groups) = tokio::join!(part(client, "/api"), part(client, "/apis"));
    let mut known = Known { resources: Vec::new(), missing: Vec::new(), asked, turn };
    let mut skipped = None;
    for part in [core, groups] {
        match (part, &skipped) {
            (Ok((resources, missing)), _) => {
                known.resources.extend(resources);
                known.missing.extend(missing);
            }
            // One of the two root paths may be missing or forbidden, so continue with the other path.
            (Err(error), None) if error.is_not_found() || error.is_forbidden() => skipped = Some(error),
            (Err(error), _) => return Err(error),
        }
    }
    Ok(known)
}

type Part = (Vec<DiscoveredResource>, Vec<GroupVersion>);

/// Fetches all discovery documents below `path`, which is `/api` or `/apis`. Returns an error if the root document
/// cannot be fetched.
async fn part(client: &RestClient, path: &str) -> Result<Part, ApiError> {
    let root = client.get().abs_path([path]).header("accept", AGGREGATED).object().await;
    let group_versions = match root {
        Ok(Root::Aggregated(document)) => return Ok(document.resources()),
        Ok(Root::Core(document)) => document.group_versions(),
        Ok(Root::Groups(document)) => document.group_versions(),
        Err(error) => return Err(error),
    };
    Ok(one_by_one(client, group_versions).await)
}

/// Fetches the discovery document of each group version separately. Lists group versions that cannot be fetched as
/// missing.
async fn one_by_one(client: &RestClient, group_versions: Vec<GroupVersion>) -> Part {
    let mut requests = JoinSet::new();
    let mut answers = BTreeMap::new();
    let mut waiting = group_versions.iter().enumerate();
    loop {
        while requests.len() < AT_ONCE
            && let Some((at, group_version)) = waiting.next()
        {
            let request = client.get().abs_path([group_version.path()]);
            requests.spawn(async move { (at, request.object::<Resources>().await) });
        }
        match requests.join_next().await {
            Some(Ok((at, answer))) => _ = answers.insert(at, answer),
            // Unreachable, because the tasks do not panic and are never aborted.
            Some(Err(_)) => {}
            None => break,
        }
    }
    let (mut resources, mut missing) = (Vec::new(), Vec::new());
    for (at, group_version) in group_versions.into_iter().enumerate() {
        match answers.remove(&at) {
            Some(Ok(document)) => resources.extend(document.resources(&group_version)),
            failed => {
                if let Some(Err(error)) = failed {
                    report(&group_version, &error);
                }
                missing.push(group_version);
            }
        }
    }
    (resources, missing)
}

fn report(group_version: &GroupVersion, error: &ApiError) {
    tracing::warn!(%group_version, "cannot list the resources of a group: {error}");
}
