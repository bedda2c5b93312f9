//! Tests with unreachable clusters and missing resources.

use std::sync::Arc;

use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_cluster::Cluster;
use pintle_crd::{CustomResource, CustomResourceDefinition};
use pintle_meta::{ClientConfig, ObjectMeta, WriteOptions};
use pintle_operator::{Action, Context, Controller, OperatorError};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::http::{ReservedAddress, UNREACHABLE, get, listen};
use crate::support::{ConfigMap, Running, Website, World, eventually, publish, soon};

fn controller() -> pintle_operator::ControllerBuilder<Website> {
    Controller::<Website>::new().owns::<ConfigMap>()
}

/// The other cluster is first unreachable, then reachable, and is finally shut down.
#[tokio::test]
async fn unreachable_cluster_does_not_stop_the_others() {
    let home = World::with_site("blog").await;
    let ((listener, address), reserved) = (listen().await, ReservedAddress::new());
    let edge_address = reserved.address;
    let edge = Cluster::connect(ClientConfig::new(format!("http://{edge_address}"))).unwrap();
    let manager = home.manager().serve_on(listener).controller(controller().reconcile(publish));
    let manager = manager.install_in::<Website>(&edge);
    let manager = manager.controller_in(&edge, controller().name("website-edge").reconcile(publish));
    let running = Running::start(manager);
    eventually("the child in the first cluster", async || home.child("blog").await.ok()).await;
    let ready = async |part: &str| get(address, "/readyz?verbose").await.filter(|ready| ready.1.contains(part));
    let problem = format!(
        "[-]cluster http://{edge_address} failed: waits for the CustomResourceDefinition \"websites.example.com\": "
    );
    let (status, text) = eventually("the readiness names the cluster", async || ready(&problem).await).await;
    assert!(status == 500 && text.contains("[+]website ok") && text.contains("[-]website-edge failed: "), "{text}");

    let config = ApiServerConfig { port: edge_address.port(), ..ApiServerConfig::default() };
    let edge_world = ApiServer::start(config.clone()).await.unwrap();
    eventually("ready", async || get(address, "/readyz").await.filter(|ready| ready.0 == 200)).await;
    let site = home.site("blog").await;
    let metadata = ObjectMeta::new("default", "shop");
    edge.api().create(&Website { metadata, ..site }, &WriteOptions::default()).await.unwrap();
    let child = async || edge.namespaced::<ConfigMap>("default").get("shop").await.ok();
    eventually("the child in the other cluster", child).await;

    edge_world.shutdown().await;
    home.create("second").await;
    eventually("the first cluster goes on", async || home.child("second").await.ok()).await;
    running.stop().await.unwrap();
    edge.shutdown().await;
}

#[tokio::test]
async fn own_unreachable_cluster_does_not_stop_the_others() {
    let edge = World::with_site("shop").await;
    let home = Cluster::connect(ClientConfig::new(UNREACHABLE)).unwrap();
    let (listener, address) = listen().await;
    let manager = pintle_operator::Manager::new("website-controller", home.clone()).install::<Website>();
    let manager = manager.serve_on(listener).controller(controller().name("website-home").reconcile(publish));
    let manager = manager.install_in::<Website>(&edge.cluster);
    let running = Running::start(manager.controller_in(&edge.cluster, controller().reconcile(publish)));
    eventually("the child in the other cluster", async || edge.child("shop").await.ok()).await;
    let (status, text) = get(address, "/readyz").await.unwrap();
    let problem = format!("[-]cluster {} failed: ", home.config().server);
    assert!(status == 500 && text.contains(&problem), "{text}");
    running.stop().await.unwrap();
    home.shutdown().await;
}

#[tokio::test]
async fn other_cluster_may_forbid_the_installation_for_a_while() {
    let (home, edge) = (World::with_site("blog").await, World::start().await);
    let resource = Some("customresourcedefinitions".into());
    let forbidden = Rule { resource, times: None, ..Rule::new(Fault::Answer(Answer::new(403))) };
    let faults = edge.cluster.server().unwrap().faults();
    let rule = faults.add(forbidden);
    let manager = home.manager().controller(controller().reconcile(publish)).install_in::<Website>(&edge.cluster);
    let running = Running::start(manager);
    eventually("the first cluster goes on", async || home.child("blog").await.ok()).await;
    faults.remove(rule);
    let definitions = edge.cluster.api::<CustomResourceDefinition>();
    eventually("the kind is installed", async || definitions.get("websites.example.com").await.ok()).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn rejected_definition_in_another_cluster_ends_the_manager() {
    let (home, edge) = (World::with_site("blog").await, World::start().await);
    let mut newer = Website::crd().with_package_version("99.0.0");
    newer.spec["versions"][0]["name"] = "v2".into();
    edge.cluster.api().create(&newer, &WriteOptions::default()).await.unwrap();
    let manager = home.manager().install_in::<Website>(&edge.cluster);
    let error = soon(manager.run(&CancellationToken::new())).await.unwrap_err();
    assert!(matches!(&error, OperatorError::Definition { name, .. } if name == "websites.example.com"), "{error}");
}

#[derive(Deserialize, Serialize)]
struct Certificate {
    metadata: ObjectMeta,
}
pintle_meta::resource!(Certificate, "example.com/v1", "Certificate", "certificates", Namespaced);

#[tokio::test]
async fn controller_of_an_unknown_kind_waits_and_is_named() {
    let world = World::with_site("blog").await;
    let (listener, address) = listen().await;
    let wait = async |_: Arc<Certificate>, _: Context<Certificate>| Ok(Action::await_change());
    let manager = world.manager().serve_on(listener).controller(controller().reconcile(publish));
    let running = Running::start(manager.controller(Controller::<Certificate>::new().reconcile(wait)));
    eventually("the other controller works", async || world.child("blog").await.ok()).await;
    let (_, text) = eventually("the readiness names the kind", async || {
        get(address, "/readyz").await.filter(|ready| ready.1.contains("[-]certificate failed: Certificate: "))
    })
    .await;
    assert!(text.contains("certificates"), "{text}");
    running.stop().await.unwrap();
}
