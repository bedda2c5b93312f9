//! Tests of evictions, scales, restarts, cordons, tokens and watchers with a real kube-apiserver.

use std::time::Duration;

use pintle_meta::{ApiResource, DeleteOptions, DynamicObject, ListOptions, Object, PartialObject, Scope, WriteOptions};
use pintle_restreq::{Api, EvictionOutcome, RestClient, TokenRequest, WatcherEvent};
use serde_json::{Value, json};

use crate::real::in_namespace;

fn api(client: &RestClient, api_version: &str, kind: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::new(api_version, kind, plural, Scope::Namespaced);
    Api::dynamic(client.clone(), resource, Some(namespace)).unwrap()
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn eviction_obeys_a_real_disruption_budget() {
    in_namespace("evict", |client, namespace| async move {
        let pods = api(&client, "v1", "Pod", "pods", &namespace);
        let budgets = api(&client, "policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", &namespace);
        let (write, now) = (WriteOptions::default(), DeleteOptions { grace_period_seconds: Some(0), ..<_>::default() });
        for name in ["free", "bound"] {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "none"}]}});
            pods.create(&object(pod), &write).await.unwrap();
            // A PodDisruptionBudget only protects running pods.
            let running = pintle_meta::Patch::Merge(json!({"status": {"phase": "Running"}}));
            pods.patch_status(name, &running, &write).await.unwrap();
        }
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "bound"}}}});
        budgets.create(&object(budget), &write).await.unwrap();
        let outcome = pods.evict("bound", &now).await.unwrap();
        // The server asks the client to retry later, because no controller updates the status of the
        // PodDisruptionBudget.
        let EvictionOutcome::Blocked { retry_after, status } = outcome else { panic!("{outcome:?}") };
        assert_eq!(retry_after, Some(Duration::from_secs(10)));
        assert_eq!(status.details.unwrap().causes[0].reason, "DisruptionBudget");
        let dry = DeleteOptions { dry_run: true, ..now.clone() };
        assert_eq!(pods.evict("free", &dry).await.unwrap(), EvictionOutcome::Evicted);
        pods.get("free").await.unwrap();
        assert_eq!(pods.evict("free", &now).await.unwrap(), EvictionOutcome::Evicted);
        assert!(pods.evict("free", &now).await.unwrap_err().is_not_found());
        pods.delete("bound", &now).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn workload_verbs_work_on_a_real_server() {
    in_namespace("verbs", |client, namespace| async move {
        let deployments = api(&client, "apps/v1", "Deployment", "deployments", &namespace);
        let write = WriteOptions::default();
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}}});
        deployments.create(&object(deployment), &write).await.unwrap();
        let mut scale = deployments.scale("web").get().await.unwrap();
        assert_eq!((scale.spec.replicas, &*scale.status.selector), (0, "app=web"));
        scale.spec.replicas = 2;
        let scaled = deployments.scale("web").update(&scale, &write).await.unwrap();
        assert_eq!(scaled.spec.replicas, 2);
        let stale = deployments.scale("web").update(&scale, &write).await.unwrap_err();
        assert!(stale.is_conflict(), "{stale}");
        let restarted = deployments.restart("web", &write).await.unwrap();
        let annotations = &restarted.data["spec"]["template"]["metadata"]["annotations"];
        assert!(annotations["kubectl.kubernetes.io/restartedAt"].is_string(), "{annotations}");

        let nodes = ApiResource::new("v1", "Node", "nodes", Scope::Cluster);
        let nodes: Api<DynamicObject> = Api::dynamic(client.clone(), nodes, None).unwrap();
        let name = namespace.as_str();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        nodes.create(&object(node), &write).await.unwrap();
        assert_eq!(nodes.cordon(name, &write).await.unwrap().data["spec"]["unschedulable"], true);
        assert_eq!(nodes.uncordon(name, &write).await.unwrap().data["spec"].get("unschedulable"), None);
        nodes.delete(name, &DeleteOptions::default()).await.unwrap();

        let accounts = api(&client, "v1", "ServiceAccount", "serviceaccounts", &namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder"}});
        accounts.create(&object(account), &write).await.unwrap();
        let request = TokenRequest { lifetime: Some(Duration::from_secs(600)), ..TokenRequest::default() };
        let token = accounts.create_token("builder", &request).await.unwrap();
        assert_eq!(token.token.expose().split('.').count(), 3, "a JSON Web Token has three parts");
        let short = TokenRequest { lifetime: Some(Duration::from_secs(1)), ..TokenRequest::default() };
        assert!(accounts.create_token("builder", &short).await.unwrap_err().is_invalid());
    })
    .await;
}

#[tokio::test]
async fn watcher_follows_a_real_server() {
    in_namespace("watcher", |client, namespace| async move {
        let maps = api(&client, "v1", "ConfigMap", "configmaps", &namespace);
        let map = |name: &str| object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
        maps.create(&map("a"), &WriteOptions::default()).await.unwrap();
        let partial: Api<PartialObject> =
            Api::dynamic(client.clone(), maps.resource().clone(), Some(&namespace)).unwrap();
        let mut watcher = partial.watcher(&ListOptions { limit: 1, ..ListOptions::default() });
        let mut seen = Vec::new();
        while seen.len() < 5 {
            match watcher.next().await.unwrap().unwrap() {
                WatcherEvent::Init => seen.push("init".to_owned()),
                WatcherEvent::InitApply(object) => seen.push(format!("has {}", object.name())),
                WatcherEvent::InitDone => {
                    seen.push("done".into());
                    maps.create(&map("b"), &WriteOptions::default()).await.unwrap();
                }
                WatcherEvent::Apply(object) => {
                    seen.push(format!("apply {}", object.name()));
                    maps.delete("a", &DeleteOptions::default()).await.unwrap();
                }
                WatcherEvent::Delete(object) => seen.push(format!("delete {}", object.name())),
            }
        }
        assert_eq!(seen, ["init", "has a", "done", "apply b", "delete a"]);
    })
    .await;
}
