//! Tests that the manager's name is the only name that an operator needs.

use std::collections::BTreeSet;

use pintle_cluster::Cluster;
use pintle_events::Event;
use pintle_leaderelect::Lease;
use pintle_operator::{Controller, Manager};
use serde_json::Value;

use crate::http::{get, listen};
use crate::support::{ConfigMap, Running, Website, World, eventually, publish};

const NAME: &str = "website-controller";

#[tokio::test]
async fn one_name_is_used_everywhere() {
    let world = World::with_site("blog").await;
    let server = world.cluster.server().unwrap();
    let before = server.audit().records().len();
    let mut config = world.cluster.config().clone();
    config.user_agent = Some("test".into());
    let client = Cluster::connect(config).unwrap();
    let (listener, address) = listen().await;
    let manager = Manager::connect(NAME, world.cluster.config().clone()).unwrap().serve_on(listener).leader_election();
    let manager = manager.install::<Website>();
    let manager = manager.controller(Controller::<Website>::new().owns::<ConfigMap>().reconcile(publish));
    let running = Running::start(manager.sharded(1, || {
        Controller::<Website>::new().name("sharded").field_manager("sharded").owns::<ConfigMap>().reconcile(publish)
    }));
    let maps = client.namespaced::<ConfigMap>("default");
    eventually("the child exists", async || maps.get("blog").await.ok()).await;
    let child = client.client().get().request_uri("/api/v1/namespaces/default/configmaps/blog");
    let child = child.object::<Value>().await.unwrap();
    let managers = child["metadata"]["managedFields"].as_array().unwrap().iter();
    let managers: BTreeSet<_> = managers.map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect();
    assert!(managers.is_subset(&[NAME.to_owned(), "sharded".to_owned()].into()), "{managers:?}");

    let leases = client.namespaced::<Lease>("default");
    eventually("the Lease of the manager", async || leases.get(NAME).await.ok()).await;
    let shard = format!("{NAME}-sharded-0-of-1");
    eventually("the Lease of the shard", async || leases.get(&*shard).await.ok()).await;

    // Both elections must record Events.
    let events = client.namespaced::<Event>("default");
    let list = async || events.list(&Default::default()).await.unwrap().items;
    let sources = eventually("Events about both Leases", async || {
        let all = list().await;
        let sources: BTreeSet<_> = all.iter().map(|event| event.source.component.clone()).collect();
        let objects: BTreeSet<_> = all.into_iter().map(|event| event.involved_object.name).collect();
        (objects.contains(NAME) && objects.contains(&shard)).then_some(sources)
    })
    .await;
    assert_eq!(sources, [NAME.to_owned()].into());

    let metrics = eventually("the metrics", async || get(address, "/metrics").await).await.1;
    let status = format!("leader_election_master_status{{name=\"{NAME}\"}} 1");
    assert!(metrics.contains(&status), "{status} is not in {metrics}");
    let debug: Value = serde_json::from_str(&get(address, "/debug.json").await.unwrap().1).unwrap();
    assert_eq!(debug["name"], NAME);
    running.stop().await.unwrap();

    let audit = server.audit();
    let records = audit.records();
    let agents: BTreeSet<_> = records.iter().skip(before).map(|record| record.user_agent.clone()).collect();
    assert_eq!(agents, [NAME.to_owned(), "test".to_owned()].into());
    client.shutdown().await;
}
