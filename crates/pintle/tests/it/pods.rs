//! Tests of client methods for pods, workloads and nodes, against the embedded server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use pintle::meta::{DeleteOptions, ListOptions, Object, WriteOptions};
use pintle::restreq::{Api, EvictionOutcome, ExecOptions, LogOptions, TokenRequest};
use serde_json::{Value, json};

use crate::support::{client, server};

async fn create<T: Object + serde::Serialize + serde::de::DeserializeOwned>(api: &Api<T>, object: Value) -> T {
    api.create(&serde_json::from_value(object).unwrap(), &WriteOptions::default()).await.unwrap()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "none"}]}})
}

#[tokio::test]
async fn verbs_work_against_the_embedded_server() {
    let server = server().await;
    let (client, write) = (client(server.client_config()), WriteOptions::default());
    let nodes: Api<Node> = Api::all(client.clone());
    create(&nodes, json!({"metadata": {"name": "a"}})).await;
    let is_cordoned = |node: Node| node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    assert!(is_cordoned(nodes.cordon("a", &write).await.unwrap()));
    assert!(!is_cordoned(nodes.uncordon("a", &write).await.unwrap()));

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]}});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    create(&deployments, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let mut scale = deployments.scale("web").get().await.unwrap();
    scale.spec.replicas = 3;
    assert_eq!(deployments.scale("web").update(&scale, &write).await.unwrap().spec.replicas, 3);
    let restarted = deployments.restart("web", &write).await.unwrap();
    let annotations = restarted.spec.template.metadata.unwrap().annotations.unwrap();
    assert!(annotations.contains_key("kubectl.kubernetes.io/restartedAt"));

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    create(&accounts, json!({"metadata": {"name": "builder"}})).await;
    assert!(!accounts.create_token("builder", &TokenRequest::default()).await.unwrap().token.expose().is_empty());

    let pods: Api<Pod> = Api::namespaced(client, "default");
    create(&pods, pod("web-1")).await;
    let mut watched = pods.watcher(&ListOptions::default()).touched();
    assert_eq!(watched.next().await.unwrap().unwrap().name(), "web-1");
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    assert_eq!(pods.evict("web-1", &now).await.unwrap(), EvictionOutcome::Evicted);
    assert_eq!(watched.next().await.unwrap().unwrap().name(), "web-1");
    server.shutdown().await;
}

#[tokio::test]
async fn streams_of_a_pod_without_kubelet_name_the_cause() {
    let server = server().await;
    let client = client(server.client_config());
    create(&Api::<Node>::all(client.clone()), json!({"metadata": {"name": "a"}})).await;
    let pods: Api<Pod> = Api::namespaced(client, "default");
    create(&pods, pod("web-1")).await;
    let exec = pods.exec("web-1", ["true"], &ExecOptions::default()).await.unwrap_err();
    let port = pods.port_forward("web-1", 80).await.unwrap_err();
    let logs = pods.logs("web-1", &LogOptions::default()).await.unwrap_err();
    for error in [exec, port, logs] {
        assert!(error.to_string().contains("no preferred addresses found"), "{error}");
    }
    let missing = pods.exec("missing", ["true"], &ExecOptions::default()).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    server.shutdown().await;
}
