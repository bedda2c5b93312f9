//! Tests of the OpenAPI documents of built-in kinds and custom resources.

use std::collections::HashSet;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

/// Starts a server with a custom kind in version `v1` of `group`, and the subresources `/status` and `/scale`.
async fn server_with(scope: &str, kind: &str, group: &str) -> ApiServer {
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
    server
}

async fn document(scope: &str, kind: &str, group: &str) -> Json {
    let server = server_with(scope, kind, group).await;
    get(&server, &format!("/openapi/v3/apis/{group}/v1")).await.body
}

/// Returns the documents of all groups and versions by path, without the prefix `/openapi/v3`.
async fn documents(server: &ApiServer) -> Vec<(String, Json)> {
    let index = get(server, "/openapi/v3").await.body;
    let mut documents = Vec::new();
    for (path, place) in index["paths"].as_object().expect("paths") {
        let found = get(server, place["serverRelativeURL"].as_str().expect("a place")).await;
        assert_eq!(found.code, 200, "{path}");
        documents.push((format!("/{path}"), found.body));
    }
    documents
}

/// Returns the sorted operations in the form `path method operationId action`.
fn operations(document: &Json) -> Vec<String> {
    let paths = document["paths"].as_object().expect("paths");
    let mut lines: Vec<_> = paths
        .iter()
        .flat_map(|(path, methods)| methods.as_object().into_iter().flatten().map(move |at| (path, at)))
        .filter(|(_, (method, _))| *method != "parameters")
        .map(|(path, (method, operation))| {
            let text = |member: &str| operation[member].as_str().unwrap_or_default();
            format!("{path} {method} {} {}", text("operationId"), text("x-kubernetes-action"))
        })
        .collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn namespaced_kind_has_all_paths_and_operations() {
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
async fn cluster_scoped_kind_has_paths_without_a_namespace() {
    let document = document("Cluster", "Apple", "example.com").await;
    let operations = operations(&document);
    assert_eq!(
        operations[..2],
        [
            "/apis/example.com/v1/apples delete deleteExampleComV1CollectionApple deletecollection",
            "/apis/example.com/v1/apples get listExampleComV1Apple list"
        ]
    );
    assert!(operations.iter().all(|operation| !operation.contains("namespace")));
    assert_eq!(document["paths"]["/apis/example.com/v1/apples"]["post"]["description"], "create an Apple");
}

#[tokio::test]
async fn operations_have_parameters_bodies_and_responses() {
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
    // If a path has only one operation, its parameters belong to the path.
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

#[track_caller]
fn check_references(name: &str, document: &Json) {
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(found.len() > 10, "{name}: {found:?}");
    for place in found {
        let pointer = place.strip_prefix('#').expect("the reference is a pointer into the document");
        assert!(document.at(pointer).is_some_and(Json::is_object), "{name}: {place}");
    }
}

#[tokio::test]
async fn all_references_resolve_within_their_document() {
    let server = server_with("Namespaced", "Widget", "example.com").await;
    for (path, document) in documents(&server).await {
        check_references(&path, &document);
    }
    check_references("version 2", &get(&server, "/openapi/v2").await.body);
}

fn named(schemas: &Json, group: &str, version: &str, kind: &str) -> Vec<String> {
    let wanted = json!({"group": group, "version": version, "kind": kind});
    let known = |schema: &Json| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.contains(&wanted))
    };
    let found = schemas.as_object().expect("schemas").iter().filter(|(_, schema)| known(schema));
    found.map(|(name, _)| name.to_string()).collect()
}

#[tokio::test]
async fn each_served_kind_and_list_has_one_schema() {
    let server = server_with("Namespaced", "Widget", "example.com").await;
    let all = get(&server, "/openapi/v2").await.body;
    for (path, document) in documents(&server).await {
        let resources = get(&server, &path).await.body;
        let own = resources["groupVersion"].as_str().expect("a version");
        let (own_group, own_version) = own.split_once('/').unwrap_or(("", own));
        for resource in resources["resources"].as_array().expect("resources") {
            let text = |member: &str| resource[member].as_str();
            let (group, version) = (text("group").unwrap_or(own_group), text("version").unwrap_or(own_version));
            let kind = text("kind").expect("a kind");
            let schemas = &document["components"]["schemas"];
            let found = named(schemas, group, version, kind);
            assert_eq!(found.len(), 1, "{path} {kind}: {found:?}");
            assert_eq!(named(&all["definitions"], group, version, kind), found, "{path} {kind} in version 2");
            assert!(schemas[&found[0]]["properties"]["metadata"].is_object(), "{path} {kind}");
            if resource["verbs"].as_array().expect("verbs").contains(&json!("list")) {
                let lists = if kind == "Widget" { "WidgetCollection".to_owned() } else { format!("{kind}List") };
                assert_eq!(named(schemas, group, version, &lists).len(), 1, "{path} {lists}");
            }
        }
    }
}

#[tokio::test]
async fn operations_match_the_verbs_of_discovery() {
    let server = server_with("Namespaced", "Widget", "example.com").await;
    let mut ids = HashSet::new();
    let all = get(&server, "/openapi/v2").await.body;
    for (path, document) in documents(&server).await {
        let mut expected = Vec::new();
        if !path.contains("example.com") {
            expected.push(format!("{path}/ get "));
        }
        let resources = get(&server, &path).await.body;
        for resource in resources["resources"].as_array().expect("resources") {
            let name = resource["name"].as_str().expect("a name");
            let namespaced = resource["namespaced"] == true;
            let (plural, part) = name.split_once('/').unwrap_or((name, ""));
            let collection = format!("{path}{}/{plural}", if namespaced { "/namespaces/{namespace}" } else { "" });
            let object = format!("{collection}/{{name}}{}{part}", if part.is_empty() { "" } else { "/" });
            for verb in resource["verbs"].as_array().expect("verbs") {
                expected.extend(match verb.as_str().expect("a verb") {
                    "create" if part.is_empty() => vec![format!("{collection} post post")],
                    "create" => vec![format!("{object} post post")],
                    "list" if namespaced => {
                        vec![format!("{collection} get list"), format!("{path}/{plural} get list")]
                    }
                    "list" => vec![format!("{collection} get list")],
                    "deletecollection" => vec![format!("{collection} delete deletecollection")],
                    "update" => vec![format!("{object} put put")],
                    verb @ ("get" | "patch" | "delete") => vec![format!("{object} {verb} {verb}")],
                    "watch" => Vec::new(),
                    verb => panic!("{name}: {verb}"),
                });
            }
        }
        expected.sort();
        let mut found = Vec::new();
        for operation in operations(&document) {
            let words: Vec<_> = operation.split(' ').collect();
            assert!(ids.insert(words[2].to_owned()), "{operation}: duplicate operation ID");
            assert_eq!(all["paths"][words[0]][words[1]]["operationId"], words[2], "in version 2");
            found.push([words[0], words[1], words[3]].join(" "));
        }
        found.sort();
        assert_eq!(found, expected, "{path}");
    }
}

#[tokio::test]
async fn document_hash_changes_only_with_the_schema() {
    let server = server_with("Cluster", "Apple", "example.com").await;
    let tags = async || {
        let index = get(&server, "/openapi/v3").await.body;
        ["apis/example.com/v1", "apis/apps/v1"].map(|path| index["paths"][path]["serverRelativeURL"].clone())
    };
    let (old, first) = (tags().await, get(&server, "/openapi/v3/apis/example.com/v1").await.body);
    assert_eq!(tags().await, old);
    let change = json!({"spec": {"names": {"shortNames": ["ap"]}}});
    let place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/apples.example.com";
    assert_eq!(call(&server, Method::PATCH, place, change).await.code, 200);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    // The ETag does not change, because the document does not contain short names.
    assert_eq!(tags().await, old);
    assert_eq!(get(&server, "/openapi/v3/apis/example.com/v1").await.body, first);
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/z";
    let more = json!([{"op": "add", "path": field, "value": {"type": "string"}}]).to_string();
    let headers = [("content-type", "application/json-patch+json")];
    let patched = read(send(&server, Method::PATCH, place, &headers, more).await).await;
    assert_eq!(patched.code, 200, "{:?}", patched.body);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let new = tags().await;
    assert_ne!(new[0], old[0]);
    assert_eq!(new[1], old[1]);
    let document = get(&server, new[0].as_str().expect("a place")).await.body;
    assert_eq!(document["components"]["schemas"]["com.example.v1.Apple"]["properties"]["z"], json!({"type": "string"}));
    let all = get(&server, "/openapi/v2").await.body;
    assert_eq!(all["definitions"]["com.example.v1.Apple"]["properties"]["z"], json!({"type": "string"}));
}

/// Adds to `found` the JSON pointers of all empty lists and objects whose member name is in `names`.
fn empty_members(value: &Json, names: &[&str], at: &str, found: &mut Vec<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        let place = format!("{at}/{name}");
        let empty =
            member.as_array().is_some_and(Vec::is_empty) || member.as_object().is_some_and(|map| map.is_empty());
        if empty && names.contains(&name.as_str()) {
            found.push(place.clone());
        }
        empty_members(member, names, &place, found);
    }
}

#[tokio::test]
async fn empty_parameters_and_properties_are_omitted() {
    let server = server_with("Namespaced", "Widget", "probe.io").await;
    for (path, document) in documents(&server).await {
        let mut found = Vec::new();
        empty_members(&document["paths"], &["parameters"], "", &mut found);
        for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
            if schema.get("properties").is_some_and(|all| all.as_object().is_some_and(|map| map.is_empty())) {
                found.push(name.as_str().to_owned());
            }
        }
        assert_eq!(found, Vec::<String>::new(), "{path}");
    }
}

#[tokio::test]
async fn kind_and_list_schemas_have_the_selectable_fields() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let definition = json!({
        "metadata": {"name": "sels.probe.io"},
        "spec": {
            "group": "probe.io",
            "scope": "Namespaced",
            "names": {"plural": "sels", "kind": "Sel"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.a"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    let made = call(&server, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let schemas = get(&server, "/openapi/v3/apis/probe.io/v1").await.body["components"]["schemas"].take();
    for name in ["io.probe.v1.Sel", "io.probe.v1.SelList"] {
        assert_eq!(schemas[name]["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.a"}]), "{name}");
    }
}
