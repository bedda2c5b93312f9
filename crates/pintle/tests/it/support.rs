//! Functions that several tests use.

use std::fmt::Debug;
use std::time::Duration;

use pintle::apiserver::{ApiServer, ApiServerConfig};
use pintle::meta::{ClientConfig, ObjectMeta, WriteOptions};
use pintle::restreq::{Api, RestClient};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::time::{Instant, sleep};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) data: BTreeMap<String, String>,
}

pintle::meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

impl ConfigMap {
    pub(crate) fn new(name: &str) -> Self {
        Self { metadata: ObjectMeta::new("default", name), data: BTreeMap::new() }
    }
}

pub(crate) async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a loopback port")
}

pub(crate) fn client(config: ClientConfig) -> RestClient {
    RestClient::new(config).expect("a usable configuration")
}

pub(crate) async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    api.create(&ConfigMap::new(name), &WriteOptions::default()).await.expect("it is not there yet")
}

/// Awaits `future` with a timeout that is never reached in a passing test.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(45), future).await.expect("within 45 s")
}

/// Waits until `check` returns `Some`. Returns the value in `Some`.
pub(crate) async fn eventually<T>(what: impl Debug, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    const LIMIT: Duration = Duration::from_secs(45);
    let started = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "{what:?} did not happen within {LIMIT:?}");
        sleep(Duration::from_millis(5)).await;
    }
}
