//! Runs an operator on an embedded API server, for a type that is derived with kube's `CustomResource`.
//!
//! A program that migrates from kube can keep its types. This example is a separate Cargo project. To run the example,
//! execute `cargo run` in its directory.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt};
use pintle::apiserver::eventually;
use pintle::crd::CustomResourceDefinition;
use pintle::prelude::{Action, CancellationToken, Cleanup, Cluster, Conditions, Context, Controller, Manager, WriteOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {
    domain: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct WebsiteStatus {
    url: String,
    conditions: Conditions,
}

// Implements Pintle's `Resource` trait for the kube type.
pintle::meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);

async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
    let url = format!("https://{}", site.spec.domain);
    let mut map = ConfigMap::default();
    map.metadata.name = site.metadata.name.clone();
    map.data = Some([("url".into(), url.clone())].into());
    cx.apply(map).await?;
    cx.apply_status(WebsiteStatus { url, conditions: cx.ready("Published") }).await?;
    Ok(Action::await_change())
}

async fn retire(_: Arc<Website>, _: Context<Website>) -> pintle::Result<Cleanup> {
    Ok(Cleanup::Done)
}

#[tokio::main]
async fn main() -> pintle::Result<()> {
    let cluster = Cluster::embedded().await?;
    let definition = CustomResourceDefinition::from_foreign(&Website::crd())?;
    let definition = definition.with_package_version(env!("CARGO_PKG_VERSION"));
    let manager = Manager::new("website-controller", cluster.clone())
        .install_definition(definition)
        .controller(Controller::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish));
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { manager.run(&stop).await }
    });

    let mut site = Website::new("blog", WebsiteSpec { domain: "blog.example.com".into() });
    site.metadata.namespace = Some("default".into());
    let sites = cluster.namespaced::<Website>("default");
    let limit = Duration::from_secs(60);
    let is_created = async || cluster.api().create(&site, &WriteOptions::default()).await.is_ok();
    assert!(eventually(limit, is_created).await, "the definition is not installed");
    let is_ready = async || {
        let site = sites.get("blog").await;
        site.is_ok_and(|site| site.status.is_some_and(|status| status.conditions.is_true("Ready")))
    };
    assert!(eventually(limit, is_ready).await, "the site is not ready");
    let map = cluster.namespaced::<ConfigMap>("default").get("blog").await?;
    assert_eq!(map.data.unwrap_or_default()["url"], "https://blog.example.com");
    let finalizers = sites.get("blog").await?.metadata.finalizers.unwrap_or_default();
    assert_eq!(finalizers, ["example.com/dns"]);
    println!("the operator publishes a site whose type kube derives");

    stop.cancel();
    running.await??;
    cluster.shutdown().await;
    Ok(())
}
