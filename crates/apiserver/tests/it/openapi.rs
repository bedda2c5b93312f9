//! The OpenAPI documents of custom resources.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

/// The document of `v1` of a group with one kind, which has both subresources.
async fn document(scope: &str, kind: &str, group: &str) -> Json {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let plural = format!("{}s", kind.to_lowercase());
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let subresources =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, "listKind": format!("{kind}Collection")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": subresources,
            }],
        },
    });
    let made = call(&server, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    get(&server, &format!("/openapi/v3/apis/{group}/v1")).await.body
}

/// `path method operationId action`, sorted.
fn operations(document: &Json) -> Vec<String> {
    let paths = document["paths"].as_object().expect("paths");
    let mut told: Vec<_> = paths
        .iter()
        .flat_map(|(path, methods)| methods.as_object().into_iter().flatten().map(move |at| (path, at)))
        .filter(|(_, (method, _))| *method != "parameters")
        .map(|(path, (method, operation))| {
            let text = |member: &str| operation[member].as_str().unwrap_or_default();
            format!("{path} {method} {} {}", text("operationId"), text("x-kubernetes-action"))
        })
        .collect();
    told.sort();
    told
}

#[tokio::test]
async fn a_namespaced_kind_has_all_its_paths_with_all_that_can_be_asked_there() {
    let document = document("Namespaced", "Widget", "my-group.example.com").await;
    let root = "/apis/my-group.example.com/v1";
    let all = format!("{root}/namespaces/{{namespace}}/widgets");
    let one = format!("{all}/{{name}}");
    let id = "MyGroupExampleComV1";
    assert_eq!(
        operations(&document),
        [
            format!("{all} delete delete{id}CollectionNamespacedWidget deletecollection"),
            format!("{all} get list{id}NamespacedWidget list"),
            format!("{all} post create{id}NamespacedWidget post"),
            format!("{one} delete delete{id}NamespacedWidget delete"),
            format!("{one} get read{id}NamespacedWidget get"),
            format!("{one} patch patch{id}NamespacedWidget patch"),
            format!("{one} put replace{id}NamespacedWidget put"),
            format!("{one}/scale get read{id}NamespacedWidgetScale get"),
            format!("{one}/scale patch patch{id}NamespacedWidgetScale patch"),
            format!("{one}/scale put replace{id}NamespacedWidgetScale put"),
            format!("{one}/status get read{id}NamespacedWidgetStatus get"),
            format!("{one}/status patch patch{id}NamespacedWidgetStatus patch"),
            format!("{one}/status put replace{id}NamespacedWidgetStatus put"),
            format!("{root}/widgets get list{id}WidgetForAllNamespaces list"),
        ]
    );
    let paths = &document["paths"];
    assert_eq!(paths[&all]["get"]["tags"], json!(["myGroupExampleCom_v1"]));
    for (operation, expected) in [
        (&paths[&all]["get"], "list objects of kind Widget"),
        (&paths[&all]["post"], "create a Widget"),
        (&paths[&all]["delete"], "delete collection of Widget"),
        (&paths[&one]["put"], "replace the specified Widget"),
        (&paths[format!("{one}/scale")]["patch"], "partially update scale of the specified Widget"),
    ] {
        assert_eq!(operation["description"], expected);
    }
}

#[tokio::test]
async fn a_kind_of_the_cluster_has_paths_without_a_namespace() {
    let document = document("Cluster", "Apple", "example.com").await;
    let told = operations(&document);
    assert_eq!(
        told[..2],
        [
            "/apis/example.com/v1/apples delete deleteExampleComV1CollectionApple deletecollection",
            "/apis/example.com/v1/apples get listExampleComV1Apple list"
        ]
    );
    assert!(told.iter().all(|operation| !operation.contains("namespace")));
    assert_eq!(document["paths"]["/apis/example.com/v1/apples"]["post"]["description"], "create an Apple");
}

#[tokio::test]
async fn an_operation_says_what_it_takes_and_answers() {
    let document = document("Namespaced", "Widget", "example.com").await;
    let all = "/apis/example.com/v1/namespaces/{namespace}/widgets";
    let one = format!("{all}/{{name}}");
    let paths = &document["paths"];
    let names = |parameters: &Json| -> Vec<String> {
        let parameters = parameters.as_array().into_iter().flatten();
        parameters.map(|parameter| parameter["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(&paths[&one]["parameters"]), ["name", "namespace", "pretty"]);
    assert_eq!(names(&paths[&one]["patch"]["parameters"]), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert_eq!(names(&paths[&one]["get"]["parameters"]), ["resourceVersion"]);
    // What is common to all operations of a path stands beside them.
    let everywhere = &paths["/apis/example.com/v1/widgets"];
    assert!(names(&everywhere["parameters"]).contains(&"labelSelector".to_owned()));
    assert_eq!(everywhere["get"].get("parameters"), None);
    let content = |schema: &str| {
        let schema = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
        json!({"application/json": schema, "application/yaml": schema})
    };
    let widget = content("com.example.v1.Widget");
    assert_eq!(paths[all]["post"]["requestBody"], json!({"content": widget, "required": true}));
    assert_eq!(
        paths[&one]["delete"]["requestBody"],
        json!({"content": content("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")})
    );
    assert_eq!(
        paths[&one]["put"]["responses"],
        json!({
            "200": {"description": "OK", "content": widget},
            "201": {"description": "Created", "content": widget},
            "401": {"description": "Unauthorized"},
        })
    );
    assert_eq!(paths[all]["get"]["responses"]["200"]["content"], content("com.example.v1.WidgetCollection"));
    assert_eq!(
        paths[format!("{one}/scale")]["get"]["responses"]["200"]["content"],
        content("io.k8s.api.autoscaling.v1.Scale")
    );
}

#[tokio::test]
async fn every_schema_that_a_document_refers_to_is_in_it() {
    fn references<'a>(value: &'a Json, found: &mut Vec<&'a str>) {
        match value {
            Json::Object(members) => members.iter().for_each(|(key, value)| match value.as_str() {
                Some(place) if key == "$ref" => found.push(place),
                _ => references(value, found),
            }),
            Json::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => (),
        }
    }
    let document = document("Namespaced", "Widget", "example.com").await;
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 20);
    for place in found {
        let name = place.strip_prefix("#/components/schemas/").expect("a schema");
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
}
