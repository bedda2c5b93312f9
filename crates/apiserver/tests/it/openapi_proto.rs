//! Tests that the OpenAPI documents in protobuf have the same content as in JSON.

use http::Method;
use http_body_util::BodyExt;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::definition_of;
use crate::support::*;

const V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// Returns the fields of a message in order, without the values of varints.
fn fields(mut message: &[u8]) -> Vec<(u32, &[u8])> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                varint(&mut message);
                0
            }
            1 => 8,
            2 => varint(&mut message),
            other => panic!("wire type {other}"),
        };
        let (content, rest) = message.split_at(usize::try_from(length).expect("a length"));
        fields.push((u32::try_from(tag >> 3).expect("a number"), content));
        message = rest;
    }
    fields
}

fn varint(message: &mut &[u8]) -> u64 {
    let length = 1 + message.iter().take_while(|byte| **byte >= 0x80).count();
    let (digits, rest) = message.split_at(length);
    *message = rest;
    digits.iter().rev().fold(0, |value, digit| value << 7 | u64::from(digit & 0x7f))
}

/// Returns the values of all fields at a path of field numbers.
fn at<'a>(message: &'a [u8], path: &[u32]) -> Vec<&'a [u8]> {
    path.iter().fold(vec![message], |messages, number| {
        let fields = messages.into_iter().flat_map(fields);
        fields.filter(|(known, _)| known == number).map(|(_, content)| content).collect()
    })
}

fn texts(message: &[u8], path: &[u32]) -> Vec<String> {
    at(message, path).into_iter().map(|text| String::from_utf8(text.to_vec()).expect("a text")).collect()
}

fn keys(object: &Json) -> Vec<String> {
    object.as_object().expect("an object").keys().map(ToString::to_string).collect()
}

/// Reads a list of entries with a name and a message. Returns all names, and the message of the entry `name`.
fn named<'a>(list: &[&'a [u8]], name: &str) -> (Vec<String>, &'a [u8]) {
    let names: Vec<_> = list.iter().map(|entry| texts(entry, &[1]).concat()).collect();
    let found = names.iter().position(|known| known == name).unwrap_or_else(|| panic!("{name} in {names:?}"));
    (names, at(list[found], &[2])[0])
}

fn json_property_count(schema: &Json) -> usize {
    let named = |member: &str| schema[member].as_object().into_iter().flat_map(pintle_json::Map::values);
    let listed =
        ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|member| schema[member].as_array().into_iter().flatten());
    let single = ["items", "additionalProperties"].into_iter().filter_map(|member| schema.get(member));
    named("properties").count()
        + named("properties").chain(listed).chain(single).map(json_property_count).sum::<usize>()
}

/// Returns the number of properties in an encoded schema, like `json_property_count` for JSON. Each path consists of
/// field numbers and points to nested schemas. The first path points to the schemas of the properties.
fn proto_property_count(schema: &[u8], paths: &[&[u32]]) -> usize {
    let parts = paths.iter().flat_map(|path| at(schema, path));
    at(schema, paths[0]).len() + parts.map(|part| proto_property_count(part, paths)).sum::<usize>()
}

async fn bytes(server: &ApiServer, path: &str, accept: &str) -> (http::HeaderMap, Vec<u8>) {
    let answer = send(server, Method::GET, path, &[("accept", accept)], "").await;
    assert_eq!(answer.status(), 200, "{path}");
    let (head, body) = answer.into_parts();
    (head.headers, body.collect().await.expect("a whole body").to_bytes().to_vec())
}

async fn both(server: &ApiServer, path: &str, accept: &str) -> (Json, Vec<u8>) {
    let json = get(server, path).await;
    let (headers, proto) = bytes(server, path, accept).await;
    assert_eq!(headers["content-type"], accept.replace('@', "."));
    assert_eq!(headers["etag"], json.headers["etag"]);
    assert_eq!(headers["content-length"], proto.len().to_string());
    (json.body, proto)
}

async fn server_with(schema: Json) -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let definition = definition_of(
        "Widget",
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}),
    );
    let made = call(&server, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    server
}

fn widget() -> Json {
    let size = json!({
        "type": "integer",
        "minimum": 2,
        "default": 3,
        "enum": [3, 4],
        "description": "how large",
    });
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": size,
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    }});
    json!({"type": "object", "properties": {"spec": spec}})
}

#[tokio::test]
async fn openapi_v3_protobuf_has_all_paths_and_schemas() {
    let server = server_with(widget()).await;
    for (path, schema, collection, gvk) in [
        (
            "/openapi/v3/apis/apps/v1",
            "io.k8s.api.apps.v1.Deployment",
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            "group: apps\nkind: Deployment\nversion: v1\n",
        ),
        (
            "/openapi/v3/apis/example.com/v1",
            "com.example.v1.Widget",
            "/apis/example.com/v1/namespaces/{namespace}/widgets",
            "group: example.com\nkind: Widget\nversion: v1\n",
        ),
    ] {
        let (json, proto) = both(&server, path, V3).await;
        assert_eq!(texts(&proto, &[1]), ["3.0.0"]);
        assert_eq!(texts(&proto, &[2, 1]), [json["info"]["title"].as_str().expect("a title")]);
        let (paths, item) = named(&at(&proto, &[4, 1]), collection);
        assert_eq!(paths, keys(&json["paths"]));
        let post = &json["paths"][collection]["post"];
        assert_eq!(texts(item, &[6, 5]), [post["operationId"].as_str().expect("an id")]);
        let contents = at(item, &[6, 7, 1, 2, 1]);
        assert_eq!(contents.len(), post["requestBody"]["content"].as_object().expect("forms").len());
        assert_eq!(texts(contents[0], &[2, 1, 2, 1]), [format!("#/components/schemas/{schema}")]);
        assert_eq!(texts(item, &[6, 8, 2, 1]), keys(&post["responses"]));
        let extensions = at(item, &[6, 13]);
        assert_eq!(texts(named(&extensions, "x-kubernetes-action").1, &[2]), ["post\n"]);
        assert_eq!(texts(named(&extensions, "x-kubernetes-group-version-kind").1, &[2]), [gvk]);

        let schemas = at(&proto, &[5, 1, 1]);
        let (names, found) = named(&schemas, schema);
        assert_eq!(names, keys(&json["components"]["schemas"]));
        assert_eq!(texts(found, &[1, 25]), ["object"]);
        let paths: [&[u32]; 6] = [&[1, 31, 1, 2], &[1, 30, 1], &[1, 32, 1], &[1, 26], &[1, 27], &[1, 28]];
        let in_proto: usize =
            schemas.iter().flat_map(|named| at(named, &[2])).map(|schema| proto_property_count(schema, &paths)).sum();
        let in_json: usize =
            json["components"]["schemas"].as_object().expect("schemas").values().map(json_property_count).sum();
        assert!(in_proto == in_json && in_json > 30, "{in_proto} {in_json}");
    }
    let (_, proto) = both(&server, "/openapi/v3/apis/example.com/v1", V3).await;
    let (_, schema) = named(&at(&proto, &[5, 1, 1]), "com.example.v1.Widget");
    let (_, spec) = named(&at(schema, &[1, 31, 1]), "spec");
    assert_eq!(texts(spec, &[1, 23]), ["size"]);
    let (_, tags) = named(&at(spec, &[1, 31, 1]), "tags");
    assert_eq!(texts(named(&at(tags, &[1, 36]), "x-kubernetes-list-type").1, &[2]), ["set\n"]);
    let (names, size) = named(&at(spec, &[1, 31, 1]), "size");
    assert_eq!(names, ["size", "tags"]);
    assert_eq!((texts(size, &[1, 25]), texts(size, &[1, 34])), (vec!["integer".into()], vec!["how large".into()]));
    assert_eq!(at(size, &[1, 13]), [2f64.to_le_bytes()]);
    assert_eq!(at(size, &[1, 33, 1]), [3f64.to_le_bytes()]);
    assert_eq!(texts(size, &[1, 24, 2]), ["3\n", "4\n"]);
}

#[tokio::test]
async fn openapi_v2_protobuf_has_all_paths_and_definitions() {
    let server = server_with(widget()).await;
    let (json, proto) = both(&server, "/openapi/v2", V2).await;
    assert_eq!(texts(&proto, &[1]), ["2.0"]);
    assert_eq!(texts(&proto, &[2, 1]), ["Kubernetes"]);
    let (mut paths, item) = named(&at(&proto, &[8, 2]), "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}");
    paths.sort();
    assert_eq!(paths, keys(&json["paths"]));
    assert_eq!(texts(item, &[3, 5]), ["replaceExampleComV1NamespacedWidget"]);
    assert_eq!(texts(item, &[9, 1, 2, 4, 4]), ["name", "namespace"]);
    assert_eq!(texts(item, &[3, 8, 1, 1, 2]), ["body"]);
    assert_eq!(texts(item, &[3, 8, 1, 1, 5, 1]), ["#/definitions/com.example.v1.Widget"]);
    assert_eq!(texts(item, &[3, 9, 1, 1]), ["200", "201", "401"]);

    let definitions = at(&proto, &[9, 1]);
    let (mut names, schema) = named(&definitions, "com.example.v1.Widget");
    names.sort();
    assert_eq!(names, keys(&json["definitions"]));
    let kinds = named(&at(schema, &[31]), "x-kubernetes-group-version-kind").1;
    assert_eq!(texts(kinds, &[2]), ["- group: example.com\n  kind: Widget\n  version: v1\n"]);
    let (_, spec) = named(&at(schema, &[25, 1]), "spec");
    assert_eq!(texts(spec, &[22, 1]), ["object"]);
    assert_eq!(texts(named(&at(spec, &[25, 1]), "size").1, &[20, 2]), ["3\n", "4\n"]);
    let paths: [&[u32]; 4] = [&[25, 1, 2], &[23, 1], &[21, 1], &[24]];
    let in_proto: usize =
        definitions.iter().flat_map(|named| at(named, &[2])).map(|schema| proto_property_count(schema, &paths)).sum();
    let in_json: usize = json["definitions"].as_object().expect("definitions").values().map(json_property_count).sum();
    assert!(in_proto == in_json && in_json > 1500, "{in_proto} {in_json}");
}

#[tokio::test]
async fn deeply_nested_schemas_are_encoded() {
    let schema =
        (0..50).fold(json!({"type": "string"}), |schema, _| json!({"type": "object", "properties": {"a": schema}}));
    let server = server_with(schema).await;
    let (_, proto) = both(&server, "/openapi/v3/apis/example.com/v1", V3).await;
    let (_, mut schema) = named(&at(&proto, &[5, 1, 1]), "com.example.v1.Widget");
    for _ in 0..50 {
        schema = named(&at(schema, &[1, 31, 1]), "a").1;
    }
    assert_eq!(texts(schema, &[1, 25]), ["string"]);
    let (_, proto) = both(&server, "/openapi/v2", V2).await;
    let (_, mut schema) = named(&at(&proto, &[9, 1]), "com.example.v1.Widget");
    for _ in 0..50 {
        schema = named(&at(schema, &[25, 1]), "a").1;
    }
    assert_eq!(texts(schema, &[22, 1]), ["string"]);
}
