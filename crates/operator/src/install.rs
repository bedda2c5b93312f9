//! The installation of CustomResourceDefinitions.

use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ApiError, ConditionStatus, Resource, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::OperatorError;

/// How long the API server may take to serve a custom resource, and how long failed requests are retried.
const LIMIT: Duration = Duration::from_secs(60);
/// The delay between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// The delay between two checks of whether the server serves the resource.
const SERVED_POLL: Duration = Duration::from_millis(100);

/// Applies a definition and waits until the server serves the resource.
pub(crate) async fn install(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    field_manager: &str,
) -> Result<(), OperatorError> {
    let definitions = cluster.api::<CustomResourceDefinition>();
    let until = Instant::now() + LIMIT;
    let name = &definition.metadata.name;
    let mut last = apply(cluster, definition, field_manager).await?;
    if last.is_established() {
        return wait_until_served(cluster, definition, until).await;
    }
    let established = definitions.wait_for(name.as_str(), |definition| {
        if let Some(definition) = definition {
            last = definition.clone();
        }
        definition.is_some_and(CustomResourceDefinition::is_established)
    });
    match timeout_at(until, established).await {
        Ok(Ok(_)) => wait_until_served(cluster, definition, until).await,
        Ok(Err(error)) => Err(OperatorError::Install {
            kind: CustomResourceDefinition::KIND,
            name: name.clone(),
            cause: Box::new(error),
        }),
        Err(_) => {
            Err(OperatorError::NotEstablished { name: name.clone(), seconds: LIMIT.as_secs(), reason: reason(&last) })
        }
    }
}

/// Waits until the server's discovery documents list the resource in all served versions. kube-apiserver sets the
/// condition `Established` a moment before it serves the resource. Between these two moments, requests get the status
/// 404.
async fn wait_until_served(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    until: Instant,
) -> Result<(), OperatorError> {
    let (name, spec) = (&definition.metadata.name, &definition.spec);
    let (group, plural) = (spec["group"].as_str().unwrap_or_default(), &spec["names"]["plural"]);
    let versions = spec["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["served"] == true) {
        let path = format!("/apis/{group}/{}", version["name"].as_str().unwrap_or_default());
        let mut reason = format!("{path} does not answer");
        let served = async {
            loop {
                match cluster.client().get().request_uri(&path).object::<Value>().await.map_err(ApiError::from) {
                    Ok(list) if lists(&list, plural) => return Ok(()),
                    Ok(_) => reason = format!("{path} does not list {plural}"),
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => reason = error.to_string(),
                }
                sleep(SERVED_POLL).await;
            }
        };
        match timeout_at(until, served).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let kind = CustomResourceDefinition::KIND;
                return Err(OperatorError::Install { kind, name: name.clone(), cause: Box::new(error) });
            }
            Err(_) => {
                return Err(OperatorError::NotEstablished { name: name.clone(), seconds: LIMIT.as_secs(), reason });
            }
        }
    }
    Ok(())
}

/// Returns whether a discovery document lists the resource.
fn lists(document: &Value, plural: &Value) -> bool {
    document["resources"].as_array().is_some_and(|all| all.iter().any(|resource| resource["name"] == *plural))
}

/// Applies an object to the cluster. Retries failed requests, unless the server has rejected the request.
pub(crate) async fn apply<T>(cluster: &Cluster, object: &T, field_manager: &str) -> Result<T, OperatorError>
where
    T: Resource + Serialize + DeserializeOwned,
{
    let until = Instant::now() + LIMIT;
    loop {
        match cluster.api::<T>().apply(object, &WriteOptions::apply(field_manager)).await {
            Ok(applied) => return Ok(applied),
            Err(error) if is_final(&error) || Instant::now() + RETRY >= until => {
                return Err(OperatorError::Install {
                    kind: T::KIND,
                    name: object.name().into(),
                    cause: Box::new(error),
                });
            }
            Err(error) => {
                tracing::warn!(kind = T::KIND, name = object.name(), %error, "cannot install an object yet; retrying");
                sleep(RETRY).await;
            }
        }
    }
}

/// Returns whether retrying cannot help, because the server understood the request and rejected it.
fn is_final(error: &ApiError) -> bool {
    error.is_forbidden() || error.is_invalid() || error.is_bad_request() || error.is_unauthorized()
}

fn reason(definition: &CustomResourceDefinition) -> String {
    let conditions = definition.status.iter().flat_map(|status| &status.conditions.0);
    let problems: Vec<_> = conditions
        .filter(|condition| condition.status == ConditionStatus::False)
        .map(|condition| format!("{} is false: {}", condition.condition_type, condition.message))
        .collect();
    if problems.is_empty() { "the server reports no condition".into() } else { problems.join("; ") }
}
