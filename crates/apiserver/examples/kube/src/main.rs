//! Uses kube's `Client` with an embedded API server in the same process, without a socket.
//!
//! This example is a separate Cargo project. To run the example, call `cargo run` in this folder.

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::start(ApiServerConfig::default()).await?;
    let client = Client::new(server.in_process(), "default");

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let names: Vec<String> = namespaces.list(&ListParams::default()).await?.iter().map(|each| each.name_any()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);

    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut watch = Box::pin(maps.watch(&WatchParams::default(), "0").await?);
    let map = serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": {"colour": "blue"}}))?;
    let made = maps.create(&PostParams::default(), &map).await?;
    let patch = Patch::Apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"size": "large"},
    }));
    maps.patch("settings", &PatchParams::apply("example"), &patch).await?;
    let mut events = Vec::new();
    while events.len() < 2
        && let Some(event) = watch.try_next().await?
    {
        match event {
            WatchEvent::Added(map) if map.name_any() == "settings" => {
                assert_eq!(map.uid(), made.uid());
                events.push("added");
            }
            WatchEvent::Modified(map) => {
                assert_eq!(map.data.unwrap_or_default().len(), 2);
                events.push("modified");
            }
            _ => (),
        }
    }
    assert_eq!(events, ["added", "modified"]);
    let missing = maps.get("nothing").await.expect_err("there is no such object");
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
    server.shutdown().await;
    println!("kube's client: listed {} namespaces; created, applied and watched a config map", names.len());
    Ok(())
}
