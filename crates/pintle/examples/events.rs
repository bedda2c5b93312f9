//! Records Events for an object, like client-go's `record.EventRecorder`. `kubectl describe` shows the Events of an
//! object.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use pintle::apiserver::eventually;
use pintle::events::ObjectReference;
use pintle::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::embedded().await?;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("settings".into());
    map.metadata.namespace = Some("default".into());
    let map = cluster.api().create(&map, &WriteOptions::default()).await?;

    // All Event recorders of a cluster share one background writer. Recording an Event never blocks and never fails.
    let recorder = cluster.recorder("settings-controller");
    recorder.event(&map, EventType::Normal, "Loaded", "The settings are loaded");
    // Repeated Events are merged into one Event object with a count.
    for _ in 0..3 {
        recorder.event(&map, EventType::Warning, "Outdated", "The key \"colour\" is no longer used");
    }
    // `record` can set more fields than `event`.
    recorder.record(pintle::events::Event {
        involved_object: ObjectReference::from(&map),
        reason: "Reloaded".into(),
        message: "The settings are reloaded".into(),
        action: "Reload".into(),
        ..Default::default()
    });

    let events = cluster.namespaced::<Event>("default");
    let about = ListOptions { field_selector: "involvedObject.name=settings".parse()?, ..ListOptions::default() };
    let counts = async || {
        let mut counts: Vec<_> = events
            .list(&about)
            .await?
            .items
            .into_iter()
            .map(|event| {
                let reason = event.reason.unwrap_or_default();
                (reason, event.count.unwrap_or(1))
            })
            .collect();
        counts.sort();
        anyhow::Ok(counts)
    };
    let expected = [("Loaded", 1), ("Outdated", 3), ("Reloaded", 1)].map(|(reason, count)| (reason.to_owned(), count));
    let is_written = async || counts().await.is_ok_and(|counts| counts == expected);
    ensure!(eventually(Duration::from_secs(30), is_written).await, "{:?}", counts().await);
    for event in events.list(&about).await?.items {
        let text = |text: Option<String>| text.unwrap_or_default();
        println!("{:8} {:10} {}", text(event.type_), text(event.reason), text(event.message));
    }
    cluster.shutdown().await; // First writes the pending Events.
    Ok(())
}
