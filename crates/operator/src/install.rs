//! Installs CustomResourceDefinitions.

mod certificates;
#[cfg(feature = "webhook")]
mod configuration;
mod managers;
mod precedence;

use std::time::Duration;

use pintle_cluster::Cluster;
use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ApiError, ConditionStatus, Patch, Resource, WriteOptions};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use self::precedence::Decision;
#[cfg(feature = "webhook")]
pub(crate) use self::precedence::order_of;
use crate::error::OperatorError;

/// The JSON pointer to the client configuration of the conversion webhook in the spec of a definition.
const CLIENT_CONFIG: &str = "/conversion/webhook/clientConfig";
/// How long the manager waits for the API server to serve a new custom resource.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(1);
/// How often an installation is repeated immediately because another replica or the server has written the definition
/// since the read.
const REPEATS: u32 = 3;
/// The minimum delay between warnings about failed attempts.
const WARN_AGAIN: Duration = Duration::from_secs(60);
/// The delay between discovery requests while the resource is not yet served.
const SERVED_POLL: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct Installer {
    pub(crate) field_manager: String,
    pub(crate) replaces_newer: bool,
    pub(crate) awaits_permissions: bool,
}

enum Failure {
    Temporary(ApiError),
    Final(OperatorError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Temporary(error)
    }
}

impl Installer {
    /// Installs a definition and waits until the server serves the resource. The installed definition is kept if this
    /// build must not replace it. Retries failed requests indefinitely, unless the server rejects the request. Passes
    /// each failure to `report`.
    pub(crate) async fn install(
        &self,
        cluster: &Cluster,
        definition: &CustomResourceDefinition,
        report: impl Fn(&ApiError) + Sync,
    ) -> Result<(), OperatorError> {
        let mut retries = Retries::new::<CustomResourceDefinition>(&definition.metadata.name, &report);
        retries.awaits_permissions = self.awaits_permissions;
        loop {
            match self.attempt(cluster, definition).await {
                Ok(()) => return Ok(()),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Temporary(error)) => retries.wait(error).await?,
            }
        }
    }

    async fn attempt(&self, cluster: &Cluster, definition: &CustomResourceDefinition) -> Result<(), Failure> {
        let definitions = cluster.api::<CustomResourceDefinition>();
        let name = &definition.metadata.name;
        let mut last = self.apply_or_keep(cluster, definition).await?;
        let until = Instant::now() + LIMIT;
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
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(not_established(name, reason(&last))),
        }
    }

    /// Creates or applies the definition, unless this build must keep the installed definition. Returns the definition
    /// that is installed afterwards.
    async fn apply_or_keep(
        &self,
        cluster: &Cluster,
        definition: &CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, Failure> {
        let (name, options) = (&definition.metadata.name, self.write_options());
        let mut attempts = 0;
        loop {
            let stored = managers::read_or_create(cluster, definition, &options).await?;
            let installed = CustomResourceDefinition::deserialize(&stored).map_err(ApiError::decode)?;
            match precedence::decide(definition, &installed) {
                Decision::Apply => {}
                Decision::Keep(reason) | Decision::Refuse(reason) if self.replaces_newer => {
                    tracing::warn!(name, reason, "replacing the CustomResourceDefinition of another build");
                }
                Decision::Keep(reason) => {
                    tracing::warn!(name, reason, "keeping the installed CustomResourceDefinition");
                    return Ok(keep(cluster, definition, installed, &options).await?);
                }
                Decision::Refuse(problem) => {
                    return Err(Failure::Final(OperatorError::Definition { name: name.clone(), problem }));
                }
            }
            // After an adoption, read the definition and decide again, because another build may have written it before
            // the adoption.
            match managers::adopt::<CustomResourceDefinition>(cluster, name, &stored, &options).await {
                Ok(true) => {}
                Ok(false) => match self.apply(cluster, definition, installed).await {
                    Err(error) if error.is_conflict() && attempts < REPEATS => attempts += 1,
                    applied => return Ok(applied?),
                },
                Err(error) if error.is_invalid() && attempts < REPEATS => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn apply(
        &self,
        cluster: &Cluster,
        definition: &CustomResourceDefinition,
        installed: CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, ApiError> {
        let mut own = definition.clone();
        // With this resourceVersion, the server returns a conflict if another build has written the definition since
        // the read.
        own.metadata.resource_version = installed.metadata.resource_version;
        cluster.api().apply(&own, &WriteOptions::apply(&self.field_manager)).await
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions { field_manager: self.field_manager.clone(), ..WriteOptions::default() }
    }
}

struct Retries<'a> {
    kind: &'static str,
    name: &'a str,
    report: &'a (dyn Fn(&ApiError) + Sync),
    awaits_permissions: bool,
    warn_at: Instant,
}

impl<'a> Retries<'a> {
    fn new<T: Resource>(name: &'a str, report: &'a (dyn Fn(&ApiError) + Sync)) -> Self {
        Self { kind: T::KIND, name, report, awaits_permissions: false, warn_at: Instant::now() }
    }

    async fn wait(&mut self, error: ApiError) -> Result<(), OperatorError> {
        let lacks_permissions = error.is_forbidden() || error.is_unauthorized();
        if error.is_invalid() || error.is_bad_request() || (lacks_permissions && !self.awaits_permissions) {
            return Err(OperatorError::Install { kind: self.kind, name: self.name.into(), cause: Box::new(error) });
        }
        (self.report)(&error);
        if Instant::now() >= self.warn_at {
            self.warn_at = Instant::now() + WARN_AGAIN;
            tracing::warn!(kind = self.kind, name = self.name, %error, "cannot install an object yet; retrying");
        }
        sleep(RETRY).await;
        Ok(())
    }
}

fn not_established(name: &str, reason: String) -> Failure {
    Failure::Final(OperatorError::NotEstablished { name: name.into(), seconds: LIMIT.as_secs(), reason })
}

/// Keeps the installed definition. Updates only the certificates of the conversion webhook, and only if both
/// definitions have the same webhook server.
async fn keep(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    installed: CustomResourceDefinition,
    options: &WriteOptions,
) -> Result<CustomResourceDefinition, ApiError> {
    let configs = definition.spec.pointer(CLIENT_CONFIG).zip(installed.spec.pointer(CLIENT_CONFIG));
    let Some(bundle) = configs.and_then(|(own, old)| certificates::replacement(own, old)) else { return Ok(installed) };
    let metadata = json!({"resourceVersion": installed.metadata.resource_version});
    let conversion = json!({"webhook": {"clientConfig": {"caBundle": bundle}}});
    let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"conversion": conversion}}));
    let definitions = cluster.api::<CustomResourceDefinition>();
    definitions.patch(definition.metadata.name.as_str(), &patch, options).await
}

/// Waits until the server's discovery lists the resource in all served versions. kube-apiserver sets the condition
/// `Established` shortly before it serves the resource. Until the resource is served, requests fail with 404.
async fn wait_until_served(
    cluster: &Cluster,
    definition: &CustomResourceDefinition,
    until: Instant,
) -> Result<(), Failure> {
    let (name, spec) = (&definition.metadata.name, &definition.spec);
    let (group, plural) = (spec["group"].as_str().unwrap_or_default(), &spec["names"]["plural"]);
    let versions = spec["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["served"] == true) {
        let path = format!("/apis/{group}/{}", version["name"].as_str().unwrap_or_default());
        let served = async {
            loop {
                match cluster.client().get().request_uri(&path).object::<Value>().await {
                    Ok(list) if lists(&list, plural) => return Ok(()),
                    Ok(_) => {}
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
                sleep(SERVED_POLL).await;
            }
        };
        match timeout_at(until, served).await {
            Ok(served) => served?,
            Err(_) => return Err(not_established(name, format!("{path} does not list {plural}"))),
        }
    }
    Ok(())
}

fn lists(document: &Value, plural: &Value) -> bool {
    document["resources"].as_array().is_some_and(|all| all.iter().any(|resource| resource["name"] == *plural))
}

fn reason(definition: &CustomResourceDefinition) -> String {
    let conditions = definition.status.iter().flat_map(|status| &status.conditions.0);
    let problems: Vec<_> = conditions
        .filter(|condition| condition.status == ConditionStatus::False)
        .map(|condition| format!("{} is false: {}", condition.condition_type, condition.message))
        .collect();
    if problems.is_empty() { "the server reports no condition".into() } else { problems.join("; ") }
}

#[cfg(test)]
mod tests {
    use pintle_apiserver::RequestVerb;
    use pintle_apiserver::faults::{Answer, Fault, Rule};

    use super::*;

    fn definition() -> CustomResourceDefinition {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let names = json!({"kind": "Site", "plural": "sites"});
        let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]});
        serde_json::from_value(json!({"metadata": {"name": "sites.example.com"}, "spec": spec})).unwrap()
    }

    /// Another replica creates the definition after this replica's first read, and changes it after the second read.
    #[tokio::test]
    async fn lost_races_for_the_first_installation_are_no_failure() {
        let cluster = Cluster::embedded().await.unwrap();
        let definitions = cluster.api::<CustomResourceDefinition>();
        definitions.apply(&definition(), &WriteOptions::apply("sites")).await.unwrap();
        let faults = cluster.server().unwrap().faults();
        for (verb, code) in [(RequestVerb::Get, 404), (RequestVerb::Patch, 409)] {
            let resource = Some("customresourcedefinitions".into());
            faults.add(Rule { verb: Some(verb), resource, ..Rule::new(Fault::Answer(Answer::new(code))) });
        }
        let installer = Installer { field_manager: "sites".into(), replaces_newer: false, awaits_permissions: false };
        let failed = |error: &ApiError| panic!("{error}");
        installer.install(&cluster, &definition(), failed).await.unwrap();
        assert_eq!(faults.hits(), 2);
    }
}
