//! Beside each heavy body, other requests are answered.

use std::time::Duration;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};
use tokio::time::Instant;

use crate::support::*;

/// What is sent before, and then the heavy request.
struct Heavy {
    name: &'static str,
    before: Option<Json>,
    method: Method,
    media: &'static str,
    body: String,
}

fn keys(count: usize) -> Json {
    (0..count).map(|at| (format!("k{at}"), json!("v"))).collect::<pintle_json::Map>().into()
}

fn bodies() -> Vec<Heavy> {
    const MERGE: &str = "application/merge-patch+json";
    let named = |more: Json| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "heavy"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    };
    let labelled =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "heavy", "labels": keys(100_000)}});
    let owners = |range: std::ops::Range<usize>| -> Json {
        range
            .map(|at| json!({"apiVersion": "e.com/v1", "kind": "E", "name": format!("n{at}"), "uid": format!("u{at}")}))
            .collect()
    };
    let unknown: pintle_json::Map = (0..33_000).map(|at| (format!("unknown{at}"), json!(1))).collect();
    let operations: Json =
        (0..30_000).map(|at| json!({"op": "add", "path": format!("/data/k{at}"), "value": "v"})).collect();
    let fields: pintle_json::Map = (0..40_000).map(|at| (format!("f:k{at}"), json!({}))).collect();
    let managed = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": fields}}]);
    let post = |name, body: String| Heavy { name, before: None, method: Method::POST, media: "application/json", body };
    let patch =
        |name, media, body: String| Heavy { name, before: Some(named(json!({}))), method: Method::PATCH, media, body };
    let flow_lists = format!("a: {}{}", "[".repeat(50_000), "]".repeat(50_000));
    let aliases = format!("a: &a {{k: v}}\nb: [{}]\n", "*a, ".repeat(50_000));
    vec![
        post("unknown fields", named(unknown.into()).to_string()),
        post("labels", labelled.to_string()),
        post("keys of data", named(json!({"data": keys(60_000)})).to_string()),
        post("managedFields", {
            let mut object = named(json!({}));
            object["metadata"]["managedFields"] = managed;
            object.to_string()
        }),
        patch("a JSON patch", "application/json-patch+json", operations.to_string()),
        patch("keys of a merge patch", MERGE, json!({"data": keys(60_000)}).to_string()),
        patch("nulls of a merge patch", MERGE, {
            let nulls: pintle_json::Map = (0..100_000).map(|at| (format!("k{at}"), Json::Null)).collect();
            json!({"data": nulls}).to_string()
        }),
        patch("owners of a strategic patch", "application/strategic-merge-patch+json", {
            json!({"metadata": {"ownerReferences": owners(0..10_000)}}).to_string()
        }),
        patch("applied keys", "application/apply-patch+yaml", named(json!({"data": keys(30_000)})).to_string()),
        Heavy {
            name: "nested flow lists",
            before: None,
            method: Method::POST,
            media: "application/yaml",
            body: flow_lists,
        },
        Heavy { name: "aliases", before: None, method: Method::POST, media: "application/yaml", body: aliases },
    ]
}

/// How long a request for readiness waits at most while the heavy one is on its way.
async fn longest_wait(heavy: &Heavy) -> Duration {
    // All of its work is done by one thread, so that whatever holds that is seen; who asks works on others.
    let config = ApiServerConfig { own_thread: true, ..ApiServerConfig::default() };
    let server = std::sync::Arc::new(ApiServer::start(config).await.expect("a server"));
    if let Some(object) = &heavy.before {
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object.clone()).await.code, 201);
    }
    let path = match heavy.method {
        Method::PATCH => format!("{CONFIG_MAPS}/heavy?fieldManager=m"),
        // Warnings of all of them are more headers than the client here takes.
        _ => format!("{CONFIG_MAPS}?fieldValidation=Strict"),
    };
    let (on, method, media, body) = (server.clone(), heavy.method.clone(), heavy.media, heavy.body.clone());
    let sent =
        tokio::spawn(async move { read(send(&on, method, &path, &[("content-type", media)], &body).await).await.code });
    let mut longest = Duration::ZERO;
    while !sent.is_finished() || longest.is_zero() {
        let begun = Instant::now();
        let ready = tokio::time::timeout(PATIENCE, get(&server, "/readyz")).await;
        assert_eq!(ready.map(|answer| answer.code), Ok(200), "{}: {:?}", heavy.name, begun.elapsed());
        longest = longest.max(begun.elapsed());
    }
    assert_ne!(sent.await.expect("no panic"), 504, "{}", heavy.name);
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_is_told_within_a_second_beside_each_heavy_body() {
    const LIMIT: Duration = Duration::from_secs(1);
    // What is measured shares the processors with whatever runs beside this test, which now and then takes them for a while; a server that
    // holds its store, or all its threads, for such a body does so each time.
    const TRIES: usize = 5;
    for heavy in bodies() {
        let mut waits = Vec::new();
        while waits.last().is_none_or(|wait| *wait > LIMIT) {
            assert!(waits.len() < TRIES, "{}: {waits:?}", heavy.name);
            waits.push(longest_wait(&heavy).await);
        }
    }
}
