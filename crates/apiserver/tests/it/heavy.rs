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

/// Each of `parts` parts of a thousand of the full size.
fn bodies(parts: usize) -> Vec<Heavy> {
    let of = |full: usize| full * parts / 1000;
    const MERGE: &str = "application/merge-patch+json";
    let named = |more: Json| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "heavy"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    };
    let labelled =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "heavy", "labels": keys(of(100_000))}});
    let owners = |range: std::ops::Range<usize>| -> Json {
        range
            .map(|at| json!({"apiVersion": "e.com/v1", "kind": "E", "name": format!("n{at}"), "uid": format!("u{at}")}))
            .collect()
    };
    let unknown: pintle_json::Map = (0..of(33_000)).map(|at| (format!("unknown{at}"), json!(1))).collect();
    let operations: Json =
        (0..of(30_000)).map(|at| json!({"op": "add", "path": format!("/data/k{at}"), "value": "v"})).collect();
    let fields: pintle_json::Map = (0..of(40_000)).map(|at| (format!("f:k{at}"), json!({}))).collect();
    let managed = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": fields}}]);
    let post = |name, body: String| Heavy { name, before: None, method: Method::POST, media: "application/json", body };
    let patch =
        |name, media, body: String| Heavy { name, before: Some(named(json!({}))), method: Method::PATCH, media, body };
    let flow_lists = format!("a: {}{}", "[".repeat(of(50_000)), "]".repeat(of(50_000)));
    let aliases = format!("a: &a {{k: v}}\nb: [{}]\n", "*a, ".repeat(of(50_000)));
    vec![
        post("unknown fields", named(unknown.into()).to_string()),
        post("labels", labelled.to_string()),
        post("keys of data", named(json!({"data": keys(of(60_000))})).to_string()),
        post("managedFields", {
            let mut object = named(json!({}));
            object["metadata"]["managedFields"] = managed;
            object.to_string()
        }),
        patch("a JSON patch", "application/json-patch+json", operations.to_string()),
        patch("keys of a merge patch", MERGE, json!({"data": keys(of(60_000))}).to_string()),
        patch("nulls of a merge patch", MERGE, {
            let nulls: pintle_json::Map = (0..of(100_000)).map(|at| (format!("k{at}"), Json::Null)).collect();
            json!({"data": nulls}).to_string()
        }),
        patch("owners of a strategic patch", "application/strategic-merge-patch+json", {
            json!({"metadata": {"ownerReferences": owners(0..of(10_000))}}).to_string()
        }),
        patch("applied keys", "application/apply-patch+yaml", named(json!({"data": keys(of(30_000))})).to_string()),
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
async fn longest_wait(heavy: &Heavy, own_thread: bool) -> Duration {
    // On a thread of its own all of its work is done by that, so that whatever holds it is seen; who asks works on others.
    let config = ApiServerConfig { own_thread, ..ApiServerConfig::default() };
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
async fn what_a_heavy_body_holds_the_servers_thread_for_grows_no_faster_than_the_body() {
    // What is measured shares the processors with whatever runs beside this test: the shortest of a few tries counts. Work that is linear
    // takes four times as long, and what grows with the square sixteen times.
    const MOST: u32 = 8;
    const TRIES: usize = 4;
    // Shorter ones say nothing: somebody else had the processor.
    const LEAST: Duration = Duration::from_millis(300);
    for (part, whole) in bodies(125).iter().zip(bodies(500)) {
        let (mut parts, mut wholes) = (Vec::new(), Vec::new());
        loop {
            parts.push(longest_wait(part, true).await);
            wholes.push(longest_wait(&whole, true).await);
            let shortest = |waits: &[Duration]| waits.iter().copied().min().unwrap_or_default();
            if shortest(&wholes) <= shortest(&parts).max(LEAST) * MOST {
                break;
            }
            assert!(parts.len() < TRIES, "{}: {parts:?}, and {wholes:?}", whole.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_is_told_within_a_second_beside_each_heavy_body() {
    const LIMIT: Duration = Duration::from_secs(1);
    // What is measured shares the processors with whatever runs beside this test, which now and then takes them for a while; a server that
    // holds its store, or all its threads, for such a body does so each time.
    const TRIES: usize = 5;
    for heavy in bodies(1000) {
        let mut waits = Vec::new();
        while waits.last().is_none_or(|wait| *wait > LIMIT) {
            assert!(waits.len() < TRIES, "{}: {waits:?}", heavy.name);
            waits.push(longest_wait(&heavy, false).await);
        }
    }
}
