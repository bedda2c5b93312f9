//! A complete operator. For each `Website`, this operator maintains a ConfigMap, writes a status, and cleans up before
//! the `Website` is deleted.
//!
//! By default, the operator runs against an API server in the same process. With `-- --cluster`, the operator connects
//! to the cluster in your kubeconfig.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
struct Website {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Spec {
    #[schemars(length(max = 253))]
    domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Status {
    url: String,
    conditions: Conditions,
}

async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    let url = format!("https://{}", site.spec.domain);
    let mut map = ConfigMap::default();
    map.metadata.name = Some(site.name().into());
    map.data = Some([("url".into(), url.clone())].into());
    cx.apply(map).await?; // Adds namespace and owner. Sends no request if nothing would change.
    cx.apply_status(Status { url, conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

async fn retire(site: Arc<Website>, _cx: Context<Website>) -> pintle::Result<Cleanup> {
    println!("the DNS record of {} is removed", site.spec.domain);
    Ok(Cleanup::Done)
}

fn operator(manager: Manager) -> Manager {
    manager
        .leader_election()
        .install::<Website>()
        .controller(Controller::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish))
}

#[tokio::main]
async fn main() -> pintle::Result<()> {
    if !std::env::args().any(|argument| argument == "--cluster") {
        return demonstrate().await;
    }
    operator(Manager::infer("website-controller")?).serve(([0, 0, 0, 0], 8080)).run_until_signal().await
}

async fn demonstrate() -> pintle::Result<()> {
    let cluster = Cluster::embedded().await?;
    let stop = CancellationToken::new();
    let manager = operator(Manager::new("website-controller", cluster.clone()));
    let (ended, used) = tokio::join!(manager.run(&stop), async {
        let used = use_a_site(&cluster).await;
        stop.cancel();
        used
    });
    ended?;
    used?;
    cluster.shutdown().await;
    Ok(())
}

async fn use_a_site(cluster: &Cluster) -> pintle::Result<()> {
    let definitions = cluster.api::<CustomResourceDefinition>();
    definitions.wait_for_condition("websites.example.com", &["Established"]).await?;
    let sites = cluster.namespaced::<Website>("default");
    let spec = Spec { domain: "blog.example.com".into() };
    let site = Website { metadata: ObjectMeta::new("default", "blog"), spec, status: None };
    sites.create(&site, &WriteOptions::default()).await?;
    sites.wait_for_condition("blog", &["Ready"]).await?;

    let map = cluster.namespaced::<ConfigMap>("default").get("blog").await?;
    assert_eq!(map.data.unwrap_or_default()["url"], "https://blog.example.com");
    println!("{} is published", site.spec.domain);

    sites.delete("blog", &DeleteOptions::default()).await?;
    sites.wait_for_deletion("blog", None).await?;
    Ok(())
}
