//! Tests that concurrent writes preserve invariants across several objects, such as allocations, quotas, namespaces and
//! CustomResourceDefinitions.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, CONFIG_MAPS, PATIENCE, call, delete, get, read, send};

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn server() -> Arc<ApiServer> {
    Arc::new(ApiServer::start(ApiServerConfig::default()).await.expect("a server"))
}

async fn concurrently<F, W>(count: usize, request: F) -> Vec<Answer>
where
    F: Fn(usize) -> W,
    W: Future<Output = Answer> + Send + 'static,
{
    let tasks: Vec<_> = (0..count).map(|number| tokio::spawn(request(number))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("a request"));
    }
    answers
}

fn created(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.code == 201).count()
}

async fn post(server: Arc<ApiServer>, path: &'static str, object: Json) -> Answer {
    call(&server, Method::POST, path, object).await
}

fn service(name: &str, spec: Json) -> Json {
    let mut service = json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    spec.as_object().into_iter().flatten().for_each(|(key, value)| service["spec"][key] = value.clone());
    service
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_services_get_distinct_addresses_and_ports() {
    let server = server().await;
    let make = |number| post(server.clone(), SERVICES, service(&format!("s{number}"), json!({})));
    let answers = concurrently(200, make).await;
    assert_eq!(created(&answers), 200);
    let addresses: BTreeSet<_> = answers.iter().map(|answer| answer.body["spec"]["clusterIP"].to_string()).collect();
    let ports: BTreeSet<_> =
        answers.iter().map(|answer| answer.body["spec"]["ports"][0]["nodePort"].as_i64()).collect();
    assert_eq!((addresses.len(), ports.len()), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requested_address_or_port_goes_to_one_service() {
    for spec in [json!({"clusterIP": "10.0.0.77"}), json!({"ports": [{"port": 80, "nodePort": 30777}]})] {
        let server = server().await;
        let make = |number| post(server.clone(), SERVICES, service(&format!("s{number}"), spec.clone()));
        let answers = concurrently(20, make).await;
        assert_eq!(created(&answers), 1, "{spec}");
        assert!(answers.iter().all(|answer| matches!(answer.code, 201 | 422)), "{spec}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_applies_of_a_new_object_are_merged() {
    const NAMES: usize = 60;
    const APPLIERS: usize = 8;
    let server = server().await;
    let apply = |number: usize| {
        let (server, name, by) = (server.clone(), number / APPLIERS, number % APPLIERS);
        async move {
            let path = format!("{CONFIG_MAPS}/m{name}?fieldManager=m{by}");
            let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{name}")}});
            object["data"][&format!("k{by}")] = "x".into();
            let media = [("content-type", "application/apply-patch+yaml")];
            read(send(&server, Method::PATCH, &path, &media, object.to_string()).await).await
        }
    };
    let answers = concurrently(NAMES * APPLIERS, apply).await;
    assert_eq!(created(&answers), NAMES);
    assert!(answers.iter().all(|answer| matches!(answer.code, 200 | 201)), "{answers:?}");
    for item in get(&server, CONFIG_MAPS).await.body["items"].as_array().expect("a list") {
        assert_eq!(item["data"].as_object().map(|data| data.len()), Some(APPLIERS), "{item}");
    }
}

#[tokio::test]
async fn address_and_port_are_released_with_their_service() {
    let server = server().await;
    let spec = json!({"clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30777}]});
    assert_eq!(post(server.clone(), SERVICES, service("a", spec.clone())).await.code, 201);
    let refused =
        post(server.clone(), SERVICES, service("b", json!({"ports": [{"port": 80, "nodePort": 30777}]}))).await;
    assert_eq!(refused.body["details"]["causes"][0]["field"], "spec.ports[0].nodePort", "{:?}", refused.body);
    assert_eq!(delete(&server, &format!("{SERVICES}/a")).await.code, 200);
    assert_eq!(post(server.clone(), SERVICES, service("b", spec)).await.code, 201);
}

#[tokio::test]
async fn service_is_rejected_when_addresses_are_exhausted() {
    let server = server().await;
    for number in 0..253 {
        let made = post(server.clone(), SERVICES, service(&format!("s{number}"), json!({"type": "ClusterIP"}))).await;
        assert_eq!(made.code, 201, "{number}");
    }
    let refused = post(server.clone(), SERVICES, service("last", json!({"type": "ClusterIP"}))).await;
    assert_eq!((refused.code, &refused.body["reason"]), (500, &json!("InternalError")), "{:?}", refused.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quota_is_exact_under_concurrent_creates() {
    let server = server().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"count/configmaps": "7"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    assert_eq!(call(&server, Method::POST, quotas, quota).await.code, 201);
    let status = json!({"status": {"hard": hard, "used": {"count/configmaps": "0"}}});
    assert_eq!(call(&server, Method::PATCH, &format!("{quotas}/q/status"), status).await.code, 200);
    // Two requests try to create each object, so many requests fail with a conflict although they would not exceed the
    // quota.
    let make = |number| post(server.clone(), CONFIG_MAPS, json!({"metadata": {"name": format!("m{}", number / 2)}}));
    let answers = concurrently(40, make).await;
    assert_eq!(created(&answers), 7);
    assert!(answers.iter().all(|answer| matches!(answer.code, 201 | 403 | 409)));
    let listed = get(&server, CONFIG_MAPS).await.body["items"].as_array().map(Vec::len);
    let used = get(&server, &format!("{quotas}/q")).await.body["status"]["used"]["count/configmaps"].clone();
    assert_eq!((listed, used), (Some(7), json!("7")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_objects_remain_in_a_deleted_namespace() {
    let server = server().await;
    for round in 0..10 {
        server.load("{apiVersion: v1, kind: Namespace, metadata: {name: ns}}").expect("a namespace");
        let path = "/api/v1/namespaces/ns/configmaps";
        let request = |number: usize| {
            let server = server.clone();
            async move {
                match number {
                    10 => delete(&server, "/api/v1/namespaces/ns").await,
                    number => post(server, path, json!({"metadata": {"name": format!("m{number}")}})).await,
                }
            }
        };
        let answers = concurrently(20, request).await;
        assert!(answers.iter().all(|answer| matches!(answer.code, 200 | 201 | 403 | 404)), "{round}: {answers:?}");
        tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
        assert_eq!(get(&server, "/api/v1/namespaces/ns").await.code, 404);
        let left = get(&server, "/api/v1/configmaps?fieldSelector=metadata.namespace=ns").await;
        assert_eq!(left.body["items"], json!([]), "{round}");
    }
}

#[tokio::test]
async fn requests_begun_under_a_deleted_definition_get_404() {
    let server = server().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]});
    let define = async || {
        let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": spec});
        assert_eq!(call(&server, Method::POST, definitions, definition).await.code, 201);
        tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    };
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let body = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}).to_string();
    let begin = async || {
        let address = server.url().trim_start_matches("http://").to_owned();
        let mut socket = TcpStream::connect(&address).await.expect("the server listens");
        let head = format!(
            "POST {widgets} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.expect("a head");
        // The server sends 100 Continue after it has determined the kind of the request. The test waits for this
        // response before it deletes the CustomResourceDefinition.
        let mut response = [0; 25];
        socket.read_exact(&mut response).await.expect("an answer");
        assert_eq!(&response, b"HTTP/1.1 100 Continue\r\n\r\n");
        socket
    };
    let end = async |mut socket: TcpStream| {
        socket.write_all(body.as_bytes()).await.expect("a body");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("an answer");
        answer
    };
    define().await;
    let mut begun = vec![begin().await, begin().await, begin().await];
    assert!(end(begun.remove(0)).await.starts_with("HTTP/1.1 201"));
    assert_eq!(delete(&server, &format!("{definitions}/widgets.example.com")).await.code, 200);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    let answer = end(begun.remove(0)).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    define().await;
    let answer = end(begun.remove(0)).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "the new definition is another one: {answer}");
    assert_eq!(get(&server, widgets).await.body["items"], json!([]));
    assert!(end(begin().await).await.starts_with("HTTP/1.1 201"));
}
