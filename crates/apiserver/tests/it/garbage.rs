//! Dependents of deleted owners, where some of them cannot be written.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn schema(required: bool) -> Json {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if required {
        schema["required"] = json!(["must"]);
    }
    json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}])
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_cannot_be_written_binds_no_other_and_is_tried_again() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": schema(false)});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
    assert_eq!(call(&server, Method::POST, DEFINITIONS, definition).await.code, 201);
    server.settle().await;
    let owner = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await.body;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let dependent = |name: &str| json!({"metadata": {"name": name, "ownerReferences": [reference]}});
    let widget = |name: &str| {
        let mut widget = dependent(name);
        (widget["apiVersion"], widget["kind"]) = ("example.com/v1".into(), "Widget".into());
        widget
    };
    for name in ["a", "z"] {
        assert_eq!(call(&server, Method::POST, WIDGETS, widget(name)).await.code, 201);
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, dependent(name)).await.code, 201);
    }
    // From now on what the widgets lack keeps every write of them away.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(call(&server, Method::PATCH, &path, json!({"spec": {"versions": schema(true)}})).await.code, 200);
    server.settle().await;
    let owner = format!("{CONFIG_MAPS}/owner");
    assert_eq!(delete(&server, &format!("{owner}?propagationPolicy=Orphan")).await.code, 200);
    server.settle().await;
    let owners = async |path: String| get(&server, &path).await.body["metadata"]["ownerReferences"].clone();
    for name in ["a", "z"] {
        assert!(owners(format!("{CONFIG_MAPS}/{name}")).await.is_null(), "{name} is free");
        assert!(owners(format!("{WIDGETS}/{name}")).await.is_array(), "{name} cannot be written");
    }
    assert_eq!(get(&server, &owner).await.code, 200, "it waits for those that cannot be set free yet");
    assert_eq!(call(&server, Method::PATCH, &path, json!({"spec": {"versions": schema(false)}})).await.code, 200);
    let free = async || get(&server, &owner).await.code == 404;
    assert!(pintle_apiserver::eventually(std::time::Duration::from_secs(300), free).await, "it is tried again");
    for name in ["a", "z"] {
        assert!(owners(format!("{WIDGETS}/{name}")).await.is_null(), "{name} is free");
    }
}
