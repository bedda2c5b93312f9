//! Creates, updates, patches, applies and deletes a Deployment, using every patch format and server-side apply.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use anyhow::{Context, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use pintle::prelude::*;
use pintle::restreq::retry_on_conflict;
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    let deployments: Api<Deployment> = cluster.namespaced("default");
    let options = WriteOptions::default();
    deployments.create(&serde_json::from_value(deployment("nginx:1.27"))?, &options).await?;

    // An update replaces the whole object. If another client has changed the object in the meantime,
    // `retry_on_conflict` calls the closure again.
    let updated = retry_on_conflict(5, async || {
        let mut live = deployments.get("web").await?;
        live.spec.replicas = Some(2);
        deployments.update(&live, &options).await
    });
    ensure!(updated.await?.spec.replicas == Some(2));

    // A merge patch replaces whole lists. A strategic merge patch merges lists by key, such as the name of a container.
    let merge = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    deployments.patch("web", &merge, &options).await?;
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "envoy"}]}}}});
    let patched = deployments.patch("web", &Patch::Strategic(sidecar), &options).await?;
    ensure!(images(&patched) == ["envoy", "nginx:1.27"], "{:?}", images(&patched));

    // A JSON patch is a list of operations. The server rejects all operations if a `test` operation fails.
    let json_patch = |expected| {
        Patch::Json(json!([
            {"op": "test", "path": "/spec/replicas", "value": expected},
            {"op": "replace", "path": "/spec/replicas", "value": 3},
        ]))
    };
    ensure!(deployments.patch("web", &json_patch(7), &options).await.is_err_and(|error| error.is_invalid()));
    ensure!(deployments.patch("web", &json_patch(2), &options).await?.spec.replicas == Some(3));

    // With server-side apply, a field manager owns the fields that it applies.
    let release = WriteOptions { field_manager: "release".into(), force: true, ..WriteOptions::default() };
    deployments.patch("web", &Patch::Apply(deployment("nginx:1.28")), &release).await?;
    let other = WriteOptions { field_manager: "other".into(), ..WriteOptions::default() };
    let conflict = deployments.patch("web", &Patch::Apply(deployment("nginx:1.29")), &other).await;
    let conflict = conflict.err().context("release owns the image")?;
    println!("{conflict}");
    ensure!(conflict.is_conflict());

    // `WriteOptions::apply` forces the apply. Controllers should force their applies, because they cannot resolve
    // conflicts.
    let forced =
        deployments.patch("web", &Patch::Apply(deployment("nginx:1.29")), &WriteOptions::apply("other")).await?;
    ensure!(images(&forced).contains(&"nginx:1.29"));
    let owned = deployments.applied("web", "release").await?.context("release still owns other fields")?;
    println!("release still owns: {}", owned["spec"]);

    deployments.delete("web", &DeleteOptions::default()).await?;
    deployments.wait_for_deletion("web", None).await?;
    cluster.shutdown().await;
    Ok(())
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

fn images(deployment: &Deployment) -> Vec<&str> {
    let containers = deployment.spec.template.spec.iter().flat_map(|pod| &pod.containers);
    let mut containers: Vec<_> = containers.map(|container| (&container.name, container.image.as_deref())).collect();
    containers.sort_unstable();
    containers.into_iter().filter_map(|(_, image)| image).collect()
}
