//! The operator under test and test helpers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Fault, Rule, RuleId};
use pintle_cluster::Cluster;
use pintle_crd::Resource;
use pintle_meta::{ApiError, Conditions, ObjectMeta, Patch, WriteOptions};
use pintle_operator::{Action, Context, Manager, OperatorError, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(crate = pintle_crd, group = "example.com", version = "v1")]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Spec {
    pub(crate) domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Status {
    pub(crate) url: String,
    pub(crate) conditions: Conditions,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}
pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

pub(crate) fn map(name: &str, key: &str, value: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::new("", name), data: [(key.to_owned(), value.to_owned())].into() }
}

pub(crate) async fn publish(site: Arc<Website>, cx: Context<Website>) -> Result<Action> {
    cx.apply(map(&site.metadata.name, "domain", &site.spec.domain)).await?;
    let url = format!("https://{}", site.spec.domain);
    cx.apply_status(Status { url, conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self { cluster: Cluster::embedded().await.unwrap() }
    }

    pub(crate) async fn with_site(name: &str) -> Self {
        let world = Self::start().await;
        world.install().await;
        world.create(name).await;
        world
    }

    pub(crate) async fn install(&self) {
        let stop = CancellationToken::new();
        let install = Manager::new("installer", self.cluster.clone()).install::<Website>();
        let stopped = stop.clone();
        let install = install.service("done", async move |_| {
            stopped.cancel();
            Ok(())
        });
        soon(install.run(&stop)).await.unwrap();
    }

    pub(crate) async fn create(&self, name: &str) {
        let spec = Spec { domain: format!("{name}.example.com") };
        let site = Website { metadata: ObjectMeta::new("default", name), spec, status: None };
        self.cluster.api().create(&site, &WriteOptions::default()).await.unwrap();
    }

    pub(crate) async fn site(&self, name: &str) -> Website {
        self.cluster.namespaced("default").get(name).await.unwrap()
    }

    pub(crate) async fn annotate(&self, name: &str, value: &str) -> Website {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"test": value}}}));
        self.cluster.namespaced::<Website>("default").patch(name, &patch, &WriteOptions::default()).await.unwrap()
    }

    pub(crate) async fn child(&self, name: &str) -> Result<ConfigMap, ApiError> {
        self.cluster.namespaced("default").get(name).await
    }

    /// Starts to count matching requests. [`counted`](Self::counted) returns the number of requests.
    pub(crate) fn count(&self, verb: RequestVerb, resource: &str, subresource: &str) -> RuleId {
        let rule = Rule {
            verb: Some(verb),
            resource: Some(resource.into()),
            subresource: Some(subresource.into()),
            times: None,
            ..Rule::new(Fault::Delay(Duration::ZERO))
        };
        self.cluster.server().unwrap().faults().add(rule)
    }

    pub(crate) fn counted(&self, rule: RuleId) -> u64 {
        self.cluster.server().unwrap().faults().hits_of(rule)
    }

    pub(crate) fn manager(&self) -> Manager {
        Manager::new("website-controller", self.cluster.clone())
    }
}

pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), OperatorError>>,
}

impl Running {
    pub(crate) fn start(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let token = stop.clone();
        Self { stop, task: tokio::spawn(async move { manager.run(&token).await }) }
    }

    pub(crate) async fn stop(self) -> Result<(), OperatorError> {
        self.stop.cancel();
        self.ended().await
    }

    pub(crate) async fn ended(self) -> Result<(), OperatorError> {
        soon(self.task).await.unwrap()
    }
}

/// Awaits `future`, and panics after a timeout that a passing test never reaches.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(45), future).await.expect("within 45 s")
}

/// Waits until `check` returns `Some`, and returns the value.
pub(crate) async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(45), "{what} did not happen within 45 s");
        sleep(Duration::from_millis(5)).await;
    }
}
