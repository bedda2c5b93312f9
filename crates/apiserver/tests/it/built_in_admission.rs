//! Tests of the order of built-in admission plugins, mutating policies and mutating webhooks.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::policies::{mutating, patch, rules};
use crate::support::*;
use crate::webhooks::{MUTATING, Webhook, patched, register};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Starts a server that calls the webhook for all creates, updates and connect requests.
async fn server_with(webhook: &Webhook) -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    create(&server, CLASSES, json!({"metadata": {"name": "high"}, "value": 77})).await;
    let rule = json!({
        "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["*/*"], "operations": ["CREATE", "UPDATE", "CONNECT"],
    });
    register(&server, MUTATING, webhook.client_config(), json!({"rules": [rule]})).await;
    server
}

fn pod(name: &str, more: Json) -> Json {
    let mut spec = json!({"containers": [{"name": "c", "image": "x"}]});
    more.members("").for_each(|(name, value)| spec.set(name.as_str(), value.clone()));
    json!({"metadata": {"name": name}, "spec": spec})
}

fn ingress() -> Json {
    json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
}

fn claim() -> Json {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({"metadata": {"name": "c"}, "spec": spec})
}

/// The operations of the webhook's patches. An operation `test` fails unless a built-in plugin has already set the
/// field.
fn changes(object: &Json) -> Json {
    let test = |path: &str, value: Json| json!({"op": "test", "path": path, "value": value});
    let finalizer = || json!({"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/z"});
    match object.text("/kind") {
        "Pod" => json!([
            test("/spec/priority", json!(0)),
            test("/spec/preemptionPolicy", json!("PreemptLowerPriority")),
            {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}},
        ]),
        "PersistentVolumeClaim" => json!([test("/spec/storageClassName", json!("disk")), finalizer()]),
        "PersistentVolume" | "VolumeAttributesClass" => json!([finalizer()]),
        "Ingress" => json!([test("/spec/ingressClassName", json!("front"))]),
        "Node" => json!([test("/spec/taints/0/key", json!("node.kubernetes.io/not-ready"))]),
        _ => json!([]),
    }
}

#[tokio::test]
async fn webhook_patches_fields_of_built_in_plugins() {
    let webhook = Webhook::start(&["127.0.0.1"], |request| patched(&changes(&request["object"]))).await;
    let server = server_with(&webhook).await;
    let default = |kind: &str| {
        let annotation = format!("{kind}.kubernetes.io/is-default-class");
        json!({annotation: "true"})
    };
    let class = json!({"metadata": {"name": "disk", "annotations": default("storageclass")}, "provisioner": "x.y/z"});
    create(&server, "/apis/storage.k8s.io/v1/storageclasses", class).await;
    let class =
        json!({"metadata": {"name": "front", "annotations": default("ingressclass")}, "spec": {"controller": "a.b/c"}});
    create(&server, "/apis/networking.k8s.io/v1/ingressclasses", class).await;
    let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let attributes = json!({"metadata": {"name": "a"}, "driverName": "d", "parameters": {"a": "b"}});
    let added = |plugin: &str| json!([format!("kubernetes.io/{plugin}-protection"), "example.com/z"]);
    for (path, object, pointer, expected) in [
        (PODS, pod("p", json!({})), "/spec/tolerations/2", json!({"key": "k", "operator": "Exists"})),
        ("/api/v1/namespaces/default/persistentvolumeclaims", claim(), "/metadata/finalizers", added("pvc")),
        (
            "/api/v1/persistentvolumes",
            json!({"metadata": {"name": "v"}, "spec": volume}),
            "/metadata/finalizers",
            added("pv"),
        ),
        ("/apis/storage.k8s.io/v1/volumeattributesclasses", attributes, "/metadata/finalizers", added("vac")),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            ingress(),
            "/spec/ingressClassName",
            json!("front"),
        ),
        ("/api/v1/nodes", json!({"metadata": {"name": "n"}}), "/spec/taints/0/effect", json!("NoSchedule")),
    ] {
        let made = create(&server, path, object).await;
        assert_eq!(made.at(pointer), Some(&expected), "{made}");
    }
}

#[tokio::test]
async fn webhook_does_not_see_allocated_addresses() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = server_with(&webhook).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = create(&server, "/api/v1/namespaces/default/services", service).await;
    assert_eq!(made["spec"]["clusterIP"], "10.0.0.2");
    assert_eq!(webhook.requests()[0]["object"]["spec"].get("clusterIP"), None);
}

/// The built-in plugins run again after a change by a webhook, even if the webhook is never reinvoked.
#[tokio::test]
async fn plugins_check_the_class_that_a_webhook_sets() {
    let set = json!([{"op": "add", "path": "/spec/priorityClassName", "value": "high"}]);
    let webhook = Webhook::start(&["127.0.0.1"], move |_| patched(&set)).await;
    let server = server_with(&webhook).await;
    let refused = call(&server, Method::POST, PODS, pod("p", json!({}))).await;
    let expected = "pods \"p\" is forbidden: the integer value of priority (0) must not be provided in pod spec; priority \
                    admission controller computed 77 from the given PriorityClass name";
    assert_eq!((refused.code, refused.body.text("/message")), (403, expected));
    assert_eq!(webhook.requests().len(), 1);
}

#[tokio::test]
async fn policy_sees_the_defaults_of_built_in_plugins() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let labels = "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'priority': string(object.spec.priority), \
                  'tolerations': string(size(object.spec.tolerations))}}]";
    let pods = json!({"matchConstraints": rules(&["pods"], &["CREATE"])});
    mutating(&server, "labels", "IfNeeded", patch(labels), pods).await;
    let made = create(&server, PODS, pod("p", json!({}))).await;
    assert_eq!(made["metadata"]["labels"], json!({"priority": "0", "tolerations": "2"}));
}

#[tokio::test]
async fn webhook_sees_restored_priority_of_an_update() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = server_with(&webhook).await;
    let mut made = create(&server, PODS, pod("p", json!({"priorityClassName": "high"}))).await;
    for field in ["priority", "preemptionPolicy", "tolerations"] {
        made["spec"].unset(field);
    }
    let put = call(&server, Method::PUT, &format!("{PODS}/p"), made).await;
    assert_eq!(put.code, 200, "{:?}", put.body);
    let seen = &webhook.requests()[1]["object"]["spec"];
    assert_eq!((&seen["priority"], seen.list("/tolerations").count()), (&json!(77), 2));
}

#[tokio::test]
async fn webhook_sees_topology_labels_of_a_binding() {
    let webhook = Webhook::start(&["127.0.0.1"], |_| json!({"allowed": true})).await;
    let server = server_with(&webhook).await;
    let zone = json!({"topology.kubernetes.io/zone": "z"});
    create(&server, "/api/v1/nodes", json!({"metadata": {"name": "n", "labels": zone}})).await;
    create(&server, PODS, pod("p", json!({}))).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    create(&server, &format!("{PODS}/p/binding"), binding).await;
    assert_eq!(webhook.requests()[2]["object"]["metadata"]["labels"], zone);
    assert_eq!(get(&server, &format!("{PODS}/p")).await.body["metadata"]["labels"], zone);
}

/// Mutating admission runs before the server generates a name, and validating admission runs afterwards.
#[tokio::test]
async fn plugin_error_names_the_prefix_of_generated_names() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    for (spec, prefix) in
        [(json!({"priorityClassName": "none"}), "pods \"g-\" is"), (json!({"overhead": {"cpu": "1"}}), "pods \"g-")]
    {
        let mut pod = pod("", spec);
        pod["metadata"] = json!({"generateName": "g-"});
        let refused = call(&server, Method::POST, PODS, pod).await;
        let message = refused.body.text("/message");
        assert!(refused.code == 403 && message.starts_with(prefix), "{message}");
        assert_eq!(message.starts_with("pods \"g-\" is"), prefix.ends_with("is"), "{message}");
    }
}

#[tokio::test]
async fn only_one_priority_class_is_the_global_default() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let class = |name: &str, value: i64, is_default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default});
    create(&server, CLASSES, class("first", 77, true)).await;
    create(&server, CLASSES, class("other", 5, false)).await;
    let path = |name: &str| format!("{CLASSES}/{name}");
    let refused = |name: &str| {
        format!(
            "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: PriorityClass first is already marked as default. Only one \
             default can exist"
        )
    };
    let (default, none) = (json!({"globalDefault": true}), json!({"globalDefault": false}));
    for (method, path, body, code, message) in [
        (Method::POST, CLASSES.to_owned(), class("second", 78, true), 403, refused("second")),
        (Method::POST, CLASSES.to_owned(), class("first", 77, true), 403, refused("first")),
        (Method::PATCH, path("other"), default.clone(), 403, refused("other")),
        (Method::PUT, path("other"), class("other", 5, true), 403, refused("other")),
        (Method::PATCH, path("first"), json!({"globalDefault": true, "description": "d"}), 200, String::new()),
        (Method::PATCH, path("first"), none, 200, String::new()),
        (Method::PATCH, path("other"), default, 200, String::new()),
    ] {
        let answer = call(&server, method, &path, body).await;
        assert_eq!((answer.code, answer.body.text("/message")), (code, message.as_str()), "{path}");
    }
}
