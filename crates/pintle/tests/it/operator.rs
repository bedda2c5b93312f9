//! Tests of the operator in the README, against an embedded server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::support::eventually;

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
struct Website {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Spec {
    domain: String,
    #[serde(default)]
    #[schemars(range(max = 20))]
    replicas: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Status {
    url: String,
    conditions: Conditions,
}

async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    cx.apply(config_map(&site)).await?;
    cx.apply_status(Status { url: url(&site), conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

fn config_map(site: &Website) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(site.name().to_owned());
    map.data = Some([("url".to_owned(), url(site))].into());
    map
}

fn url(site: &Website) -> String {
    format!("https://{}", site.spec.domain)
}

fn site(name: &str) -> Website {
    let spec = Spec { domain: format!("{name}.example.com"), replicas: 1 };
    Website { metadata: ObjectMeta::new("default", name), spec, status: None }
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), pintle::operator::OperatorError>>,
}

impl Running {
    fn start(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let token = stop.clone();
        Self { stop, task: tokio::spawn(async move { manager.run(&token).await }) }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn until_ready(cluster: &Cluster, name: &str) -> Website {
    let sites = cluster.namespaced::<Website>("default");
    let is_ready = |site: Option<&Website>| {
        site.and_then(|site| site.status.as_ref()).is_some_and(|status| status.conditions.is_true("Ready"))
    };
    let ready = tokio::time::timeout(Duration::from_secs(30), sites.wait_for(name, is_ready)).await;
    ready.expect("the site becomes ready").unwrap().unwrap()
}

#[tokio::test]
async fn operator_installs_reconciles_and_cleans_up() {
    let cluster = Cluster::embedded().await.unwrap();
    let retired = Arc::new(AtomicUsize::new(0));
    let counter = retired.clone();
    let retire = move |_: Arc<Website>, _: Context<Website>| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok(Cleanup::Done) }
    };
    let controller =
        Controller::<Website>::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish);
    let manager = Manager::new("website-controller", cluster.clone())
        .leader_election()
        .install::<Website>()
        .controller(controller);
    let running = Running::start(manager);

    let sites = cluster.namespaced::<Website>("default");
    eventually("the site is created", async || sites.create(&site("blog"), &WriteOptions::default()).await.ok()).await;
    let ready = until_ready(&cluster, "blog").await;
    assert_eq!(ready.metadata.finalizers, ["example.com/dns"]);
    assert_eq!(ready.status.unwrap().url, "https://blog.example.com");

    let maps = cluster.namespaced::<ConfigMap>("default");
    let map = maps.get("blog").await.unwrap();
    assert_eq!(map.metadata.owner_references.as_deref().unwrap()[0].name, "blog");
    assert_eq!(map.data.unwrap()["url"], "https://blog.example.com");

    maps.delete("blog", &DeleteOptions::default()).await.unwrap();
    eventually("the map is applied again", async || maps.get("blog").await.ok()).await;

    sites.delete("blog", &DeleteOptions::default()).await.unwrap();
    sites.wait_for_deletion("blog", None).await.unwrap();
    assert_eq!(retired.load(Ordering::SeqCst), 1);
    running.stop().await;
    let lease = cluster.namespaced::<pintle::leaderelect::Lease>("default").get("website-controller").await.unwrap();
    assert!(lease.spec.holder_identity.unwrap_or_default().is_empty(), "the lease was released");
    cluster.shutdown().await;
}
