//! What a test can ask of a server about its clients, and wait for.

use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig, consistently, eventually};
use pintle_json::json;
use tokio::time::Instant;

use crate::support::*;

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

#[tokio::test]
async fn a_write_after_the_end_of_a_term_is_seen() {
    let server = server().await;
    let agent = [("user-agent", "elector-a/1.0")];
    let post = async |name: &str| {
        let object = json!({"metadata": {"name": name}}).to_string();
        send(&server, Method::POST, CONFIG_MAPS, &agent, &object).await.status().as_u16()
    };
    assert_eq!(post("before").await, 201);
    let end_of_term = Instant::now();
    let late = || server.audit().writes().by_user_agent("elector-a/").received_after(end_of_term);
    assert!(late().is_empty());
    send(&server, Method::GET, CONFIG_MAPS, &agent, "").await;
    assert_eq!(post("before").await, 409, "what fails is no write");
    create_map(&server, "of-another", json!({})).await;
    assert!(late().is_empty(), "{:?}", late());
    assert_eq!(post("after").await, 201);
    let late = late();
    assert_eq!((late.len(), late.lost()), (1, 0));
    let record = &late.records()[0];
    let told = [&record.verb, &record.group, &record.resource, &record.namespace, &record.user].map(String::as_str);
    assert_eq!((told, record.code), (["create", "", "configmaps", "default", "admin"], 201));
}

#[tokio::test]
async fn lists_are_counted_by_resource_and_namespace() {
    let server = server().await;
    for path in [CONFIG_MAPS, "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/namespaces/default/secrets/a"] {
        get(&server, path).await;
    }
    assert_eq!(server.audit().most_lists_of_a_resource(), 1);
    get(&server, CONFIG_MAPS).await;
    assert_eq!(server.audit().most_lists_of_a_resource(), 2);
    assert_eq!(server.audit().of("", "secrets").most_lists_of_a_resource(), 1);
    assert_eq!(server.audit().of("", "secrets").len(), 2);
}

#[tokio::test]
async fn the_oldest_are_forgotten_and_it_is_told_that_they_were() {
    let server = ApiServer::start(ApiServerConfig { audit: 2, ..ApiServerConfig::default() }).await.expect("a server");
    for path in ["/a", "/api/v1/nodes", "/api/v1/pods"] {
        get(&server, path).await;
    }
    let audit = server.audit();
    let resources: Vec<_> = audit.records().iter().map(|record| record.resource.as_str()).collect();
    assert_eq!((resources, audit.lost()), (vec!["nodes", "pods"], 1));
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_waited_for_and_held_to() {
    const WHILE: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    let since = || begun.elapsed();
    assert!(eventually(WHILE, async || since() >= Duration::from_secs(3)).await);
    assert!(since() < Duration::from_secs(4), "it ends as soon as it holds");
    assert!(!eventually(WHILE, async || false).await);
    assert!(since() >= Duration::from_secs(8));
    let begun = Instant::now();
    assert!(consistently(WHILE, async || true).await);
    assert!(begun.elapsed() >= WHILE);
    assert!(!consistently(WHILE, async || begun.elapsed() < Duration::from_secs(7)).await);
}
