//! Builds requests with chained setters, like client-go's `rest.Request`. The example shows all kinds of bodies, lists
//! and watches.
//!
//! Most programs can use the simpler `Api<T>`.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use anyhow::{Context, ensure};
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use pintle::meta::{ListPart, RawObject};
use pintle::prelude::*;
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    // A client for one API group and version, like the result of client-go's `RESTClientFor`.
    let client = cluster.client().for_group_version(&"v1".parse()?);
    let maps = || client.post().namespace("default").resource("configmaps");

    // The URL of a request is available before the request is sent. The setters validate their arguments. `send`
    // returns the first error of a setter.
    let logs =
        client.get().namespace("default").resource("pods").name("web").subresource(["log"]).param("follow", "true");
    ensure!(logs.url().ends_with("/api/v1/namespaces/default/pods/web/log?follow=true"));
    let wrong = client.get().namespace("default").resource("pods").name("a/b").namespace("other");
    println!("{}", wrong.error().context("a name has no slash")?);

    // 1. The body is read from a file, as with `kubectl create -f`.
    let file = std::env::temp_dir().join(format!("pintle-{:x}.json", fastrand::u64(..)));
    std::fs::write(&file, map("from-file").to_string())?;
    let created = maps().header("Content-Type", "application/json").body_file(&file).send().await?;
    std::fs::remove_file(&file)?;
    ensure!(created.was_created());

    // 2. The body is a byte string in any format that the server accepts. JSON is valid YAML.
    maps().header("Content-Type", "application/yaml").body(map("from-bytes").to_string()).send().await?;

    // 3. The body is a stream, like an `io.Reader` in client-go. A request with a stream is never retried, because the
    //    stream can be sent only once.
    let chunks = map("from-stream").to_string().into_bytes();
    let chunks = chunks.chunks(16).map(|chunk| Ok(chunk.to_vec().into())).collect::<Vec<_>>();
    let chunks = futures_util::stream::iter(chunks);
    maps().header("Content-Type", "application/json").body_stream(chunks).send().await?;

    // 4. The body is a typed object.
    let stored: ConfigMap = maps().json(&map("from-object")).object().await?;
    println!("{} has resourceVersion {}", stored.name(), stored.resource_version());

    // A list can be decoded as a whole, or item by item as the response arrives.
    let list = client.get().namespace("default").resource("configmaps").param("labelSelector", "example=rest");
    let whole = list.send().await?.into_list::<ConfigMap>()?;
    ensure!(whole.items.len() == 4);
    let mut parts = list.list().await?;
    while let Some(part) = parts.try_next().await? {
        match part {
            ListPart::Item(RawObject::Json(json)) => println!("an object of {} bytes", json.len()),
            ListPart::Item(RawObject::Oversized(object)) => println!("skipped: {object}"),
            ListPart::Metadata(list) => ensure!(list.resource_version == whole.metadata.resource_version),
        }
    }

    // The watch starts at the resource version of the list.
    let version = whole.metadata.resource_version;
    let mut watch = list.clone().param("watch", "true").param("resourceVersion", version).watch::<ConfigMap>().await?;
    client.delete().namespace("default").resource("configmaps").name("from-bytes").send().await?;
    let event = watch.try_next().await?.context("an event")?;
    ensure!(matches!(&event, WatchEvent::Deleted(map) if map.name() == "from-bytes"), "{event:?}");

    // An error describes the request and says whether the server may have executed it.
    let error = client.get().namespace("default").resource("configmaps").name("from-bytes").send().await;
    println!("{}", error.err().context("it was deleted")?);
    let version: Value = client.get().abs_path(["/version"]).object().await?;
    println!("the server is {}", version["gitVersion"]);
    cluster.shutdown().await;
    Ok(())
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"example": "rest"}}})
}
