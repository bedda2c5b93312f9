//! Tests of informers for custom resources whose definition is initially missing or is deleted later.

use std::time::Duration;

use pintle::informer::{InformerConfig, InformerState, ReflectorConfig, ReflectorError, SharedInformer};
use pintle::meta::{ApiResource, DeleteOptions, DynamicObject, ObjectKey, ObjectMeta, Scope, WriteOptions};
use pintle::ratelimit::BackoffConfig;
use pintle::restreq::Api;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{client, eventually, server, soon};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Widget {
    metadata: ObjectMeta,
}

pintle::meta::resource!(Widget, "example.com/v1", "Widget", "widgets", Namespaced);

fn definition() -> String {
    let version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    })
    .to_string()
}

fn is_missing(state: &InformerState) -> bool {
    matches!(state.cause(), Some(ReflectorError::NoSuchResource(_)))
}

#[tokio::test]
async fn informer_waits_for_late_definition_and_reports_its_deletion() {
    for streaming_list in [false, true] {
        let server = server().await;
        let client = client(server.client_config());
        let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
        let definitions = ApiResource::new(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            Scope::Cluster,
        );
        let definitions: Api<DynamicObject> = Api::dynamic(client, definitions, None).unwrap();
        let (base, cap) = (Duration::from_millis(10), Duration::from_millis(100));
        let backoff = BackoffConfig { base, cap, ..BackoffConfig::default() };
        let reflector = ReflectorConfig { streaming_list, backoff, ..ReflectorConfig::default() };
        let config = InformerConfig { reflector, ..InformerConfig::default() };
        let informer: SharedInformer<Widget> = SharedInformer::new(widgets.clone(), config);
        let (lister, mut states) = (informer.lister(), informer.states());
        informer.start();

        for name in ["first", "second"] {
            soon(states.wait_for(is_missing)).await.unwrap();
            assert!(lister.is_empty(), "the objects are deleted before the definition");
            server.load(&definition()).unwrap();
            soon(server.settle()).await;
            soon(states.wait_for(InformerState::is_synced)).await.unwrap();

            let metadata = ObjectMeta::new("default", name);
            widgets.create(&Widget { metadata }, &WriteOptions::default()).await.unwrap();
            eventually("the object is in the cache", async || lister.get(&ObjectKey::new("default", name)).map(drop))
                .await;
            assert_eq!(lister.len(), 1);

            definitions.delete("widgets.example.com", &DeleteOptions::default()).await.unwrap();
            soon(server.settle()).await;
        }
        soon(states.wait_for(is_missing)).await.unwrap();
        informer.shutdown().await;
        server.shutdown().await;
    }
}
