//! Tests of the installation of CustomResourceDefinitions.

use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_crd::CustomResourceDefinition;
use pintle_operator::OperatorError;
use tokio_util::sync::CancellationToken;

use crate::support::{Running, Website, World, eventually, soon};

fn answer(code: u16) -> Rule {
    let resource = Some("customresourcedefinitions".into());
    Rule { verb: Some(RequestVerb::Patch), resource, ..Rule::new(Fault::Answer(Answer::new(code))) }
}

#[tokio::test]
async fn rejected_definition_ends_the_manager() {
    let world = World::start().await;
    world.cluster.server().unwrap().faults().add(answer(403));
    let error = soon(world.manager().install::<Website>().run(&CancellationToken::new())).await.unwrap_err();
    assert!(matches!(&error, OperatorError::Install { name, .. } if name == "websites.example.com"), "{error}");
}

#[tokio::test]
async fn failed_request_is_retried() {
    let world = World::start().await;
    world.cluster.server().unwrap().faults().add(answer(500));
    let running = Running::start(world.manager().install::<Website>());
    let definitions = world.cluster.api::<CustomResourceDefinition>();
    eventually("the definition is established", async || {
        definitions.get("websites.example.com").await.ok().filter(CustomResourceDefinition::is_established)
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn stop_ends_a_pending_installation() {
    let world = World::start().await;
    let faults = world.cluster.server().unwrap().faults();
    let rule = faults.add(Rule { times: None, ..answer(503) });
    let running = Running::start(world.manager().install::<Website>());
    eventually("a request fails", async || (faults.hits_of(rule) > 0).then_some(())).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn installation_looks_the_resource_up_in_discovery() {
    let world = World::start().await;
    // Only requests to discovery have no resource.
    let lookups = || {
        let audit = world.cluster.server().unwrap().audit();
        audit.records().iter().filter(|record| record.resource.is_empty()).count()
    };
    assert_eq!(lookups(), 0);
    world.install().await;
    assert_eq!(lookups(), 1, "the definition was new");
    world.install().await;
    assert_eq!(lookups(), 2, "the definition was established");
}
