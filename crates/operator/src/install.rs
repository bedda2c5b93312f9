//! The installation of CustomResourceDefinitions.

use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ApiError, ConditionStatus, WriteOptions};
use tokio::time::{Instant, sleep, timeout_at};

use crate::OperatorError;

/// How long the API server may take to serve a custom resource, and how long failed requests are retried.
const LIMIT: Duration = Duration::from_secs(60);
/// The delay between two tries.
const RETRY: Duration = Duration::from_secs(1);

/// Applies a definition and waits until the server serves the resource. Failed requests are retried, except those that the server
/// rejects.
pub(crate) async fn install(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    field_manager: &str,
) -> Result<(), OperatorError> {
    let definitions = cluster.api::<CustomResourceDefinition>();
    let until = Instant::now() + LIMIT;
    let name = &definition.metadata.name;
    let mut last = loop {
        match definitions.apply(definition, &WriteOptions::apply(field_manager)).await {
            Ok(applied) => break applied,
            Err(error) if is_final(&error) || Instant::now() + RETRY >= until => {
                return Err(OperatorError::Install { name: name.clone(), cause: Box::new(error) });
            }
            Err(error) => {
                tracing::warn!(definition = name, %error, "cannot install a CustomResourceDefinition yet; retrying");
                sleep(RETRY).await;
            }
        }
    };
    if last.is_established() {
        return Ok(());
    }
    let established = definitions.wait_for(name.as_str(), |definition| {
        if let Some(definition) = definition {
            last = definition.clone();
        }
        definition.is_some_and(CustomResourceDefinition::is_established)
    });
    match timeout_at(until, established).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(OperatorError::Install { name: name.clone(), cause: Box::new(error) }),
        Err(_) => {
            Err(OperatorError::NotEstablished { name: name.clone(), seconds: LIMIT.as_secs(), reason: reason(&last) })
        }
    }
}

/// Returns whether a retry cannot help: the server understood the request and rejected it.
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
