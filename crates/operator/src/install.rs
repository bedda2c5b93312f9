//! The installation of CustomResourceDefinitions.

mod precedence;

use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ApiError, ConditionStatus, Patch, Resource, WriteOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use self::precedence::Decision;
use crate::OperatorError;

/// The path of the certificates of a conversion webhook in the spec of a definition.
const CERTIFICATES: &str = "/conversion/webhook/clientConfig/caBundle";
/// How long the API server may take to serve a custom resource, and how long failed requests are retried.
const LIMIT: Duration = Duration::from_secs(60);
/// The delay between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// The delay between two checks of whether the server serves the resource.
const SERVED_POLL: Duration = Duration::from_millis(100);

/// Applies a definition and waits until the server serves the resource. Keeps the installed definition if this build must
/// not replace it.
pub(crate) async fn install(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    field_manager: &str,
) -> Result<(), OperatorError> {
    let definitions = cluster.api::<CustomResourceDefinition>();
    let until = Instant::now() + LIMIT;
    let name = &definition.metadata.name;
    let mut last = apply_or_keep(cluster, definition, field_manager).await?;
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
        Ok(Err(error)) => Err(failed::<CustomResourceDefinition>(name, error)),
        Err(_) => {
            Err(OperatorError::NotEstablished { name: name.clone(), seconds: LIMIT.as_secs(), reason: reason(&last) })
        }
    }
}

/// Applies the definition, unless this build must not replace the installed definition. Returns the installed
/// definition.
async fn apply_or_keep(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    field_manager: &str,
) -> Result<CustomResourceDefinition, OperatorError> {
    let definitions = cluster.api::<CustomResourceDefinition>();
    let (name, until) = (&definition.metadata.name, Instant::now() + LIMIT);
    loop {
        let attempt = async {
            let installed = match definitions.get(name.as_str()).await {
                Ok(installed) => installed,
                Err(error) if error.is_object_not_found() => {
                    return definitions.apply(definition, &WriteOptions::apply(field_manager)).await.map(Ok);
                }
                Err(error) => return Err(error),
            };
            match precedence::decide(definition, &installed) {
                Decision::Apply => {}
                Decision::Keep(reason) => {
                    tracing::warn!(name, reason, "keeping the installed CustomResourceDefinition");
                    return keep(cluster, definition, installed, field_manager).await.map(Ok);
                }
                Decision::Refuse(problem) => return Ok(Err(problem)),
            }
            let mut own = definition.clone();
            // The request fails with a conflict if another build has written the definition since the read.
            own.metadata.resource_version = installed.metadata.resource_version;
            definitions.apply(&own, &WriteOptions::apply(field_manager)).await.map(Ok)
        };
        match attempt.await {
            Ok(Ok(installed)) => return Ok(installed),
            Ok(Err(problem)) => return Err(OperatorError::Definition { name: name.clone(), problem }),
            Err(error) => retry_later::<CustomResourceDefinition>(name, error, until).await?,
        }
    }
}

/// Keeps the installed definition. If both definitions have a conversion webhook, this function still updates the
/// certificates of the webhook, because they belong to the cluster and not to a build.
async fn keep(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    installed: CustomResourceDefinition,
    field_manager: &str,
) -> Result<CustomResourceDefinition, ApiError> {
    let certificates = |definition: &CustomResourceDefinition| definition.spec.pointer(CERTIFICATES).cloned();
    let (Some(own), Some(old)) = (certificates(definition), certificates(&installed)) else { return Ok(installed) };
    if own == old {
        return Ok(installed);
    }
    let metadata = json!({"resourceVersion": installed.metadata.resource_version});
    let conversion = json!({"webhook": {"clientConfig": {"caBundle": own}}});
    let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"conversion": conversion}}));
    let options = WriteOptions { field_manager: field_manager.into(), ..WriteOptions::default() };
    let definitions = cluster.api::<CustomResourceDefinition>();
    definitions.patch(definition.metadata.name.as_str(), &patch, &options).await
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
            Ok(Err(error)) => return Err(failed::<CustomResourceDefinition>(name, error)),
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
#[cfg(feature = "webhook")]
pub(crate) async fn apply<T>(cluster: &Cluster, object: &T, field_manager: &str) -> Result<T, OperatorError>
where
    T: Resource + serde::Serialize + serde::de::DeserializeOwned,
{
    let until = Instant::now() + LIMIT;
    loop {
        match cluster.api::<T>().apply(object, &WriteOptions::apply(field_manager)).await {
            Ok(applied) => return Ok(applied),
            Err(error) => retry_later::<T>(object.name(), error, until).await?,
        }
    }
}

/// Waits before the next attempt to install an object. Returns an error if the server has rejected the request, or if
/// the time limit has passed.
async fn retry_later<T: Resource>(name: &str, error: ApiError, until: Instant) -> Result<(), OperatorError> {
    if is_final(&error) || Instant::now() + RETRY >= until {
        return Err(failed::<T>(name, error));
    }
    tracing::warn!(kind = T::KIND, name, %error, "cannot install an object yet; retrying");
    sleep(RETRY).await;
    Ok(())
}

fn failed<T: Resource>(name: &str, error: ApiError) -> OperatorError {
    OperatorError::Install { kind: T::KIND, name: name.into(), cause: Box::new(error) }
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
